"""Laws of statuses (L1–L4) and active topics (A1 to A4) that a worker reports.

The writer is the worker's own, on an unsteady log and a simulated clock. Another worker writes
beside it. The page docs/kafka-unit-tests.md has the sentence of each law.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controlplane.core.codec.status import encode_status
from controlplane.core.entry import Entry, Position
from controlplane.core.fold import fold
from controlplane.core.records import (
    ActiveTopic,
    Activity,
    ConnectorStatus,
    State,
    Status,
    StatusRecord,
    TaskStatus,
)
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.logs.log import Record
from controlplane.worker.lifecycle.statuses import StatusWriter
from controlplane.worker.task_identity import TaskIdentity
from tests.laws.delivery.simulated_clock import simulated
from tests.laws.delivery.unsteady import AppendFate, UnsteadyLog
from tests.worker.worker_fixture import RecordedNotices

KIP = Profile.of("kip")
TOPIC = "connect-status"
OWN, OTHER = "own:8083", "other:8083"

seconds = st.sampled_from((0.0, 0.01, 0.2))
fates = st.lists(
    st.builds(AppendFate, st.sampled_from(("done", "done", "away", "lost")), seconds), max_size=8
).filter(lambda drawn: not drawn or any(fate.kind == "done" for fate in drawn))
states = st.sampled_from((State.RUNNING, State.PAUSED, State.FAILED, State.UNASSIGNED))
generations = st.integers(0, 4)


class ReportWorld:
    """A status topic with two workers: ours, with the writer, and another one."""

    def __init__(self, drawn: Sequence[AppendFate], read_back_s: float) -> None:
        self.log = UnsteadyLog(drawn, lambda _: None)
        self._read_back_s = read_back_s
        self.view = fold([], KIP)
        """State that our worker has read."""
        self.epoch = 0
        self.writer: StatusWriter

    async def entries(self) -> list[Entry]:
        """Return all records of the topic."""
        return [entry async for batch in self.log.read([TOPIC]) for entry in batch.entries()]

    async def read(self) -> ClusterState:
        """Read the log to its end."""
        self.view = fold(await self.entries(), KIP)
        return self.view

    async def _read_back(self, positions: Sequence[Position]) -> None:
        del positions
        await asyncio.sleep(self._read_back_s)
        await self.read()

    async def write(self, *records: StatusRecord) -> None:
        """Append records of the other worker; it always succeeds."""
        steady, self.log.steady = self.log.steady, True
        encoded = [encode_status(record, KIP) for record in records]
        await self.log.append([Record(TOPIC, 0, 1, key, value) for key, value in encoded])
        self.log.steady = steady

    async def live(self, life: "Callable[[ReportWorld], Coroutine[Any, Any, None]]") -> None:
        """Run a life, and wait until everything is written."""
        await self.log.create_topic(TOPIC, 1)
        self.epoch = await self.log.claim()
        self.writer = StatusWriter(
            self.log,
            state=lambda: self.view,
            epoch=lambda: self.epoch,
            partitions=1,
            now_ms=lambda: 1,
            notices=RecordedNotices(),
            read_back=self._read_back,
            fenced=lambda: None,
            worker_id=OWN,
            tracking=True,
            excerpt=str,
        )
        await life(self)
        await self.writer.flush()
        await self.read()
        await self.writer.close()


# --- statuses -------------------------------------------------------------------------------------

own_reports = st.tuples(st.sampled_from(("put", "safe")), st.integers(0, 1), states)
foreign_reports = st.tuples(st.just("other"), st.integers(0, 1), generations)
waits = st.tuples(st.just("wait"), st.just(0), seconds)
steps = st.lists(st.one_of(own_reports, foreign_reports, waits), max_size=12)


def status_of(state: ClusterState, task: int) -> Status | None:
    """Return the status of a task."""
    return state.status.tasks.get("c", {}).get(task)


@given(steps, fates, seconds)
@example([("other", 0, 4), ("wait", 0, 0.0), ("safe", 0, State.FAILED)], [], 0.0)
@example([("other", 0, 1), ("wait", 0, 0.0), ("safe", 0, State.FAILED)], [], 0.0)
def test_an_outdated_safe_report_is_not_written(
    taken: list[Any], drawn: list[AppendFate], read_back_s: float
) -> None:
    """L1: a safe report is dropped if the writer has read a higher generation of another worker.

    L4: it writes all other reports. Then the last record of a task is our worker's last report,
    unless the other worker reports this task, too.
    """
    world = ReportWorld(drawn, read_back_s)
    allowed: dict[str, tuple[int, State]] = {}
    refused: set[str] = set()

    async def life(world: ReportWorld) -> None:
        for number, (kind, task, value) in enumerate(taken):
            name = f"report {number}"
            if kind == "wait":
                await asyncio.sleep(value)
                await world.read()
            elif kind == "other":
                status = Status(State.RUNNING, None, OTHER, value)
                await world.write(TaskStatus("c", task, status))
            else:
                cached = status_of(world.view, task)
                newer = cached is not None and cached.worker_id == OTHER
                newer = newer and cached is not None and cached.generation > world.epoch
                world.writer.task(TaskIdentity("c", task), value, name, safe=kind == "safe")
                if kind == "safe" and newer:
                    refused.add(name)
                else:
                    allowed[name] = task, value

    simulated(world.live(life))
    entries = simulated_entries(world)
    written = [
        str(name)
        for name in allowed
        if any(name.encode() in (entry.value or b"") for entry in entries)
    ]
    assert written == [*allowed]
    assert not any(name.encode() in (entry.value or b"") for name in refused for entry in entries)
    contested = {task for kind, task, _ in taken if kind == "other"}
    for task in (0, 1):
        own = [name for name, (number, _) in allowed.items() if number == task]
        last = last_value(entries, task) or b""
        if own and task not in contested:
            assert own[-1].encode() in last
        if own and own[-1].encode() in last:
            status = status_of(world.view, task)
            assert status is not None
            state = allowed[own[-1]][1]
            # Readers keep RUNNING against a late UNASSIGNED of a generation that is not newer.
            assert status.state in {state, *([State.RUNNING] if state is State.UNASSIGNED else [])}


@pytest.mark.parametrize(("generation", "written"), [(0, True), (1, True), (4, False)])
def test_a_safe_report_of_a_connector(generation: int, written: bool) -> None:
    """L1 for connectors: only a higher generation of another worker prevents the report."""
    world = ReportWorld([], 0.0)

    async def life(world: ReportWorld) -> None:
        await world.write(ConnectorStatus("c", Status(State.RUNNING, None, OTHER, generation)))
        await world.read()
        world.writer.connector("c", State.FAILED, safe=True)

    simulated(world.live(life))
    status = world.view.status.connectors["c"]
    assert (status.state is State.FAILED, status.worker_id == OWN) == (written, written)


def simulated_entries(world: ReportWorld) -> list[Entry]:
    """Return all records of the topic."""
    return simulated(world.entries())


def last_value(entries: Sequence[Entry], task: int) -> bytes | None:
    """Return the value of the last record about a task."""
    values = [entry.value for entry in entries if (entry.key or b"").endswith(f"-{task}".encode())]
    return values[-1] if values else None


foreign = st.lists(
    st.builds(
        TaskStatus,
        st.just("c"),
        st.integers(0, 1),
        st.none()
        | st.builds(
            Status,
            states,
            st.sampled_from((None, "trace")),
            st.sampled_from((OWN, OTHER)),
            generations,
        ),
    ),
    max_size=12,
)


def entries_of(records: Sequence[StatusRecord]) -> list[Entry]:
    """Return records as they lie in the topic."""
    encoded = [encode_status(record, KIP) for record in records]
    return [Entry(TOPIC, 0, offset, 1, key, value) for offset, (key, value) in enumerate(encoded)]


@given(foreign)
def test_the_order_within_a_key_decides(records: list[TaskStatus]) -> None:
    """L2: a model that reads a task's records in order gives the same status."""
    state = fold(entries_of(records), KIP)
    for task in (0, 1):
        expected: Status | None = None
        for record in records:
            if record.task != task:
                continue
            late = (
                expected is not None
                and record.status is not None
                and expected.state is State.RUNNING
                and record.status.state is State.UNASSIGNED
                and expected.generation >= record.status.generation
            )
            expected = expected if late else record.status
        actual = status_of(state, task)
        assert compared_status(actual) == compared_status(expected)


