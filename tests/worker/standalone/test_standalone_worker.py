"""Answers of a standalone worker to commands, sent once it has carried them out."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from controlplane.connect import SourceConnector, SourceTask, key
from controlplane.core import views
from controlplane.core.commands import (
    AnyCommand,
    CreateConnector,
    DeleteConnector,
    PutConfig,
    StopConnector,
)
from controlplane.core.plan import Outcome, Reason, Rejected
from controlplane.core.records import Target
from controlplane.logs.memory import MemoryLog
from controlplane.worker.standalone.offset_file import OffsetFile
from controlplane.worker.standalone.standalone_commands import StandaloneCommands
from controlplane.worker.worker import ConnectWorker
from tests.patience import PATIENCE_S
from tests.worker.numbered_records import CountingSource
from tests.worker.standalone.standalone_fixture import standalone
from tests.worker.worker_fixture import (
    ABANDONING,
    config_of,
    offsets,
    task_states,
    until,
    until_state,
)

released = Event()
"""Set by a test to let slow connectors start."""


@pytest.fixture(autouse=True)
def _nothing_released() -> None:
    released.clear()


class IdleTask(SourceTask):
    """Task that never has records."""

    def poll(self) -> None:
        """Return no records."""


class FaultySource(SourceConnector):
    """Connector that fails in the method its config names."""

    config = (key("fail", default=""),)
    task = IdleTask

    def start(self, config: Any) -> None:
        """Fail if the config says so."""
        if config["fail"] == "start":
            raise RuntimeError("no such host")
        if config["fail"] == "slowly":
            released.wait(PATIENCE_S)
        self.start_config = config

    def task_configs(self, limit: int) -> Sequence[Any]:
        """Return a config for each task, or fail."""
        if self.start_config["fail"] == "tasks":
            raise RuntimeError("no tasks today")
        return [self.start_config] * limit

    def stop(self) -> None:
        """Do nothing: the connector holds nothing."""


async def outcome_of(worker: ConnectWorker, command: AnyCommand) -> Outcome | Rejected:
    """Answer of the worker to a command."""
    return await StandaloneCommands(worker).carry_out(command, principal="test")


def create(**config: str) -> CreateConnector:
    """Command that creates the connector `c`."""
    return CreateConnector("c", config_of(FaultySource, **config))


async def answered_tasks(worker: ConnectWorker, command: AnyCommand) -> int:
    """Number of tasks in the answer to a command."""
    answer = await outcome_of(worker, command)
    assert isinstance(answer, Outcome), answer
    assert answer.connector is not None
    return answer.connector.tasks


async def test_a_changed_config_is_answered_with_its_tasks(tmp_path: Path) -> None:
    """Answers to a creation and to a new config have the tasks."""
    async with standalone(tmp_path, FaultySource) as worker:
        assert await answered_tasks(worker, create(tasks_max="2")) == 2
        changed = PutConfig("c", config_of(FaultySource, tasks_max="3"))
        assert await answered_tasks(worker, changed) == 3


async def test_a_stopped_creation_has_no_tasks(tmp_path: Path) -> None:
    """The worker answers once the connector is stopped."""
    async with standalone(tmp_path, FaultySource) as worker:
        command = CreateConnector("c", config_of(FaultySource), Target.STOPPED)
        assert await answered_tasks(worker, command) == 0
        await until_state(worker, "c", "STOPPED")


async def test_a_failed_start_is_the_answer(tmp_path: Path) -> None:
    """The answer has the failure, and the connector exists; a good config is answered as usual."""
    async with standalone(tmp_path, FaultySource) as worker:
        answer = await outcome_of(worker, create(fail="start"))
        assert answer == Rejected(
            Reason.FAILED, "Failed to transition connector c to state STARTED", "no such host"
        )
        assert [*worker.plane.state.config.connectors] == ["c"]
        assert await answered_tasks(worker, PutConfig("c", config_of(FaultySource))) == 1


async def test_a_start_that_takes_too_long_answers_with_the_time_out(tmp_path: Path) -> None:
    """The answer is Kafka's time-out of a request; the connector starts later."""
    async with standalone(tmp_path, FaultySource) as worker:
        commands = StandaloneCommands(worker, start_timeout_s=0.05)
        answer = await commands.carry_out(create(fail="slowly"), principal="test")
        assert answer == Rejected(Reason.FAILED, "Request timed out")
        released.set()
        await until_state(worker, "c", "RUNNING", "RUNNING")


