"""Control plane on its own Kafka topics writes the same records as on any other log.

`tests/test_command_histories.py` compares these records with those of real clusters. Here every
command runs on a log in memory and on real brokers. The records on the brokers must have the same
bytes. Kafka's own stores and our fold must read the same from them.
"""

import time
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, NamedTuple, get_args

import msgspec
import pytest

from controlplane import ControlPlane, Refusal, Settings, Surroundings
from controlplane.controller import CommandLimits
from controlplane.core import commands
from controlplane.core.commands import AnyCommand, CommandRequest, OffsetChange
from controlplane.core.entry import Entry
from controlplane.core.order import entries_of
from controlplane.core.plan import Step
from controlplane.core.records import Target
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.core.views.diff import diff
from controlplane.logs.cluster_topics import check_own_topics
from controlplane.logs.kafka.log import KafkaLog
from controlplane.logs.log import Fenced, Log, LogNotUsable, ReadableLog, Record
from controlplane.logs.log_factory import open_kafka_log
from controlplane.logs.memory import MemoryLog
from controlplane.settings import Configuration
from controlplane.settings.sources import flag_values
from tests.kafka.claimed_logs import opened
from tests.kafka.producer import NewTopic
from tests.kafka.real_kafka import Broker
from tests.kafka.topic_histories import COMPACTED_SOON, compacted
from tests.oracle.case import TOPICS, Case
from tests.oracle.comparison import compared
from tests.oracle.kafka import KafkaOracle
from tests.oracle.our_answer import of_loader

pytestmark = [pytest.mark.java, pytest.mark.broker, pytest.mark.slow]

STORE_RELEASES = ("3.4.1", "3.9.1", "4.3.0")
FILE = {"connector.class": "FileStreamSource", "file": "in.txt", "topic": "größe", "tasks.max": "2"}
SINK = {"connector.class": "FileStreamSink", "file": "out.txt", "topics": "größe"}
PLACE = {"filename": "in.txt"}

COUNTED = {"config.offset", "config.connectorTaskConfigGenerations"}
"""Parts of a state that count records: compaction changes them, in a worker too."""

SINGLE_REPLICAS = {
    f"{store}.storage.replication.factor": "1" for store in ("config", "offset", "status")
}
"""Settings of a worker for a cluster of one broker."""

LIFE: tuple[AnyCommand, ...] = (
    commands.CreateConnector("orders", FILE),
    commands.CreateConnector("orders", FILE),
    commands.CreateConnector("späte", FILE, initial_state=Target.STOPPED),
    commands.CreateConnector(
        "with-offsets", FILE, initial_offsets=(OffsetChange(PLACE, {"position": 7}),)
    ),
    commands.PublishTasks("orders", ({"file": "in.txt", "a": "1"}, {"file": "in.txt", "a": "2"})),
    commands.FenceTasks("orders"),
    commands.PutConfig("sink", SINK),
    commands.PutConfig("orders", {**FILE, "file": "zweite.txt"}),
    commands.PatchConfig("orders", {"file": "in.txt", "topic": "neu", "tasks.max": None}),
    commands.PauseConnector("orders"),
    commands.ResumeConnector("orders"),
    commands.RestartConnector("orders", include_tasks=True),
    commands.RestartTask("orders", 0),
    commands.AlterOffsets("orders", (OffsetChange(PLACE, {"position": 1}),)),
    commands.StopConnector("orders"),
    commands.AlterOffsets("orders", (OffsetChange(PLACE, {"position": 2}),)),
    commands.ResetOffsets("orders"),
    commands.AlterOffsets("orders", (OffsetChange(PLACE, {"position": 3}),)),
    commands.ResetTopics("orders"),
    commands.RestoreConnector("orders", FILE),
    commands.SetLoggerLevel("org.apache", "DEBUG"),
    commands.DeleteConnector("sink"),
    commands.StopConnector("missing"),
)
"""Every command, and some that are refused."""