def compared_status(status: Status | None) -> Any:
    """Return the compared fields of a status."""
    return None if status is None else (status.state, status.worker_id, status.generation)


@given(foreign)
def test_folding_is_idempotent(records: list[TaskStatus]) -> None:
    """L3: every record twice, and the whole topic twice, give the same statuses."""
    once = fold(entries_of(records), KIP)
    doubled = fold(entries_of([record for record in records for _ in range(2)]), KIP)
    repeated = fold(entries_of([*records, *records]), KIP)
    for task in (0, 1):
        expected = compared_status(status_of(once, task))
        assert compared_status(status_of(doubled, task)) == expected
        assert compared_status(status_of(repeated, task)) == expected


# --- active topics --------------------------------------------------------------------------------

uses = st.lists(
    st.tuples(
        st.sampled_from(("use", "use", "use", "reset", "tombstone", "read", "wait")),
        st.sampled_from(("a", "b")),
        seconds,
    ),
    max_size=14,
)


READ_TOMBSTONE = [("tombstone", "a", 0.0), ("read", "a", 0.0)]


class TopicModel:
    """Topics of a connector that may be active, and those that must be."""

    def __init__(self) -> None:
        self.possible: set[str] = set()
        """Topics used since the last tombstone, or whose record was under way at that time."""
        self.certain: set[str] = set()
        self._under_way: set[str] = set()
        """Topics with a record that may not be written yet."""
        self._tombstone_unread = False

    def use(self, topic: str, cached: bool) -> None:
        """Count a use; `cached`: the worker's state has the topic."""
        self.possible.add(topic)
        if not self._tombstone_unread or not (cached or topic in self._under_way):
            self.certain.add(topic)
        if not cached:
            self._under_way.add(topic)

    def append_tombstones(self) -> None:
        """Count a tombstone of each topic, which no worker has read yet."""
        self.possible = {*self._under_way}
        self.certain = set()
        self._tombstone_unread = True

    def read(self) -> None:
        """Count the reading of everything; no record is under way."""
        self._under_way.clear()
        self._tombstone_unread = False


