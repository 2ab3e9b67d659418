"""Record that explains why a worker's memory differs from its log, per kind of difference."""

from typing import Any
from urllib.parse import quote

import pytest

from controlplane.cli.verify.worker_check import explanation as explanation_module
from controlplane.cli.verify.worker_check.answer_progress import ComparedAnswers, equal
from controlplane.cli.verify.worker_check.comparison_rounds import CheckedLog
from controlplane.cli.verify.worker_check.explanation import Explainer, Explanation
from controlplane.core.codec.offsets import encode_partition
from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.moments import position_text
from controlplane.core.order import in_order
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.logs.memory import MemoryLog
from controlplane.scenario.story import RecordedAnswer

CONFIG = b'{"properties":{"name":"c"}}'
OTHER = b'{"properties":{"name":"c","a":"b"}}'
RUNNING = b'{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":1}'
FAILED = RUNNING.replace(b"RUNNING", b"FAILED")
C0 = {"connector": "c", "task": 0}


def log(*records: tuple[str, int, str, bytes | None]) -> list[Entry]:
    """Records (topic, partition, key, value) in the order of writing, with their offsets."""
    entries: list[Entry] = []
    for topic, partition, key, value in records:
        name = f"connect-{topic}"
        offset = sum((entry.topic, entry.partition) == (name, partition) for entry in entries)
        entries.append(Entry(name, partition, offset, len(entries), key.encode(), value))
    return entries


def explained(
    entries: list[Entry], path: str, status: int, answer: Any, release: str = "3.9"
) -> tuple[str | None, Explanation]:
    """Position and explanation for an answer of a worker with this log."""
    profile, topics = Profile.of(release), Topics()
    checked = CheckedLog(MemoryLog(), topics=topics, plugins=Plugins(), typed=False)
    folded = checked.answer(fold(in_order(entries), profile), path)
    explainer = Explainer(in_order(entries), topics, profile, checked, exactly_once=False)
    worker = checked.comparable(path, RecordedAnswer(status, answer))
    explanation = explainer.explain(path, ComparedAnswers(worker, folded, folded))
    place = (
        None if explanation.record is None else position_text(explanation.record.position, topics)
    )
    return place, explanation


TASKS = [
    ("configs", 0, "connector-c", CONFIG),
    ("configs", 0, "task-c-0", CONFIG),
    ("configs", 0, "commit-c", b'{"tasks":1}'),
]
EDGE = log(
    *TASKS,
    ("status", 0, "status-connector-c", RUNNING),
    ("status", 0, "status-connector-c", None),
    ("status", 0, "status-connector-c", RUNNING),
    ("status", 1, "status-task-c-0", RUNNING),
)
"""Log of a connector that was recreated: its tombstone lies in another partition."""

REPORT = {"state": "RUNNING", "worker_id": "w:1"}


@pytest.mark.parametrize(
    ("path", "status", "answer"),
    [
        ("/connectors/c/status", 200, {"name": "c", "connector": REPORT, "tasks": []}),
        ("/connectors/c/tasks/0/status", 404, {"error_code": 404, "message": "No status"}),
        (
            "/connectors?expand=status&expand=info",
            200,
            {
                "c": {
                    "status": {"name": "c", "connector": REPORT, "tasks": []},
                    "info": {"name": "c", "config": {"name": "c"}, "tasks": [C0]},
                }
            },
        ),
    ],
)
def test_the_order_between_partitions_is_an_explanation(
    path: str, status: int, answer: Any
) -> None:
    """The tombstone explains the difference; the sentence also names the task's record.

    This is edge 20 of docs/releases.md.
    """
    place, explanation = explained(EDGE, path, status, answer)
    assert (place, explanation.order_edge) == ("status@1", True)
    assert explanation.reason == (
        "order between partitions: only a worker that read status@1:0 after this tombstone "
        "shows task 0"
    )


def test_another_state_of_a_task_is_no_order_edge() -> None:
    """Both sides have the task: the worker has not read its last record."""
    failed = Entry("connect-status", 1, 1, 99, b"status-task-c-0", FAILED)
    tasks = [{"id": 0, **REPORT}]
    answer = {"name": "c", "connector": REPORT, "tasks": tasks}
    place, explanation = explained([*EDGE, failed], "/connectors/c/status", 200, answer)
    assert (place, explanation.order_edge) == ("status@1:1", False)
    assert explanation.reason == "the worker answers as before this record"


def test_an_offset_in_two_partitions_is_explained() -> None:
    """Another writer has put a key into another partition than Kafka's partitioner."""
    key = '["c",{"f":1}]'
    entries = log(TASKS[0], ("offsets", 0, key, b'{"at":1}'), ("offsets", 3, key, b'{"at":2}'))
    answer = {"offsets": [{"partition": {"f": 1}, "offset": {"at": 1}}]}
    place, explanation = explained(entries, "/connectors/c/offsets", 200, answer)
    assert (place, explanation.order_edge) == ("offsets@3:0", True)
    assert explanation.reason == "order between partitions: the same key is at offsets@0"


