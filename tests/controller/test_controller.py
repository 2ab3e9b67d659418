"""The single writer: order, answers, idempotency, cancellation and failures."""

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from controlplane.controller import CommandLimits, NotWritten, TimedOut, TooMany
from controlplane.core import views
from controlplane.core.codec import decode_command
from controlplane.core.commands import (
    AnyCommand,
    CommandRequest,
    PatchConfig,
    PauseConnector,
    RestartTask,
    ResumeConnector,
    SetLoggerLevel,
    StopConnector,
)
from controlplane.core.entry import Position
from controlplane.core.plan import Plan, Reason, Rejected, Step
from controlplane.core.records import CommandAccepted, Target
from controlplane.logs.log import Fenced, Record
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog, SqliteSettings
from controlplane.plane import Refusal, Settings
from tests.controller.scene import (
    COMMANDS,
    CONFIG,
    NOW_MS,
    Crash,
    configured,
    crash_after,
    entries,
    plane_on,
    raw,
    two_connectors,
    wait_for_connectors,
    written_texts,
)
from tests.patience import NEVER_RETRIED, PATIENCE_S

STOP = StopConnector("orders")
STOPPED = [
    ("commit-orders", '{"tasks":0}'),
    ("target-state-orders", '{"state":"PAUSED","state.v2":"STOPPED"}'),
]


@pytest.fixture
async def log() -> MemoryLog:
    """A log in which `orders` and `users` are configured."""
    return await two_connectors()


async def test_a_command_is_answered_once_read_back(log: MemoryLog) -> None:
    """After the answer to a command, the state has all of its records."""
    async with plane_on(log) as plane:
        await plane.execute(STOP)
        assert views.target(plane.state, "orders") is Target.STOPPED
        assert (await written_texts(log, CONFIG))[2:] == STOPPED


async def test_records_have_command_and_principal(log: MemoryLog) -> None:
    """Our records in Connect's topics carry the command's id and its principal as headers."""
    async with plane_on(log) as plane:
        await plane.execute(STOP, principal="ada", key="the-key")
    ours = (await entries(log, [CONFIG]))[2:]
    headers = (("controlplane-command-id", b"the-key"), ("controlplane-principal", b"ada"))
    assert {(record.headers, record.timestamp) for record in ours} == {(headers, NOW_MS)}


async def test_a_command_is_accepted_and_finished(log: MemoryLog) -> None:
    """A completed command has the records *accepted*, with its principal, and *finished*."""
    async with plane_on(log) as plane:
        await plane.execute(STOP, principal="ada")
        trace = plane.state.commands["command-1"]
        assert trace.accepted is not None
        assert trace.finished is not None
        assert trace.accepted.principal == "ada"
        assert trace.accepted.command == {"command": "stop", "connector": "orders"}
        assert trace.accepted.plan is None  # the command has ended, so its plan is dropped
        assert trace.finished.outcome["ended"] == "done"


