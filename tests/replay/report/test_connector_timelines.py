"""Timelines of connectors: the lane of tasks, and the cost of its records."""

from collections.abc import Callable, Sequence

from controlplane.core.entry import Entry, Position
from controlplane.core.records import State, Status, TaskStatus
from controlplane.core.state import ConfigState
from controlplane.page.timeline import TimeRange
from replay.audit.decoded_log import DecodedRecord
from replay.report.connector_timelines import ConnectorActivity, by_state
from replay.report.page_limits import SPANS
from tests.operation_counts import assert_linear

STEP_MS = 1_000


def reports(states: Sequence[tuple[int, State | None]]) -> list[DecodedRecord]:
    """Records with the states of tasks; a state of None makes it a tombstone."""
    nothing = ConfigState()
    return [
        DecodedRecord(
            Entry("connect-status", 0, offset, offset * STEP_MS, b"", b""),
            offset * STEP_MS,
            TaskStatus("orders", task, None if state is None else Status(state, None, "w", 1)),
            "orders",
            None,
            None,
            nothing,
            nothing,
        )
        for offset, (task, state) in enumerate(states)
    ]


def place(position: Position) -> str:
    """Place of a record as text."""
    return str(position.offset)


def activity_of(records: Sequence[DecodedRecord]) -> ConnectorActivity:
    """Activity after these records."""
    activity = ConnectorActivity(TimeRange(0, STEP_MS * SPANS), place)
    for record in records:
        activity.see(record)
    return activity


def test_the_lane_of_tasks_counts_their_present_states() -> None:
    """A state that no task has any more is not counted, and the worst state names the span."""
    states = [
        (0, State.RUNNING),
        (1, State.FAILED),
        (1, State.FAILED),
        (0, State.PAUSED),
        (1, None),
        (1, None),
        (0, None),
        (2, State.RUNNING),
    ]
    activity = activity_of(reports(states))
    spans = [(span.begin_ms, span.state, span.words) for span in activity.timeline().tasks]
    assert spans == [
        (0, "RUNNING", "1 RUNNING"),
        (1_000, "FAILED", "1 FAILED, 1 RUNNING"),
        (3_000, "FAILED", "1 FAILED, 1 PAUSED"),
        (4_000, "PAUSED", "1 PAUSED"),
        (7_000, "RUNNING", "1 RUNNING"),
    ]
    assert by_state(activity.tasks) == {"RUNNING": 1}


def test_the_statuses_of_many_tasks_take_linear_time() -> None:
    """A status costs the same, however many tasks its connector has."""

    def prepared(tasks: int) -> Callable[[], object]:
        lives = [State.RUNNING, State.FAILED, State.RUNNING]
        records = reports([(task, state) for state in lives for task in range(tasks)])
        return lambda: activity_of(records)

    assert_linear(prepared, 50)
