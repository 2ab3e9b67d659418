"""Lives of a source task on an unsteady log: records read, sent, acknowledged and committed."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from functools import partial
from typing import Any, cast

import msgspec

from controlplane.connect.records import SourceRecord
from controlplane.connect.source import OffsetPairs, TransactionAbort, TransactionCommit
from controlplane.core.fold import fold
from controlplane.core.releases.profiles import Profile
from controlplane.logs.log import Record
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.data_topics.clients import ProducerRecord
from controlplane.worker.data_topics.embedded_producer import LogProducer, LogTopics, WrittenLog
from controlplane.worker.drivers.author_thread import AuthorThread
from controlplane.worker.drivers.source_context import PolledItem, PolledRecord
from controlplane.worker.drivers.source_drivers import Acknowledged, OffsetsToCommit
from controlplane.worker.lifecycle.task_control import TaskControl
from controlplane.worker.metrics.startups import StartupCounts
from controlplane.worker.metrics.task_metrics import SourceTaskMetrics
from controlplane.worker.offsets.source_offsets import SourceOffsetStore
from controlplane.worker.records.conversion import Pipelines
from controlplane.worker.records.error_reports import ErrorReporter
from controlplane.worker.settings import ProducerLimits, RuntimeSettings
from controlplane.worker.task_identity import TaskIdentity
from controlplane.worker.tasks.at_least_once import AtLeastOnce
from controlplane.worker.tasks.exactly_once import ExactlyOnce
from controlplane.worker.tasks.source_task import Delivery, LoadedSourceTask, SourceTaskRun
from controlplane.worker.tasks.source_topics import SourceTopics
from tests.laws.delivery.unsteady import AppendFate, UnsteadyLog, UnsteadyProducer
from tests.worker.worker_fixture import RecordedNotices

LINES, OFFSETS = "data", "connect-offsets"
STRING = "org.apache.kafka.connect.storage.StringConverter"
KIP = Profile.of("kip")

IDLE_S = 0.5
"""Duration of a poll after the last batch."""

IDLE_POLLS = 8
"""Number of polls after the last batch until a life is at rest."""

OVERTAKEN_S = 15.0
"""Simulated time in which a fenced task must notice it."""

ReadRecord = tuple[int, int]
"""Source partition, and the number of the record within it, from 1."""

OffsetsHook = Callable[[int, OffsetPairs, Mapping[int, int]], OffsetPairs | None]
"""`update_offsets` of a test. Its arguments are the call's number, the offsets to commit, and the
last record read from each source partition."""


class LifePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Input of one example: everything that a life depends on."""

    batches: Sequence[Sequence[int]]
    """Source partitions of the records of each poll."""
    ends: Sequence[str | None] = (None,)
    """End of a transaction after each batch, in turn: `commit`, `abort` or none."""
    fates: Sequence[AppendFate] = ()
    delays_s: Sequence[float] = ()
    """Delays of the acknowledgements, in turn."""
    pause_s: float = 0.01
    """Duration of one poll of the task."""
    interval_ms: int = 50
    """Interval between two offset commits."""
    stuck: int | None = None
    """Source partition whose records are never acknowledged."""
    boundary: str | None = None
    """Transaction boundary; None: delivery at least once."""
    hook: OffsetsHook | None = None
    hook_s: float = 0.01
    """Duration of one call of the hook."""

    @property
    def committable(self) -> int:
        """Number of records that a task commits; under the source's own boundaries, not all."""
        if self.boundary != "connector":
            return sum(map(len, self.batches))
        committed = pending = 0
        for number, batch in enumerate(self.batches):
            pending += len(batch)
            end = self.ends[number % len(self.ends)]
            committed += pending if end == "commit" else 0
            pending = pending if end is None else 0
        return committed