async def test_a_repeated_key_gets_the_first_answer(tmp_path: Path) -> None:
    """A later config, a failed start and a deletion change no earlier answer."""
    async with standalone(tmp_path, FaultySource) as worker:
        commands = StandaloneCommands(worker)
        first: dict[str, Outcome | Rejected] = {}
        steps: list[tuple[str, AnyCommand]] = [
            ("one", PutConfig("c", config_of(FaultySource))),
            ("three", PutConfig("c", config_of(FaultySource, tasks_max="3"))),
            ("bad", PutConfig("c", config_of(FaultySource, fail="start"))),
            ("gone", DeleteConnector("c")),
            ("new", create(tasks_max="2")),
        ]
        for number, (name, command) in enumerate(steps, 1):
            first[name] = await commands.carry_out(command, principal="test", key=name)
            for key, repeated in steps[:number]:
                answer = await commands.carry_out(repeated, principal="test", key=key)
                assert answer == first[key], f"{key} after {name}"
        tasks = [
            answer.connector.tasks
            for answer in first.values()
            if isinstance(answer, Outcome) and answer.connector is not None
        ]
        assert tasks == [1, 3, 2]
        assert isinstance(first["bad"], Rejected)


async def test_a_lost_answer_is_given_to_the_repetition(tmp_path: Path) -> None:
    """The first answer is kept for a caller that disconnects during the start."""
    async with standalone(tmp_path, FaultySource) as worker:
        commands = StandaloneCommands(worker)
        slow = create(fail="slowly")
        caller = asyncio.create_task(commands.carry_out(slow, principal="test", key="k"))
        await until(lambda: "effect k" in {task.get_name() for task in asyncio.all_tasks()})
        caller.cancel()
        await asyncio.wait([caller])
        released.set()
        await until_state(worker, "c", "RUNNING", "RUNNING")
        changed = PutConfig("c", config_of(FaultySource, tasks_max="3"))
        assert await answered_tasks(worker, changed) == 3
        answer = await commands.carry_out(slow, principal="test", key="k")
        assert isinstance(answer, Outcome)
        assert answer.connector is not None
        assert answer.connector.tasks == 1


async def test_a_timed_out_start_is_awaited_by_the_repetition(tmp_path: Path) -> None:
    """The repetition of a command that timed out gets its tasks."""
    async with standalone(tmp_path, FaultySource) as worker:
        commands = StandaloneCommands(worker, start_timeout_s=0.05)
        slow = create(fail="slowly")
        answer = await commands.carry_out(slow, principal="test", key="k")
        assert answer == Rejected(Reason.FAILED, "Request timed out")
        released.set()
        await until_state(worker, "c", "RUNNING", "RUNNING")
        answer = await commands.carry_out(slow, principal="test", key="k")
        assert isinstance(answer, Outcome)
        assert answer.connector is not None
        assert answer.connector.tasks == 1


@pytest.mark.slow
async def test_the_answer_waits_for_a_slow_start(tmp_path: Path) -> None:
    """The answer waits beyond the time limit of a stop; it has the started connector's tasks."""
    async with standalone(tmp_path, FaultySource, runtime=ABANDONING) as worker:
        answer = asyncio.create_task(answered_tasks(worker, create(fail="slowly")))
        limit_s = ABANDONING.connector_stop_timeout_ms / 1_000
        await asyncio.wait([answer], timeout=2 * limit_s)
        assert not answer.done()
        released.set()
        assert await answer == 1


