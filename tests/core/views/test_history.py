"""The history of a connector for programs: events, and texts without secrets."""

from typing import Any

import pytest

from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.core.views.diff import Aspect
from controlplane.core.views.history import HistoryEvent, history
from controlplane.core.views.history_text import event_document
from tests.core.logs import config, connector, offsets, status, tasks

KIP = Profile.of("kip")


def event_words(events: list[HistoryEvent]) -> list[tuple[str, str]]:
    """Return kind and text of each event."""
    return [(event.what, event.words) for event in events]


def test_events_of_all_topics_are_in_one_order() -> None:
    """The history has the records about the connector, from all topics, by time."""
    log = [
        *status(("status-connector-c", '{"state":"RUNNING","worker_id":"w","generation":1}')),
        *config(connector("c"), connector("d"), *tasks("c", 1), ("restart-connector-c", "{}")),
        *offsets(('["c",{"p":1}]', '{"at":1}'), ('["d",{"p":1}]', '{"at":1}')),
    ]
    connector_history = history(log, "c", KIP)
    assert [f"{record.topic}@{record.offset}" for record in connector_history.records] == [
        "connect-configs@0",
        "connect-offsets@0",
        "connect-status@0",
        "connect-configs@2",
        "connect-configs@3",
        "connect-configs@4",
    ]
    assert event_words(connector_history.events) == [
        ("connector", "created"),
        ("target state", "∅ → STARTED"),
        ('source offset {"p": 1}', '∅ → {"at": 1}'),
        ("status", "∅ → RUNNING on w"),
        ("task config", "of task 0 waits for the commit"),
        ("task config 0", '∅ → {"n": "0"}'),
        ("tasks", "0 → 1"),
        ("restart", "requested"),
    ]
    assert history(log, "nobody", KIP) == ([], [])


def test_a_task_count_tells_what_the_next_fencing_concerns() -> None:
    """A task count is written after fencing: the number of producers to fence next (KIP-618)."""
    log = config(connector("c"), ("tasks-fencing-c", '{"task-count":2}'))
    *_, last = history(log, "c", KIP).events
    expected = "older producers are fenced; 2 to fence the next time"
    assert (last.what, last.words) == ("fencing", expected)


def test_texts_hide_secrets() -> None:
    """The texts hide secrets; the event's record, `before` and `after` keep them."""
    log = config(connector("c", password="one-secret"), connector("c", password="other-secret"))
    *_, last = history(log, "c", KIP).events
    assert (last.aspect, last.before, last.after) == (Aspect.CONFIG, "one-secret", "other-secret")
    assert last.values == ("[hidden]", "[hidden]")
    assert last.words == "[hidden] → [hidden] (another value)"
    log = config(connector("c", url="jdbc:x://u:one@h"), connector("c", url="jdbc:x://u:two@h"))
    *_, last = history(log, "c", KIP).events
    assert last.words == "jdbc:x://u:[hidden]@h → jdbc:x://u:[hidden]@h (another value)"


def test_values_that_look_alike_are_told_apart() -> None:
    """A hidden secret of an offset, and a value of another type, are changes in words, too."""
    key = '["c",{"p":1}]'
    log = offsets((key, '{"token":"one"}'), (key, '{"token":"two"}'))
    *_, last = history(log, "c", KIP).events
    assert last.words == '{"token": "[hidden]"} → {"token": "[hidden]"} (another value)'
    versions = [("task-c-0", f'{{"properties":{{"n":{value}}}}}') for value in ("1", "true")]
    commit = "commit-c", '{"tasks":1}'
    log = config(connector("c"), versions[0], commit, versions[1], commit)
    *_, last = history(log, "c", KIP).events
    assert (last.what, last.words) == ("task config 0", "n: 1 → true")


@pytest.mark.parametrize(
    ("before", "after", "words", "members"),
    [
        ('{"a":1,"b":1}', '{"a":true,"b":1}', "a: 1 → true", ({"a": 1}, {"a": True})),
        (
            '{"a":{"b":1}}',
            '{"a":{"b":1.0}}',
            'a: {"b": 1} → {"b": 1.0}',
            ({"a": {"b": 1}}, {"a": {"b": 1.0}}),
        ),
        ('{"a":null,"b":1}', '{"b":1}', "a: null → ∅", ({"a": None}, {})),
        ('{"b":1}', '{"a":null,"b":1}', "a: ∅ → null", ({}, {"a": None})),
        (
            '{"a":null}',
            '{"a":"null"}',
            "a: null → null (another value)",
            ({"a": None}, {"a": "null"}),
        ),
    ],
)
def test_members_of_task_configs_are_compared_as_in_java(
    before: str, after: str, words: str, members: tuple[Any, Any]
) -> None:
    """The numbers 1 and 1.0 and true differ, and a member that is null is not absent."""
    commit = ("commit-c", '{"tasks":1}')
    values = (f'{{"properties":{properties}}}' for properties in (before, after))
    task_records = [record for value in values for record in (("task-c-0", value), commit)]
    events = history(config(connector("c"), *task_records), "c", KIP).events
    *_, last = (event for event in events if event.aspect is Aspect.TASK_CONFIG)
    document = event_document(last, Topics())
    assert last.words == words
    assert repr((document["before"], document["after"])) == repr(members)


def test_a_changed_secret_of_a_task_is_a_member_that_differs() -> None:
    """The JSON of a change names the member; both of its values are hidden."""
    commit = ("commit-c", '{"tasks":1}')
    values = (f'{{"properties":{{"a":"1","db.password":"{word}"}}}}' for word in ("old", "new"))
    task_records = [record for value in values for record in (("task-c-0", value), commit)]
    events = history(config(connector("c"), *task_records), "c", KIP).events
    *_, last = (event for event in events if event.aspect is Aspect.TASK_CONFIG)
    document = event_document(last, Topics())
    assert document["before"] == document["after"] == {"db.password": "[hidden]"}


def test_the_history_uses_topics_and_isolation_of_the_worker() -> None:
    """The history uses the worker's topics and isolation."""
    entry = Entry("mine", 0, 0, 0, b"connector-c", b'{"properties":{}}', aborted=True)
    topics = Topics(config="mine")
    assert history([entry], "c", KIP).records == []
    assert history([entry], "c", KIP, topics=topics).records == [entry]
    assert history([entry], "c", KIP, topics=topics, exactly_once=True).records == []