class InlineThread:
    """Thread of the connector that runs in the loop: a real thread would take real time."""

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function at once in this thread."""
        return function(*arguments)

    def abandon(self) -> None:
        """Do nothing: there is no thread to abandon."""


class PlannedDriver:
    """Source that reads the planned records from the committed offsets on (`SourceDriver`)."""

    repeats_polls = True

    def __init__(self, world: "SourceWorld", store: SourceOffsetStore) -> None:
        self._world = world
        committed = {part: store.get({"p": part}) for part in world.totals}
        self._at: Counter[int] = Counter()
        self._from = {
            part: 0 if offset is None else int(str(offset["at"]))
            for part, offset in committed.items()
        }
        self._number = 0
        self._open: list[PolledItem] = []
        """Records since the last end of a transaction."""
        self._polling = self._hooked = False

    async def start(self) -> None:
        """Do nothing: the plan needs no start."""

    async def poll(self) -> Sequence[PolledItem]:
        """Return the records of the next batch that are not committed yet."""
        plan = self._world.plan
        assert not self._hooked, "H3: a poll during the hook"
        number, self._number = self._number, self._number + 1
        ended = number >= len(plan.batches)
        self._polling = True
        try:
            await asyncio.sleep(IDLE_S if ended else plan.pause_s)
        finally:
            self._polling = False
        if ended:
            self._world.idle_polls += 1
            return []
        items: list[PolledItem] = [
            PolledRecord(record, "the plan") for record in self._records(plan.batches[number])
        ]
        self._open += items
        end = plan.ends[number % len(plan.ends)]
        if end is None:
            return items
        if end == "abort":
            self._world.note_abort(self._open)
        self._open.clear()
        return [*items, TransactionAbort() if end == "abort" else TransactionCommit()]

    def _records(self, parts: Sequence[int]) -> list[SourceRecord]:
        records = []
        for part in parts:
            self._at[part] += 1
            number = self._at[part]
            if number > self._from[part]:
                records.append(
                    SourceRecord(
                        topic=LINES,
                        key=str(part),
                        value=f"{part}/{number}",
                        source_partition={"p": part},
                        source_offset={"at": number},
                    )
                )
        return records

    @property
    def has_offsets_hook(self) -> bool:
        """True if the plan has a hook."""
        return self._world.plan.hook is not None

    async def update_offsets(self, about_to_commit: OffsetsToCommit) -> OffsetPairs | None:
        """Call the hook of the plan, which may take a moment."""
        hook = self._world.plan.hook
        if hook is None:
            return ()
        assert not self._polling, "H3: the hook during a poll"
        if self._world.plan.boundary is not None:
            assert self._world.hook_answer is None, "H2: the hook without a commit"
        self._hooked = True
        try:
            if self._world.plan.hook_s:
                await asyncio.sleep(self._world.plan.hook_s)
        finally:
            self._hooked = False
        call, offsets = len(self._world.hooked), deepcopy([*about_to_commit()])
        returned = hook(call, offsets, self._at)
        output = [*(returned or ())]
        self._world.hooked.append((offsets, output))
        self._world.hook_answer = by_partition(offsets) | by_partition(output)
        return output

    async def acknowledged(self, records: Sequence[Acknowledged]) -> None:
        """Ignore the acknowledged records."""

    async def committed(self) -> None:
        """Note that the commit which the hook preceded is over."""
        if self._world.plan.boundary is not None and self._world.hook_answer:
            self._world.lost_answers.append(self._world.hook_answer)
        self._world.hook_answer = None

    async def stop(self) -> None:
        """Do nothing: the plan needs no stop."""


class SourceWorld:
    """A log, and the events on it. `check` runs before the task learns of each append."""

    def __init__(
        self, plan: LifePlan, check: "Callable[[SourceWorld, Sequence[Record]], None]"
    ) -> None:
        self.plan = plan
        self.totals = Counter(part for batch in plan.batches for part in batch)
        """Number of records of each source partition."""
        self.log = UnsteadyLog(plan.fates, self._note)
        self.log.refusable = frozenset({OFFSETS}) if plan.boundary is None else frozenset()
        self._check = check
        self.records: Counter[ReadRecord] = Counter()
        """Records in the data topic, with the number of their copies."""
        self.acknowledged: set[ReadRecord] = set()
        self.aborted: set[ReadRecord] = set()
        """Records of batches that the source has aborted."""
        self.committed: dict[int, dict[str, Any]] = {}
        """Offset of each source partition in the log."""
        self.extra: dict[str, Any] = {}
        """Offsets of other partitions, as the hook has given them."""
        self.hooked: list[tuple[OffsetPairs, OffsetPairs]] = []
        """Input and output of each call of the hook."""
        self.appends: list[tuple[list[ReadRecord], dict[str, Any]]] = []
        """Records and offsets of each append, in their order."""
        self.hook_answer: dict[str, Any] | None = None
        """Input and output of the last call of the hook, merged; None: no commit is under way."""
        self.lost_answers: list[dict[str, Any]] = []
        """Merged inputs and outputs of exactly-once commits without an append."""
        self.idle_polls = 0
        """Polls of the current life after the last batch."""

    def note_abort(self, items: Sequence[PolledItem]) -> None:
        """Add the records of a batch that the source aborts to `aborted`."""
        self.aborted |= {
            parsed(str(item.record.value)) for item in items if isinstance(item, PolledRecord)
        }

    def _note(self, records: Sequence[Record]) -> None:
        self._check(self, records)
        if self.hook_answer is not None:
            self.hook_answer = {}  # this append has the answer
        self.appends.append((records_of(records), by_partition(offsets_of(records))))
        self.records.update(records_of(records))
        for key, offset in offsets_of(records):
            if "p" in key:
                self.committed[key["p"]] = offset or {}
            else:
                self.extra[json.dumps(key)] = offset

    async def store(self) -> SourceOffsetStore:
        """Return the committed offsets in the form that a new task reads."""
        topics = [topic for topic in await self.log.topics() if topic == OFFSETS]
        entries = [entry async for batch in self.log.read(topics) for entry in batch.entries()]
        return SourceOffsetStore(fold(entries, KIP), "c", {})

    async def live(self, *, crash_s: float | None = None) -> None:
        """Run the task once. It is killed after `crash_s`, or else stopped when it is at rest."""
        epoch = await self.log.claim()
        for topic in (LINES, OFFSETS):
            await self.log.create_topic(topic, 1)
        control = TaskControl(paused=False)
        running = asyncio.ensure_future(self._run(epoch, control))
        if crash_s is None:
            self.idle_polls = 0
            while self.idle_polls < IDLE_POLLS and not running.done():
                await asyncio.wait({running}, timeout=IDLE_S)
            self.log.steady = True
            control.stop()
            await running
            return
        await asyncio.wait({running}, timeout=crash_s)
        await self.log.claim()  # nothing that the killed process still sends arrives
        running.cancel()
        (failure,) = await asyncio.gather(running, return_exceptions=True)
        if isinstance(failure, AssertionError):
            raise failure

    async def zombie(self, overtaken_s: float) -> BaseException | None:
        """Run the task, let another process take the log over, and return how the task ends."""
        epoch = await self.log.claim()
        for topic in (LINES, OFFSETS):
            await self.log.create_topic(topic, 1)
        control = TaskControl(paused=False)
        running = asyncio.ensure_future(self._run(epoch, control))
        await asyncio.wait({running}, timeout=overtaken_s)
        await self.log.claim()
        before = (self.records.copy(), dict(self.committed))
        await asyncio.wait({running}, timeout=OVERTAKEN_S)
        control.stop()
        (failure,) = await asyncio.gather(running, return_exceptions=True)
        assert (self.records, self.committed) == before, "X3: a fenced task has written"
        return failure

    async def _run(self, epoch: int, control: TaskControl) -> None:
        settings = RuntimeSettings(
            offset_flush_interval_ms=self.plan.interval_ms,
            offset_flush_timeout_ms=5_000,
            exactly_once=self.plan.boundary is not None,
            key_converter=STRING,
            value_converter=STRING,
            producer=ProducerLimits(delivery_timeout_ms=10**9, retry_first_ms=5, retry_last_ms=40),
        )
        config = {"transaction.boundary.interval.ms": "70"}
        if self.plan.boundary is not None:
            config["transaction.boundary"] = self.plan.boundary
        identity, store = TaskIdentity("c", 0), await self.store()
        self.hook_answer = None
        pipeline = Pipelines(ConnectorClasses(), settings).source(config)
        loaded = LoadedSourceTask(
            identity=identity,
            driver=PlannedDriver(self, store),
            thread=cast(AuthorThread, InlineThread()),
            pipeline=pipeline,
            topics=SourceTopics(None, cast(AuthorThread, InlineThread())),
            state_topics=frozenset(),
            reporter=ErrorReporter(identity, pipeline.errors, RecordedNotices(), str),
            offsets=store,
            control=control,
            settings=settings,
            config=config,
            note_topic=lambda _: None,
            notices=RecordedNotices(),
            updates_offsets=True,
            metrics=SourceTaskMetrics(StartupCounts()),
        )
        await SourceTaskRun(loaded, partial(self._delivery, loaded, epoch)).run(
            lambda: None, lambda _: None
        )

    @asynccontextmanager
    async def _delivery(self, loaded: LoadedSourceTask, epoch: int) -> AsyncIterator[Delivery]:
        limits = loaded.settings.producer
        topics = LogTopics(self.log, limits.default_partitions)
        producer = UnsteadyProducer(
            LogProducer(WrittenLog(self.log, lambda: epoch, lambda: 1), topics, limits),
            self.plan.delays_s,
            lambda record: self.acknowledged.add(parsed(text(record.value))),
            self._is_stuck,
        )
        try:
            delivery = AtLeastOnce if self.plan.boundary is None else ExactlyOnce
            yield delivery(loaded, producer)
        finally:
            await producer.close()

    def _is_stuck(self, record: ProducerRecord) -> bool:
        return self.plan.stuck is not None and record.key == str(self.plan.stuck).encode()


def text(value: bytes | None) -> str:
    """Decode a key or value; None becomes an empty text."""
    return (value or b"").decode()


def parsed(value: str) -> ReadRecord:
    """Return the record of a value."""
    part, _, number = value.partition("/")
    return int(part), int(number)


def records_of(records: Sequence[Record]) -> list[ReadRecord]:
    """Return the records of an append that are data."""
    return [parsed(text(record.value)) for record in records if record.topic == LINES]


def offsets_of(records: Sequence[Record]) -> list[tuple[Mapping[str, Any], dict[str, Any] | None]]:
    """Return the source partitions and offsets of an append."""
    return [
        (json.loads(text(record.key))[1], json.loads(text(record.value) or "null"))
        for record in records
        if record.topic == OFFSETS
    ]


def by_partition(offsets: OffsetPairs) -> dict[str, Any]:
    """Return offsets by the JSON text of their source partition."""
    return {json.dumps(dict(partition)): offset for partition, offset in offsets}