def around(now_ms: int) -> Surroundings:
    """Surroundings with a stopped clock and ids in order: two planes write the same."""
    ids = count()
    return Surroundings(now_ms=lambda: now_ms, new_id=lambda: f"id-{next(ids)}")


ENDS_HELD = CommandLimits(end_delay_ms=3_600_000)


async def live(log: Log, topics: Topics, now_ms: int) -> list[Any]:
    """Run the commands on a log; return the outcomes.

    Each end of a command waits for the next command. After a delay, it would be an append of its
    own, which commands of other connectors may overtake.
    """
    outcomes: list[Any] = []
    settings = Settings(topics=topics, exactly_once=True, limits=ENDS_HELD)
    async with ControlPlane.open(log, settings, around(now_ms)) as plane:
        for command in LIFE:
            try:
                outcomes.append(await plane.execute(command))
            except Refusal as refusal:
                outcomes.append(refusal.rejected)
    return outcomes


async def records(log: ReadableLog, topics: Iterable[str]) -> list[Entry]:
    """All committed records in fold order."""
    batches = [batch async for batch in log.read(topics)]
    return [entry for entry in entries_of(batches) if not entry.aborted]


def contents(entries: Iterable[Entry]) -> list[tuple[Any, ...]]:
    """Position, time, key and value of each record, by position; headers are left out."""
    return sorted(
        (
            (entry.topic, entry.partition, entry.offset, entry.timestamp, entry.key, entry.value)
            for entry in entries
        ),
        key=lambda content: content[:3],
    )


def without_plans(entry_contents: list[tuple[Any, ...]], topics: Topics) -> list[tuple[Any, ...]]:
    """Contents without offsets and plans.

    Markers take some offsets. On Kafka each record *accepted* has the plan, because it is a batch
    of its own. In memory a plan of one batch is left out.
    """
    return [
        (topic, partition, *others, value if topic != topics.commands else _without_plan(value))
        for topic, partition, _, *others, value in entry_contents
    ]


def _without_plan(value: bytes) -> dict[str, Any]:
    record: dict[str, Any] = msgspec.json.decode(value)
    return {name: part for name, part in record.items() if name != "plan"}


def renamed(entries: Iterable[Entry], topics: Topics) -> tuple[Entry, ...]:
    """Records of Connect's topics, under the topic names of the oracle."""
    names = {topics.config: TOPICS.config, topics.offsets: TOPICS.offsets}
    names[topics.status] = TOPICS.status
    return tuple(
        msgspec.structs.replace(entry, topic=names[entry.topic])
        for entry in entries
        if entry.topic in names
    )


@pytest.fixture
def topics(topic: str) -> Topics:
    """Names of missing topics."""
    return topics_of(topic)


def topics_of(cluster: str) -> Topics:
    """Names of a cluster's topics."""
    return Topics(*(f"{cluster}-{name}" for name in ("configs", "offsets", "status", "commands")))


async def own_log(
    broker: Broker, topics: Topics, more: Mapping[str, str] | None = None
) -> KafkaLog:
    """Log as `serve` opens it for these topics, and with more settings."""
    settings = {
        "group.id": topics.config,
        "config.storage.topic": topics.config,
        "offset.storage.topic": topics.offsets,
        "status.storage.topic": topics.status,
        "command.storage.topic": topics.commands,
        **SINGLE_REPLICAS,
        **(more or {}),
    }
    configuration = Configuration(flag_values((key, key, name) for key, name in settings.items()))
    return await open_kafka_log(f"kafka://{broker.bootstrap}", configuration)


