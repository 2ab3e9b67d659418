"""Source task with Kafka's methods that follows the script of a test."""

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from controlplane.connect import RecordMetadata, SourceConnector, SourceRecord, SourceTask
from controlplane.connect.source import ResolvedConfig
from controlplane.core.commands import CreateConnector
from controlplane.worker.worker import ConnectWorker
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import config_of, until_state

PollResult = Sequence[SourceRecord] | Callable[[SourceTask], Any] | None
"""Result of a poll, or a function of the task that returns it, awaits or raises."""


class PollScript:
    """Script of a task, and its calls so far."""

    def __init__(self) -> None:
        self.polls: deque[PollResult] = deque()
        """Results of the next polls; afterwards the task has nothing."""
        self.calls: list[str] = []
        self.acknowledged: list[tuple[Any, RecordMetadata | None]] = []
        """Value and metadata of each record that `commit_record` was called for."""
        self.starting: Callable[[], Any] = lambda: None
        """Called in the start of the task."""
        self.stopping: Callable[[], Any] = lambda: None
        """Called in the stop of the task."""
        self.released = threading.Event()
        """Set by a test to end `blocked`."""

    def reset(self) -> None:
        """Clear the script and the calls."""
        self.released.set()
        self.released = threading.Event()
        self.polls.clear()
        self.calls.clear()
        self.acknowledged.clear()
        self.starting = lambda: None
        self.stopping = lambda: None

    def blocked(self, then: Callable[[], Any]) -> Callable[[SourceTask], Any]:
        """Return a poll that blocks its thread until the test releases it."""

        def poll(task: SourceTask) -> Any:
            del task
            self.calls.append("blocked")
            self.released.wait(PATIENCE_S)
            return then()

        return poll


script = PollScript()


def row(at: int, part: int = 1, **fields: Any) -> SourceRecord:
    """Record `v<at>` for the topic `t`, with its own offset."""
    return SourceRecord(
        **{"topic": "t", "value": f"v{at}"} | fields,
        source_partition={"p": part},
        source_offset={"at": at},
    )


def failing(failure: BaseException) -> Callable[..., Any]:
    """Return a function that raises the failure."""

    def fail(*_: Any) -> Any:
        raise failure

    return fail


class ScriptedSourceTask(SourceTask):
    """Task that follows the script."""

    def start(self, config: ResolvedConfig) -> None:
        """Note the call and run the scripted start."""
        del config
        script.calls.append("start")
        script.starting()

    async def poll(self) -> Any:
        """Return the next result of the script."""
        script.calls.append("poll")
        if not script.polls:
            await asyncio.sleep(0.005)
            return None
        step = script.polls.popleft()
        result = step(self) if callable(step) else step
        return await result if inspect.isawaitable(result) else result

    def commit(self) -> None:
        """Note the commit in the script."""
        script.calls.append("commit")

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """Note the record and its metadata."""
        script.acknowledged.append((record.value, metadata))

    def stop(self) -> None:
        """Note the stop in the script, and run the scripted stop."""
        script.calls.append("stop")
        script.stopping()


class ScriptedSource(SourceConnector):
    """Source connector of one scripted task."""

    exactly_once = True
    boundaries = True
    task = ScriptedSourceTask

    def start(self, config: ResolvedConfig) -> None:
        """Keep the config for the task."""
        self._config = config

    def task_configs(self, limit: int) -> Sequence[ResolvedConfig]:
        """Return one config, that of the connector."""
        del limit
        return [self._config]


def scripted(**config: str) -> dict[str, str]:
    """Config of a scripted source; `_` in a key stands for a dot."""
    return config_of(ScriptedSource, **config)


async def begin(worker: ConnectWorker, **config: str) -> None:
    """Create the connector `s`, and wait until it runs."""
    await worker.plane.execute(CreateConnector("s", scripted(**config)))
    await until_state(worker, "s", "RUNNING", "RUNNING")
