"""Record that explains a difference, found by the differing part of the answer."""

from typing import Any

import pytest

from controlplane.cli.verify.difference_evidence import Evidence
from controlplane.core.entry import Entry, Position
from controlplane.core.state import Topics
from controlplane.scenario.story import AnswerDifference, RecordedAnswer, StoryStep

KEYS = {
    "connect-configs": ("connector-c", "task-c-0", "commit-c", "connector-cc", "commit-cc"),
    "connect-status": (
        *("status-connector-c", "status-task-c-0", "status-task-c-1", "status-connector-cc"),
        "status-topic-t:connector-c",
    ),
    "connect-offsets": ('["c",{"f":1}]', '["c",{"f":2}]', '["cc",{"f":1}]'),
}
ENDS = {topic: [len(keys)] for topic, keys in KEYS.items()}


def evidence() -> Evidence:
    """Log with a record of each key; step 1 of the story has read all, step 2 no config."""
    entries = [
        Entry(topic, 0, offset, 0, key.encode(), b"{}")
        for topic, keys in KEYS.items()
        for offset, key in enumerate(keys)
    ]
    steps = [
        StoryStep(1, "observe", ENDS),
        StoryStep(2, "observe", {**ENDS, "connect-configs": [0]}),
    ]
    return Evidence(Topics(), {entry.position: entry for entry in entries}, steps)


def offsets(*rows: tuple[int, int]) -> dict[str, Any]:
    """Answer of the offsets endpoint."""
    return {"offsets": [{"partition": {"f": f}, "offset": {"at": at}} for f, at in rows]}


@pytest.mark.parametrize(
    ("path", "recorded", "folded", "key"),
    [
        ("/connectors", ["c"], ["c", "cc"], "connector-cc"),
        ("/connectors/c", {"config": {"a": 1}}, {"config": {}}, "connector-c"),
        ("/connectors/c", {"tasks": [1]}, {"tasks": []}, "commit-c"),
        ("/connectors/c", {"type": "sink"}, {"type": "source"}, "connector-c"),
        ("/connectors/c/config", {"a": 1}, {}, "connector-c"),
        ("/connectors/c/tasks", [1], [], "commit-c"),
        ("/connectors/c/tasks-config", {"c-0": {}}, {}, "commit-c"),
        ("/connectors/c/status", {"connector": 1}, {"connector": 2}, "status-connector-c"),
        ("/connectors/c/status", {"tasks": [1]}, {"tasks": []}, "status-task-c-1"),
        ("/connectors/c/status", {"type": "sink"}, {"type": "source"}, "connector-c"),
        ("/connectors/c/tasks/0/status", {"state": 1}, {"state": 2}, "status-task-c-0"),
        ("/connectors/c/topics", {"c": {}}, {"c": 1}, "status-topic-t:connector-c"),
        ("/connectors/c/offsets", offsets((1, 5)), offsets((1, 5), (2, 6)), '["c",{"f":2}]'),
        ("/connectors/c/offsets", offsets((1, 5)), offsets((1, 6)), '["c",{"f":1}]'),
        (
            "/connectors?expand=status",
            {"c": {"status": {"connector": 1}}},
            {"c": {"status": {"connector": 2}}},
            "status-connector-c",
        ),
        (
            "/connectors?expand=info",
            {"c": {"info": {"tasks": [1]}}},
            {"c": {"info": {"tasks": []}}},
            "commit-c",
        ),
    ],
)
def test_the_part_that_differs_leads_to_the_record(
    path: str, recorded: Any, folded: Any, key: str
) -> None:
    """The last record about the differing part is named, never a record of `cc` for `c`."""
    difference = AnswerDifference(
        1, "3.9.1", path, RecordedAnswer(200, recorded), RecordedAnswer(200, folded), None
    )
    cause = evidence().cause(difference)
    assert cause is not None
    assert cause.key == key.encode()


def test_a_connector_may_be_named_offsets() -> None:
    """The config of such a connector comes from the config topic, not from source offsets."""
    entry = Entry("connect-configs", 0, 0, 0, b"connector-offsets", b"{}")
    steps = [StoryStep(1, "observe", {"connect-configs": [1]})]
    log = Evidence(Topics(), {entry.position: entry}, steps)
    answers = RecordedAnswer(200, {"config": {"a": "1"}}), RecordedAnswer(200, {"config": {}})
    difference = AnswerDifference(1, "3.9.1", "/connectors/offsets", *answers, None)
    assert log.cause(difference) == entry


def test_later_records_explain_nothing() -> None:
    """Causes are records before the step; without one, the cause known to the fold is returned."""
    fallback = Position("connect-status", 0, 0)
    answers = RecordedAnswer(200, {"a": 1}), RecordedAnswer(200, {})
    cause = evidence().cause(
        AnswerDifference(2, "3.9.1", "/connectors/c/config", *answers, fallback)
    )
    assert cause is not None
    assert cause.position == fallback
    assert (
        evidence().cause(AnswerDifference(2, "3.9.1", "/connectors/c/config", *answers, None))
        is None
    )