@pytest.mark.parametrize(
    ("splits", "batches"),
    [
        (False, [["accepted", "commit-orders"], ["target-state-orders", "finished"]]),
        (True, [["accepted"], ["commit-orders"], ["target-state-orders"], ["finished"]]),
    ],
)
async def test_accepted_and_finished_surround_the_records(
    log: MemoryLog, *, splits: bool, batches: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """*accepted* is appended before the first record of a command, *finished* after the last one.

    On a log with fast batches, both are batches of their own.
    """
    appended: list[list[str]] = []
    append = log.append

    async def noted(records: Sequence[Record], epoch: int | None = None) -> Sequence[Position]:
        appended.append([_record_name(record) for record in records])
        return await append(records, epoch)

    monkeypatch.setattr(log, "append", noted)
    monkeypatch.setattr(MemoryLog, "has_fast_batches", splits, raising=False)
    async with plane_on(log) as plane:
        await plane.execute(STOP)
    assert appended == batches


def _record_name(record: Record) -> str:
    """Type of a record of the command topic; key of any other record."""
    if record.topic == COMMANDS:
        return str(msgspec.json.decode(record.value or b"")["type"])
    return (record.key or b"").decode()


@pytest.mark.parametrize(("command", "has_plan"), [(STOP, True), (PauseConnector("orders"), False)])
async def test_the_log_keeps_plans(log: MemoryLog, command: AnyCommand, *, has_plan: bool) -> None:
    """*accepted* keeps the plan in the log after the command's end; a single batch needs none."""
    async with plane_on(log) as plane:
        await plane.execute(command)
    begun, *_ = await entries(log, [COMMANDS])
    accepted = decode_command(begun.key, begun.value)
    assert isinstance(accepted, CommandAccepted)
    assert (accepted.plan is not None) == has_plan


async def test_a_refused_command_writes_no_other_record(log: MemoryLog) -> None:
    """A refused command writes only to the command topic."""
    async with plane_on(log) as plane:
        before = await written_texts(log, CONFIG)
        with pytest.raises(Refusal, match="Unknown connector nobody") as caught:
            await plane.execute(StopConnector("nobody"))
        assert caught.value.rejected.reason is Reason.NO_SUCH_CONNECTOR
        assert await written_texts(log, CONFIG) == before
        refused = plane.state.commands["command-1"].refused
        assert refused is not None
        assert refused.reason == "Unknown connector nobody"


class NoticeFacts:
    """Logger that records the facts of each event."""

    def __init__(self) -> None:
        self.events: list[dict[str, object]] = []

    def info(self, event: str, **facts: object) -> None:
        """Append the event and its facts to `events`."""
        self.events.append({"event": event, **facts})

    warning = info


async def test_each_command_is_one_log_line(log: MemoryLog) -> None:
    """One log line has user, command, connector, outcome, records and duration, refused or not."""
    lines = NoticeFacts()
    async with plane_on(log, notices=lines) as plane:
        await plane.execute(STOP, principal="ada")
        with pytest.raises(Refusal):
            await plane.execute(StopConnector("nobody"))
    fields = ("command", "connector", "principal", "outcome", "records", "took_ms")
    assert [tuple(line[name] for name in fields) for line in lines.events] == [
        ("stop", "orders", "ada", "done", 4, 0),
        ("stop", "nobody", "embedded", "no such connector", 1, 0),
    ]


async def test_a_log_line_names_the_changed_logger(log: MemoryLog) -> None:
    """A log line has namespace and level of the changed logger, as `logger_level`."""
    lines = NoticeFacts()
    async with plane_on(log, notices=lines) as plane:
        await plane.execute(SetLoggerLevel("org.apache", "DEBUG"))
    (line,) = lines.events
    assert (line["namespace"], line["logger_level"]) == ("org.apache", "DEBUG")
    assert "connector" not in line


async def test_refusals_are_bounded(log: MemoryLog) -> None:
    """A flood of refused commands does not fill the command topic."""
    settings = Settings(limits=CommandLimits(refusals_per_minute=3))
    async with plane_on(log, settings) as plane:
        for _ in range(10):
            with pytest.raises(Refusal):
                await plane.execute(StopConnector("nobody"))
        assert len(await written_texts(log, COMMANDS)) == 3


async def test_refusals_that_have_waited_count_at_their_end(log: MemoryLog) -> None:
    """Refused commands that waited in a queue take tokens of the minute in which they end."""
    settings = Settings(limits=CommandLimits(refusals_per_minute=3))
    clock_ms, resumed = NOW_MS, asyncio.Event()

    async def stepped(request: CommandRequest, _done: Step) -> None:
        if request.command == STOP:
            await resumed.wait()

    async with plane_on(log, settings, stepped=stepped, now_ms=lambda: clock_ms) as plane:
        slow = asyncio.ensure_future(plane.execute(STOP))
        await asyncio.sleep(0)
        late = [plane.execute(RestartTask("orders", 7)) for _ in range(20)]
        waiting = asyncio.gather(*late, return_exceptions=True)
        await asyncio.sleep(0.01)
        clock_ms += 60_000
        resumed.set()
        while not waiting.done():
            with pytest.raises(Refusal):
                await plane.execute(StopConnector("nobody"))
        assert {type(answer) for answer in await waiting} == {Refusal}
        await slow
        texts = [text or "" for _, text in await written_texts(log, COMMANDS)]
        assert len([text for text in texts if '"type":"refused"' in text]) == 3


async def test_a_dry_run_writes_nothing(log: MemoryLog) -> None:
    """A dry run shows the records and writes none."""
    async with plane_on(log) as plane:
        before = await written_texts(log, CONFIG, COMMANDS)
        plan = await plane.plan(STOP)
        assert isinstance(plan, Plan)
        assert [step.name for step in plan.steps] == ["tasks", "state"]
        assert isinstance(await plane.plan(StopConnector("nobody")), Rejected)
        assert await written_texts(log, CONFIG, COMMANDS) == before


async def test_an_idempotency_key_is_executed_once(log: MemoryLog) -> None:
    """An idempotency key is executed once, also by a later process and for concurrent requests."""
    async with plane_on(log) as plane:
        await asyncio.gather(*(plane.execute(STOP, key="k") for _ in range(5)))
        await plane.execute(STOP, key="k")
    async with plane_on(log) as plane:
        await plane.execute(STOP, key="k")
    assert (await written_texts(log, CONFIG))[2:] == STOPPED


async def test_a_key_of_another_command_is_refused(log: MemoryLog) -> None:
    """A key belongs to one command; another command with it is refused."""
    async with plane_on(log) as plane:
        await plane.execute(STOP, key="k")
        with pytest.raises(Refusal, match="belongs to another command"):
            await plane.execute(StopConnector("users"), key="k")


async def test_refused_key_can_be_used_again(log: MemoryLog) -> None:
    """The key of a refused command is free: once the command is possible, the key executes it."""
    async with plane_on(log) as plane:
        with pytest.raises(Refusal):
            await plane.execute(StopConnector("late"), key="k")
        await log.append([configured("late")])
        await wait_for_connectors(plane, "late")
        await plane.execute(StopConnector("late"), key="k")


async def test_commands_of_one_connector_keep_their_order(log: MemoryLog) -> None:
    """Commands of one connector run in the order of their requests."""
    async with plane_on(log) as plane:
        commands: list[AnyCommand] = [PauseConnector("orders"), ResumeConnector("orders"), STOP] * 5
        await asyncio.gather(*(plane.execute(command) for command in commands))
    states = [
        value for key, value in await written_texts(log, CONFIG) if key == "target-state-orders"
    ]
    assert [str(state)[10:16] for state in states] == ["PAUSED", "STARTE", "PAUSED"] * 5


class Held:
    """A `stepped` hook that holds commands of `orders` after their first step."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self, request: CommandRequest, _step: Step) -> None:
        if getattr(request.command, "connector", "") == "orders":
            self.reached.set()
            await self.go_on.wait()


async def test_connectors_do_not_wait_for_each_other(log: MemoryLog) -> None:
    """A command of `users` completes while one of `orders` is held."""
    held = Held()
    async with plane_on(log, stepped=held) as plane:
        slow = asyncio.create_task(plane.execute(STOP))
        await held.reached.wait()
        await plane.execute(StopConnector("users"))
        assert not slow.done()
        held.go_on.set()
        await slow


async def test_a_started_command_completes_without_its_caller(log: MemoryLog) -> None:
    """A started command completes without its caller."""
    held = Held()
    async with plane_on(log, stepped=held) as plane:
        caller = asyncio.create_task(plane.execute(STOP))
        await held.reached.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        held.go_on.set()
    assert (await written_texts(log, CONFIG))[2:] == STOPPED


async def test_a_waiting_command_is_dropped_with_its_caller(log: MemoryLog) -> None:
    """A command that has not started is dropped if its caller leaves."""
    held = Held()
    async with plane_on(log, stepped=held) as plane:
        first = asyncio.create_task(plane.execute(STOP))
        await held.reached.wait()
        second = asyncio.create_task(plane.execute(ResumeConnector("orders")))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        held.go_on.set()
        await first
    assert (await written_texts(log, CONFIG))[2:] == STOPPED


async def test_the_caller_gets_a_time_out(log: MemoryLog) -> None:
    """After the time-out the caller gets an error; the command goes on."""
    held = Held()
    async with plane_on(
        log, Settings(limits=CommandLimits(request_timeout_ms=1_000)), stepped=held
    ) as plane:
        with pytest.raises(TimedOut, match=r"^Request timed out\. The worker is .*\dZ\.$"):
            await plane.execute(STOP)
        held.go_on.set()
    assert (await written_texts(log, CONFIG))[2:] == STOPPED


async def test_commands_above_the_limit_are_refused(log: MemoryLog) -> None:
    """A command above the limit of waiting commands is refused at once."""
    held = Held()
    async with plane_on(
        log, Settings(limits=CommandLimits(commands_waiting=2)), stepped=held
    ) as plane:
        waiting = [asyncio.create_task(plane.execute(STOP)) for _ in range(2)]
        await held.reached.wait()
        with pytest.raises(TooMany, match="try again later"):
            await plane.execute(StopConnector("users"))
        held.go_on.set()
        await asyncio.gather(*waiting)


async def test_planes_of_one_process_share_no_state(log: MemoryLog) -> None:
    """A command at one plane does not change the state of another."""
    other = MemoryLog()
    async with plane_on(log) as first, plane_on(other) as second:
        await first.execute(STOP)
        assert views.connectors(second.state) == []


async def test_second_writer_fences_the_first(log: MemoryLog) -> None:
    """The last plane that opens the log is the writer; the other is fenced and writes nothing."""
    async with plane_on(log) as first, plane_on(log) as second:
        with pytest.raises(Fenced):
            await first.execute(STOP)
        await second.execute(STOP)
    assert (await written_texts(log, CONFIG))[2:] == STOPPED


@pytest.mark.parametrize("step", ["tasks", "state"])
async def test_a_crash_after_any_step_is_recovered(log: MemoryLog, step: str) -> None:
    """The next process completes a stop that crashed after any step."""
    async with plane_on(log, stepped=crash_after(step)) as plane:
        with pytest.raises(Crash):
            await plane.execute(STOP, key="k")
    async with plane_on(log) as plane:
        assert views.target(plane.state, "orders") is Target.STOPPED
        assert not plane.state.commands["k"].unfinished
        await plane.execute(STOP, key="k")  # the stored outcome is the answer
    keys = [key for key, _ in await written_texts(log, CONFIG)][2:]
    assert (keys[0], keys[-1]) == ("commit-orders", "target-state-orders")


@pytest.mark.parametrize(
    "record",
    [
        {"command": {"command": "fly"}, "plan": {"steps": []}},
        {"command": {"command": "stop", "connector": "orders"}},
        {"command": {"command": "stop", "connector": "orders"}, "plan": {"steps": 1}},
    ],
)
async def test_unknown_command_records_are_ignored(
    log: MemoryLog, record: dict[str, object]
) -> None:
    """Records of a newer version or of a foreign writer do not prevent the start."""
    await log.create_topic(COMMANDS, 1)
    head = {"type": "accepted", "command_id": "k", "at_ms": 1, "principal": "ada"}
    await log.append([raw(COMMANDS, "k", msgspec.json.encode(head | record).decode())])
    async with plane_on(log) as plane:
        assert plane.state.commands["k"].unfinished
        await plane.execute(STOP)
    assert (await written_texts(log, CONFIG))[2:] == STOPPED


async def test_watchers_get_each_change(log: MemoryLog) -> None:
    """Watchers get each change when it happens, with the record that causes it."""
    async with plane_on(log) as plane:
        changes = plane.watch()
        coming = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        await plane.execute(PauseConnector("orders"))
        change = await coming
        assert (change.connector, change.before, change.after) == (
            "orders",
            "STARTED",
            "PAUSED",
        )
        await changes.aclose()


async def test_no_update_is_lost(log: MemoryLog) -> None:
    """A patch applies to a config of a foreign writer, even if the plane has not read it yet."""
    async with plane_on(log) as plane:
        late = {"properties": {"connector.class": "lab.Source", "name": "orders", "late": "1"}}
        await log.append([raw(CONFIG, "connector-orders", json.dumps(late))])
        await asyncio.gather(
            *(plane.execute(PatchConfig("orders", {key: "2"})) for key in ("a", "b", "c"))
        )
        config = plane.state.config.connectors["orders"]
    assert {"late": "1", "a": "2", "b": "2", "c": "2"}.items() <= dict(config).items()


async def test_the_history_has_all_records(log: MemoryLog) -> None:
    """The history has all records of one connector, in order."""
    async with plane_on(log) as plane:
        await plane.execute(STOP)
        await plane.execute(StopConnector("users"))
        connector_history = await plane.history("orders")
    keys = [(record.key or b"").decode() for record in connector_history.records]
    assert keys == ["connector-orders", "commit-orders", "target-state-orders"]
    assert ("target state", "STARTED → STOPPED") in [
        (event.what, event.words) for event in connector_history.events
    ]


async def test_a_locked_file_delays_a_step(tmp_path: Path) -> None:
    """A locked file delays the step until the lock is released."""
    path = tmp_path / "state.db"
    log = await SqliteLog.open(path, settings=SqliteSettings(write_wait_ms=20))
    blocker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    async def stepped(_asked: CommandRequest, step: Step) -> None:
        if step.name == "tasks":
            blocker.execute("BEGIN IMMEDIATE")
            asyncio.get_running_loop().call_later(0.1, blocker.execute, "ROLLBACK")

    with closing(blocker):
        async with plane_on(log, stepped=stepped) as plane:
            await log.append([configured("orders")])
            await wait_for_connectors(plane, "orders")
            await plane.execute(STOP)
        assert (await written_texts(log, CONFIG))[1:] == STOPPED
        await log.close()


@pytest.mark.parametrize("next_command", [True, False], ids=["next command", "nobody asks"])
async def test_a_long_outage_leaves_no_half_done_command(
    tmp_path: Path, *, next_command: bool
) -> None:
    """The plane acknowledges no command; it completes the half-done one once the log is back."""
    path = tmp_path / "state.db"
    log = await SqliteLog.open(path, settings=SqliteSettings(write_wait_ms=10))
    blocker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    armed = True

    async def stepped(_asked: CommandRequest, step: Step) -> None:
        nonlocal armed
        if armed and step.name == "tasks":
            armed = False
            blocker.execute("BEGIN IMMEDIATE")

    with closing(blocker):
        async with plane_on(log, Settings(limits=NEVER_RETRIED), stepped=stepped) as plane:
            await log.append([configured("orders")])
            await wait_for_connectors(plane, "orders")
            with pytest.raises(NotWritten, match=r"^Error writing target state to Kafka: "):
                await plane.execute(STOP, key="k")
            blocker.execute("ROLLBACK")
            if next_command:
                await plane.execute(PauseConnector("orders"))
            changes = plane.watch()
            async with asyncio.timeout(PATIENCE_S):
                while plane.state.commands["k"].unfinished:
                    await anext(changes)
            await changes.aclose()
        values = [value for key, value in await written_texts(log, CONFIG) if "target" in key]
        assert values[0] == STOPPED[1][1]
        await log.close()