async def test_every_command_writes_the_same_as_in_memory(broker: Broker, topics: Topics) -> None:
    """Outcomes and bytes are equal, except offsets and plans; only our own topic has headers."""
    assert {type(command) for command in LIFE} == {*get_args(AnyCommand)}
    now_ms = time.time_ns() // 1_000_000
    memory = MemoryLog()
    log = await own_log(broker, topics)
    try:
        assert await live(log, topics, now_ms) == await live(memory, topics, now_ms)
        names = await memory.topics()
        assert dict(await log.topics()).items() >= names.items()
        in_memory, on_broker = await records(memory, names), await records(log, names)
        broker_contents, memory_contents = contents(on_broker), contents(in_memory)
        assert without_plans(broker_contents, topics) == without_plans(memory_contents, topics)
        assert {entry.topic for entry in on_broker if entry.headers} == {topics.commands}
        case = Case(renamed(on_broker, topics))
        for release in STORE_RELEASES:
            with KafkaOracle(release) as oracle:
                assert compared(oracle.answer(case), case, Profile.of(release)) == {}
    finally:
        await log.close()


class CutCommand(NamedTuple):
    """Command that a takeover cuts off, the commands before it, and the names of its steps."""

    before: tuple[AnyCommand, ...]
    command: AnyCommand
    steps: tuple[str, ...]


RUNNING = (
    commands.CreateConnector("orders", FILE),
    commands.PublishTasks("orders", ({"file": "in.txt"}, {"file": "in.txt"})),
)
TWO_OFFSETS = (
    OffsetChange(PLACE, {"position": 7}),
    OffsetChange({"filename": "b"}, {"position": 8}),
)
STOPPED = commands.CreateConnector(
    "orders", FILE, initial_state=Target.STOPPED, initial_offsets=TWO_OFFSETS
)

CUT_COMMANDS = {
    "stop": CutCommand(RUNNING, commands.StopConnector("orders"), ("tasks", "state")),
    "create": CutCommand(
        (STOPPED, commands.DeleteConnector("orders")),
        commands.CreateConnector(
            "orders", FILE, initial_state=Target.PAUSED, initial_offsets=TWO_OFFSETS[:1]
        ),
        ("wipe", "write", "create"),
    ),
    "alter": CutCommand((STOPPED,), commands.AlterOffsets("orders", TWO_OFFSETS[:1]), ("write",)),
    "reset": CutCommand((STOPPED,), commands.ResetOffsets("orders"), ("wipe",)),
    "delete": CutCommand(RUNNING, commands.DeleteConnector("orders"), ("config",)),
}


class StepTakeover:
    """Claims the log for a rival, once a number of steps is done."""

    def __init__(self, rival: KafkaLog, topics: Topics) -> None:
        self.steps: list[str] = []
        """Names of the finished steps, since `arm`."""
        self.at_takeover: list[Entry] | None = None
        """Records after the claim; None: the rival has not claimed the log."""
        self._rival = rival
        self._topics = msgspec.structs.astuple(topics)
        self._after: int | None = None

    async def __call__(self, _request: CommandRequest, step: Step) -> None:
        """Count a finished step; claim the log if the number is reached."""
        self.steps.append(step.name)
        await self._claim_if_due()

    async def arm(self, after: int) -> None:
        """Count anew, and claim the log after this number of steps."""
        self.steps.clear()
        self._after = after
        await self._claim_if_due()

    async def _claim_if_due(self) -> None:
        if len(self.steps) == self._after:
            await self._rival.claim()
            self.at_takeover = await self.records()

    async def records(self) -> list[Entry]:
        """All committed records of the cluster."""
        return await records(self._rival, self._topics)