async def append_tombstones(world: ReportWorld) -> None:
    """Append a tombstone of each topic, as another worker does for a reset."""
    await world.write(*(ActiveTopic("c", name, None) for name in ("a", "b")))


def active_topics(world: ReportWorld) -> set[str]:
    """Return the active topics in the worker's state."""
    return {*world.view.status.active_topics.get("c", {})}


@given(uses, fates, seconds)
@example([("use", "a", 0.0), ("wait", "a", 0.01), *READ_TOMBSTONE, ("use", "a", 0.0)], [], 0.2)
def test_active_topics_are_those_in_use(
    taken: list[Any], drawn: list[AppendFate], read_back_s: float
) -> None:
    """A1: a topic without a use since its tombstone is active only if a record was under way.

    A2: a use that follows the reading of a tombstone is recorded. A4: repeated records change
    nothing. A use between a tombstone and its reading may stay unrecorded.
    """
    world = ReportWorld(drawn, read_back_s)
    model = TopicModel()

    async def life(world: ReportWorld) -> None:
        for kind, topic, duration_s in taken:
            if kind == "wait":
                await asyncio.sleep(duration_s)
            elif kind == "use":
                model.use(topic, topic in active_topics(world))
                world.writer.note_topic(TaskIdentity("c", 0), topic)
            elif kind == "tombstone":
                model.append_tombstones()
                await append_tombstones(world)
            else:
                await world.writer.flush()
                model.read()
                if kind == "reset":
                    model.append_tombstones()
                    await append_tombstones(world)
                await world.read()
                model.read()

    simulated(world.live(life))
    active = active_topics(world)
    assert active <= model.possible, "A1"
    assert model.certain <= active, "A2"
    entries = simulated_entries(world)
    doubled = [
        Entry(TOPIC, 0, offset, 1, entry.key, entry.value)
        for offset, entry in enumerate(entry for entry in entries for _ in range(2))
    ]
    assert {*fold(doubled, KIP).status.active_topics.get("c", {})} == active, "A4"


def test_a_use_before_the_tombstone_is_read() -> None:
    """A use before the tombstone is read is not recorded: KIP-558 accepts this race.

    A use after the reading is recorded. Another connector keeps its topics (A3).
    """
    world = ReportWorld([], 0.0)
    active: list[set[str]] = []
    written: list[int] = []

    async def life(world: ReportWorld) -> None:
        await world.write(ActiveTopic("d", "a", Activity("a", "d", 0, 1)))
        world.writer.note_topic(TaskIdentity("c", 0), "a")
        await world.writer.flush()
        await append_tombstones(world)
        for _ in range(2):
            active.append(active_topics(world))
            world.writer.note_topic(TaskIdentity("c", 0), "a")
            await world.writer.flush()
            written.append(len(await world.entries()))
            await world.read()
            active.append(active_topics(world))

    simulated(world.live(life))
    assert active == [{"a"}, set(), set(), {"a"}]
    assert written == [4, 5]
    assert {*world.view.status.active_topics["d"]} == {"a"}