async def test_a_connector_without_task_configs_is_answered(tmp_path: Path) -> None:
    """The worker answers after a limited wait; Kafka's answers 500 after 90 seconds."""
    async with standalone(tmp_path, FaultySource, runtime=ABANDONING) as worker:
        assert await answered_tasks(worker, create(fail="tasks")) == 0
        await until_state(worker, "c", "RUNNING")


async def test_a_deletion_is_answered_when_nothing_runs(tmp_path: Path) -> None:
    """A new connector can use the name as soon as the deletion is answered."""
    async with standalone(tmp_path, FaultySource) as worker:
        for _ in range(3):
            assert await answered_tasks(worker, create()) == 1
            assert isinstance(await outcome_of(worker, DeleteConnector("c")), Outcome)
            names = {task.get_name() for task in asyncio.all_tasks()}
            assert not {name for name in names if name.startswith(("actor c", "task c", "task (c"))}


async def test_a_refusal_is_passed_on(tmp_path: Path) -> None:
    """The worker answers with the plane's refusal."""
    async with standalone(tmp_path, FaultySource) as worker:
        await outcome_of(worker, create())
        answer = await outcome_of(worker, create())
        assert answer == Rejected(Reason.ALREADY_EXISTS, "Connector c already exists")
        missing = await outcome_of(worker, DeleteConnector("d"))
        assert missing == Rejected(Reason.NO_SUCH_CONNECTOR, "Connector d not found")


async def test_a_second_life_has_the_offsets_and_no_connectors(tmp_path: Path) -> None:
    """A recreated source continues after its committed offset."""
    records = MemoryLog()
    command = CreateConnector("numbers", config_of(CountingSource, topic="t"))
    committed = {"{'source': 'numbers'}": {"at": 3}}
    async with standalone(tmp_path, CountingSource, records=records) as worker:
        await outcome_of(worker, command)
        await until(lambda: offsets(worker, "numbers") == committed)
        written = await records.ends(["t"])
    async with standalone(tmp_path, CountingSource, records=records) as worker:
        assert worker.plane.state.config.connectors == {}
        await outcome_of(worker, command)
        await until_state(worker, "numbers", "RUNNING", "RUNNING")
        assert offsets(worker, "numbers") == committed
        await outcome_of(worker, StopConnector("numbers"))
        await until(lambda: task_states(worker, "numbers") == [])
        assert await records.ends(["t"]) == written


async def test_offsets_of_an_own_topic_are_beside_the_records(tmp_path: Path) -> None:
    """A connector's own offsets topic lies in the records log; the file has a copy for Java."""
    async with standalone(tmp_path, CountingSource) as worker:
        config = config_of(CountingSource, topic="t") | {"offsets.storage.topic": "own"}
        await outcome_of(worker, CreateConnector("numbers", config))
        await until(lambda: len(views.source_offsets(worker.plane.state, "numbers")) == 1)
        file = OffsetFile(tmp_path / "connect.offsets")
        await until(lambda: file.load() == {b'["numbers",{"source":"numbers"}]': b'{"at":3}'})
        assert (await worker.plane.log.ends(["own"]))["own"] != [0]


@pytest.mark.parametrize("command", [create(), DeleteConnector("c")], ids=["create", "delete"])
async def test_a_command_survives_its_caller(tmp_path: Path, command: AnyCommand) -> None:
    """The command is completed although its caller disconnects."""
    async with standalone(tmp_path, FaultySource) as worker:
        if isinstance(command, DeleteConnector):
            await outcome_of(worker, create())
        caller = asyncio.create_task(outcome_of(worker, command))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller])
        expected = 0 if isinstance(command, DeleteConnector) else 1
        await until(lambda: len(worker.plane.state.config.connectors) == expected)