@pytest.mark.parametrize(
    ("cut", "done"),
    [
        pytest.param(cut, done, id=f"{name}-after-{done}")
        for name, cut in CUT_COMMANDS.items()
        for done in range(len(cut.steps))
    ],
)
async def test_a_zombie_within_a_command_stops(
    broker: Broker, topics: Topics, cut: CutCommand, done: int
) -> None:
    """After a claim behind any step, the old writer stops and the new one completes.

    A claim before the first step leaves nothing of the command. The last step has no case, because
    nothing is left to refuse.
    """
    log, rival = await own_log(broker, topics), await own_log(broker, topics)
    takeover = StepTakeover(rival, topics)
    settings, surroundings = Settings(topics=topics), around(time.time_ns() // 1_000_000)
    try:
        async with ControlPlane.open(
            log, settings, surroundings._replace(stepped=takeover)
        ) as plane:
            for command in cut.before:
                await plane.execute(command)
            await takeover.arm(done)
            with pytest.raises(Fenced):
                await plane.execute(cut.command)
        assert takeover.steps == [*cut.steps[:done]]
        assert await takeover.records() == takeover.at_takeover
        run = (*cut.before, cut.command) if done else cut.before
        async with ControlPlane.open(rival, settings) as successor:
            assert diff(await undisturbed(run, topics), successor.state) == []
            traces = successor.state.commands.values()
            assert [trace.unfinished for trace in traces] == [False] * len(run)
    finally:
        await log.close()
        await rival.close()


async def undisturbed(run: Iterable[AnyCommand], topics: Topics) -> ClusterState:
    """State after these commands in memory."""
    async with ControlPlane.open(MemoryLog(), Settings(topics=topics)) as plane:
        for command in run:
            await plane.execute(command)
        return plane.state


@pytest.mark.parametrize("cut", CUT_COMMANDS.values(), ids=CUT_COMMANDS)
async def test_every_step_of_a_cut_command_is_named(cut: CutCommand) -> None:
    """The steps by which the test above counts are those of the plan."""
    steps: list[str] = []

    async def stepped(_request: CommandRequest, step: Step) -> None:
        steps.append(step.name)

    surroundings = around(1)._replace(stepped=stepped)
    async with ControlPlane.open(MemoryLog(), Settings(), surroundings) as plane:
        for command in cut.before:
            await plane.execute(command)
        steps.clear()
        await plane.execute(cut.command)
    assert (*steps,) == cut.steps


async def test_foreign_records_are_refused(broker: Broker, topics: Topics) -> None:
    """Records without our commands belong to another cluster; nothing is claimed or created."""
    log = await own_log(broker, topics)
    try:
        await log.create_topic(topics.config, 1)
        await log.append([Record(topics.config, 0, 1, b"connector-c", b"{}")])
        for empty in ("does not exist", "is empty"):
            with pytest.raises(LogNotUsable, match=f"{topics.config} already has .* {empty}:"):
                await live(log, topics, 1)
            assert topics.status not in await log.topics()
            await log.create_topic(topics.commands, 1)
        assert await log.ends([topics.config, topics.commands]) == {
            topics.config: [1],
            topics.commands: [0],
        }
    finally:
        await log.close()


async def test_markers_are_no_records(broker: Broker, topics: Topics) -> None:
    """A claim writes markers to all topics, which still count as new until they have records."""
    log = await own_log(broker, topics)
    try:
        for topic in msgspec.structs.astuple(topics):
            await log.create_topic(topic, 1)
        await log.claim()
        assert (await log.ends([topics.commands]))[topics.commands] == [1]
        await check_own_topics(log, topics)
        await log.append([Record(topics.config, 0, 1, b"connector-c", b"{}")])
        with pytest.raises(LogNotUsable, match=f"{topics.config} already has .* is empty:"):
            await check_own_topics(log, topics)
    finally:
        await log.close()


async def test_a_split_config_topic_is_refused(broker: Broker, topics: Topics) -> None:
    """A config topic with several partitions is refused, as by a worker."""
    log = await own_log(broker, topics)
    try:
        await log.create_topic(topics.config, 2)
        with pytest.raises(LogNotUsable, match=f"{topics.config} has 2 partitions and must"):
            await live(log, topics, 1)
    finally:
        await log.close()


async def test_compaction_keeps_the_state(broker: Broker, new_topic: NewTopic) -> None:
    """Records that Kafka has compacted fold to the state of all written records."""
    now_ms = time.time_ns() // 1_000_000
    memory, written = MemoryLog(), Topics()
    await live(memory, written, now_ms)
    names = (written.config, written.offsets, written.status)
    kept = {
        name: await new_topic((await memory.topics())[name], **COMPACTED_SOON) for name in names
    }
    async with opened(broker.bootstrap) as log:
        epoch = await log.claim()
        before = await records(memory, names)
        for entry in before:
            place = kept[entry.topic], entry.partition, entry.timestamp
            await log.append([Record(*place, entry.key, entry.value)], epoch)
        config = kept[written.config]

        async def touch() -> None:
            filler = Record(config, 0, time.time_ns() // 1_000_000, b"filler", b"0")
            await log.append([filler], epoch)

        async def shorter() -> bool:
            on_broker = [entry for entry in await records(log, [config]) if entry.key != b"filler"]
            keys = {entry.key for entry in on_broker}
            return len(on_broker) == len(keys)

        await compacted(touch, shorter)
        on_broker = [entry for entry in await records(log, kept.values()) if entry.key != b"filler"]
        assert len(on_broker) < len(before)
        compacted_entries = renamed(on_broker, Topics(*(kept[name] for name in names)))
        for release in STORE_RELEASES:
            profile = Profile.of(release)
            assert _lasting(compacted_entries, profile) == _lasting(before, profile)


def _lasting(entries: Iterable[Entry], profile: Profile) -> dict[str, Any]:
    """Parts of a state that compaction keeps."""
    state = of_loader(Case(tuple(entries)), profile)
    return {name: part for name, part in state.items() if name not in COUNTED}


CLEANED_SOON = {
    "command.storage.segment.ms": "100",
    "command.storage.min.cleanable.dirty.ratio": "0",
}
"""Settings under which brokers clean a command topic soon, but no record of the last 30 days."""

CLEANED_AT_ONCE = {**CLEANED_SOON, "command.storage.min.compaction.lag.ms": "0"}
"""Settings under which brokers clean a command topic soon, whatever the age of a record."""

KEYED = commands.CreateConnector("orders", FILE)
PAUSE = commands.PauseConnector("orders")


async def test_a_new_command_topic_keeps_both_records_of_a_command(
    broker: Broker, topic: str
) -> None:
    """A later process knows the idempotency key, while a topic without the 30 days has lost it."""
    keeping, losing = topics_of(f"{topic}-keeping"), topics_of(f"{topic}-losing")
    kept = await own_log(broker, keeping, CLEANED_SOON)
    lost = await own_log(broker, losing, CLEANED_AT_ONCE)

    async def is_cleaned() -> bool:
        return not await has_acceptance(lost, losing)

    try:
        async with (
            ControlPlane.open(kept, Settings(topics=keeping)) as keeper,
            ControlPlane.open(lost, Settings(topics=losing)) as loser,
        ):

            async def touch() -> None:
                await keeper.execute(PAUSE)
                await loser.execute(PAUSE)

            answer = await keeper.execute(KEYED, key="k")
            await loser.execute(KEYED, key="k")
            await compacted(touch, is_cleaned)
        assert await has_acceptance(kept, keeping)
        async with ControlPlane.open(kept, Settings(topics=keeping)) as keeper:
            assert await keeper.execute(KEYED, key="k") == answer
        async with ControlPlane.open(lost, Settings(topics=losing)) as loser:
            with pytest.raises(Refusal, match="already exists"):
                await loser.execute(KEYED, key="k")
    finally:
        await kept.close()
        await lost.close()


async def has_acceptance(log: ReadableLog, topics: Topics) -> bool:
    """True if the command topic has the acceptance of the command with the key `k`."""
    entries = await records(log, [topics.commands])
    return any(entry.key == b"k" and b'"accepted"' in (entry.value or b"") for entry in entries)
