"""Tracker of facts: cost of statuses, and copies that stay independent."""

import json
from collections.abc import Callable, Sequence

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from replay.timeline.decoded_records import TimedRecord
from replay.timeline.fact_tracker import FactTracker, TopicSelection
from replay.timeline.intervals import Interval
from replay.timeline.shared_fold import SharedFold
from tests.conftest import PROVE, examples
from tests.laws.entries import logs, profiles
from tests.operation_counts import assert_linear

PHASES = [*Phase] if PROVE else [Phase.explicit, Phase.reuse, Phase.generate]
TOPICS = Topics()
KIP = Profile.of("kip")
CONNECTOR = "status-connector-orders"


def tracker(profile: Profile = KIP) -> FactTracker:
    """Tracker of the status topic."""
    return FactTracker(TopicSelection(TOPICS.status, TOPICS), profile)


def status(offset: int, key: str, state: str | None) -> TimedRecord:
    """Record of a status; a state of None makes it a tombstone."""
    value = json.dumps({"state": state, "worker_id": "w", "generation": 1}).encode()
    content = None if state is None else value
    return TimedRecord(offset, Entry(TOPICS.status, 0, offset, offset, key.encode(), content), None)


def statuses(states: Sequence[str], tasks: int) -> list[TimedRecord]:
    """Records that bring each task of a connector into one state after the other."""
    keys = [(f"status-task-orders-{task}", state) for state in states for task in range(tasks)]
    return [status(offset, *record) for offset, record in enumerate(keys)]


def held(facts: FactTracker) -> list[tuple[str, str]]:
    """Item and state of the statuses that hold."""
    return [(interval.item, interval.value["state"]) for interval in facts.rest()]


def test_the_statuses_of_many_tasks_take_linear_time() -> None:
    """A status costs the same, however many tasks its connector has; so does the removal."""

    def prepared(tasks: int) -> Callable[[], object]:
        records = statuses(["RUNNING", "FAILED", "RUNNING"], tasks)
        removal = [status(len(records), CONNECTOR, None)]
        return lambda: tracker().take([*records, *removal])

    assert_linear(prepared, 50)


def test_the_removal_of_a_connector_ends_the_statuses_of_its_tasks() -> None:
    """The status of the connector comes first, also if it is the newest."""
    facts = tracker()
    facts.take([*statuses(["RUNNING"], 2), status(2, CONNECTOR, "RUNNING")])
    assert held(facts) == [("", "RUNNING"), ("0", "RUNNING"), ("1", "RUNNING")]
    ended = facts.take([status(3, CONNECTOR, None)])
    assert [interval.item for interval in ended] == ["", "0", "1"]
    assert facts.rest() == []


def test_copies_of_a_tracker_are_independent() -> None:
    """A later change of the tracker or of its copy leaves the other one as it is."""
    facts = tracker()
    facts.take(statuses(["RUNNING"], 2))
    copied = facts.fork(KIP)
    facts.take([status(2, "status-task-orders-0", "FAILED")])
    copied.take([status(2, "status-task-orders-1", None)])
    assert held(facts) == [("0", "FAILED"), ("1", "RUNNING")]
    assert held(copied) == [("0", "RUNNING")]


def intervals(log: Sequence[Entry], profile: Profile, chunk: int) -> list[Interval]:
    """Facts of a log that is folded in chunks of this size; those that hold come last."""
    records = [TimedRecord(entry.timestamp, entry, None) for entry in log]
    reading = SharedFold([profile], tracker(profile))
    chunks = [records[first : first + chunk] for first in range(0, len(records), chunk)]
    groups = [*(reading.take(each) for each in chunks), reading.rest()]
    return [interval for ((_, ended),) in groups for interval in ended]


@settings(max_examples=examples(15, proved=500), phases=PHASES)
@given(logs(30, (TOPICS.status,)), profiles, st.integers(1, 5))
def test_the_size_of_chunks_changes_no_interval(
    log: list[Entry], profile: Profile, chunk: int
) -> None:
    """Each chunk is folded by a copy; the intervals and their order are those of one chunk."""
    assert intervals(log, profile, chunk) == intervals(log, profile, len(log) + 1)