@pytest.mark.parametrize("name", ["c", 'a"b', "a\\b", "\U0001f600"])
def test_offsets_are_traced_for_every_name(name: str) -> None:
    """A key of offsets has the name with JSON's escapes; the missed record is found."""
    key = encode_partition(name, {"f": 1}).decode()
    entries = log(
        ("configs", 0, f"connector-{name}", CONFIG),
        *(("offsets", 0, key, b'{"at":%d}' % at) for at in (1, 2, 3)),
    )
    answer = {"offsets": [{"partition": {"f": 1}, "offset": {"at": 1}}]}
    path = f"/connectors/{quote(name, safe='')}/offsets"
    place, explanation = explained(entries, path, 200, answer)
    assert (place, explanation.reason) == (
        "offsets@1",
        "the worker answers as before this record",
    )


def test_many_offsets_are_compared_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers are compared only where no record contradicts the worker's, not at each one."""
    keys = [encode_partition("c", {"f": number}).decode() for number in range(100)]
    entries = log(
        TASKS[0],
        *(("offsets", 0, key, b'{"at":1}') for key in keys),
        ("offsets", 0, keys[7], b'{"at":2}'),
        ("offsets", 0, keys[8], None),
    )
    compared: list[RecordedAnswer] = []

    def counted(recorded: RecordedAnswer, other: RecordedAnswer) -> bool:
        compared.append(other)
        return equal(recorded, other)

    monkeypatch.setattr(explanation_module, "equal", counted)
    listed = [{"partition": {"f": number}, "offset": {"at": 1}} for number in range(100)]
    place, explanation = explained(entries, "/connectors/c/offsets", 200, {"offsets": listed})
    assert (place, explanation.reason) == (
        "offsets@100",
        "the worker answers as before this record",
    )
    assert len(compared) <= 4


@pytest.mark.parametrize("release", ["3.4", "3.9", "4.3"])
def test_the_first_differing_record_is_named(release: str) -> None:
    """The first record after which the log's answer differs from the worker's is named."""
    entries = log(
        *TASKS, ("configs", 0, "connector-c", OTHER), ("configs", 0, "connector-d", OTHER)
    )
    place, explanation = explained(entries, "/connectors/c/config", 200, {"name": "c"}, release)
    assert (place, explanation.reason) == ("config@3", "the worker answers as before this record")
    place, _ = explained(entries, "/connectors", 200, ["c"], release)
    assert place == "config@4"
    place, _ = explained(entries, "/connectors/c", 404, {"error_code": 404}, release)
    assert place == "config@0"


def test_the_record_that_loses_a_batch_is_named() -> None:
    """A commit without an integer throws: the worker loses the records behind it."""
    entries = log(
        *TASKS, ("configs", 0, "commit-c", b'{"tasks":"x"}'), ("configs", 0, "connector-d", OTHER)
    )
    place, explanation = explained(entries, "/connectors", 200, ["c"])
    assert place == "config@3"
    assert explanation.reason == (
        "a worker throws at this record and loses what follows: it has not taken config@4"
    )


def test_the_record_that_ends_the_log_thread_is_named() -> None:
    """Up to 3.8 a null key ends the log thread permanently; from 3.9 on it costs one batch."""
    many = [("configs", 0, f"connector-{number}", OTHER) for number in range(600)]
    poison = Entry("connect-configs", 0, 3, 3, None, OTHER)
    later = [
        Entry("connect-configs", 0, 4 + at, 4 + at, key.encode(), value)
        for at, (_, _, key, value) in enumerate(many)
    ]
    entries = [*log(*TASKS), poison, *later]
    for release, place in (("3.8", "config@3"), ("3.9", "config@603")):
        connectors = ["c", *(str(number) for number in range(599))]
        assert explained(entries, "/connectors", 200, connectors, release)[0] == place


def test_a_commit_before_its_config_explains_dropped_tasks() -> None:
    """Compaction left the commit first: from 3.7.1 on, a starting worker drops the tasks."""
    entries = log(*TASKS[1:], TASKS[0])
    answer = {"name": "c", "config": {"name": "c"}, "tasks": [C0]}
    place, explanation = explained(entries, "/connectors/c", 200, answer)
    assert place == "config@1"
    assert explanation.reason.startswith("this commit lies before its connector's config")


def test_a_record_that_readers_ignore_is_named() -> None:
    """The worker shows a record that every reader of the log ignores."""
    entries = log(("configs", 0, "connector-c", CONFIG), ("configs", 0, "connector-c", b"[]"))
    place, explanation = explained(entries, "/connectors/c/config", 200, {"name": "z"})
    assert place == "config@1"
    assert explanation.reason.startswith("readers of the log ignore this record: ")


def test_without_another_cause_the_last_record_explains() -> None:
    """Without another cause, the last record about the differing part explains, if there is one."""
    place, explanation = explained(log(*TASKS), "/connectors/c/config", 200, {"name": "z"})
    assert place == "config@0"
    assert explanation.reason.endswith("the worker may know records that compaction removed")
    place, explanation = explained(log(*TASKS), "/connectors", 200, ["c", "gone"])
    assert (place, explanation.reason) == (
        None,
        "the log has no record about the part that differs; compaction may have removed it",
    )


def test_a_longer_name_explains_nothing_about_a_shorter_one() -> None:
    """The records of `cc` explain nothing about `c`."""
    entries = log(("configs", 0, "connector-c", CONFIG), ("configs", 0, "connector-cc", OTHER))
    assert explained(entries, "/connectors/c/config", 404, {})[0] == "config@0"
