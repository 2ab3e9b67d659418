"""A control plane on a socket, with a worker in this process that runs its connectors."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from controlplane.core.context import DecisionSettings
from controlplane.core.plugins import Plugins
from controlplane.core.records import State, Target
from controlplane.logs.memory import MemoryLog
from controlplane.plane import Settings, Surroundings
from controlplane.rest.http.server import listen, serving, url_of
from controlplane.worker.factory import RuntimeEnvironment
from controlplane.worker.worker import ConnectWorker
from tests.patience import PATIENCE_S
from tests.worker.recorded_connectors import FILE_SINK as SINK
from tests.worker.recorded_connectors import FILE_SOURCE as SOURCE
from tests.worker.recorded_connectors import recorded_classes
from tests.worker.worker_fixture import QUICK, connector_status, offsets, task_states, until

__all__ = ["JSON", "SINK", "SOURCE", "Files", "RunningPlane", "running_plane_of"]

JSON = "org.apache.kafka.connect.json.JsonConverter"

Files = Mapping[str, list[str]]
"""Lines of files by their path."""

TURNS = 50
"""Turns of the event loop in which a queued status reaches a log in memory."""

_FINAL = {
    Target.STARTED: State.RUNNING,
    Target.PAUSED: State.PAUSED,
    Target.STOPPED: State.STOPPED,
}
"""State of a connector after it has followed its target state."""


class RunningPlane(NamedTuple):
    """Address of the service, and the worker that runs its connectors."""

    url: str
    """URL of the service beneath `/compat/{release}`."""
    worker: ConnectWorker
    folder: Path
    """Folder of the files; only the file name of a path in a config counts."""

    async def append(self, path: str, *lines: str) -> None:
        """Append lines to a file, and wait until its sources have committed them."""
        with (self.folder / Path(path).name).open("a") as file:
            file.writelines(f"{line}\n" for line in lines)
        await self.settle()

    async def settle(self) -> None:
        """Wait until connectors and tasks reach their target states and commit their offsets."""
        config = self.worker.plane.state.config
        # The first time the task configs are published; the second time their tasks are started.
        for name in [*config.connectors] * 2:
            with suppress(Exception):  # the status has the failure
                await self.worker.started(name, PATIENCE_S)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        await until(self._is_settled)

    def _is_settled(self) -> bool:
        state = self.worker.plane.state
        present = state.config.connectors
        gone = state.status.connectors.keys() - present
        return not gone and all(map(self._has_followed, present))

    def _has_followed(self, name: str) -> bool:
        state = self.worker.plane.state
        target = state.config.targets.get(name, Target.STARTED)
        final = {_FINAL[target], State.FAILED}
        tasks = state.status.tasks.get(name, {})
        status = connector_status(self.worker, name)
        return (
            status is not None
            and status.state in final
            and [*sorted(tasks)] == [*state.config.task_ids(name)]
            and all(task.state in final for task in tasks.values())
            and (target is not Target.STARTED or self._has_committed(name))
        )

    def _has_committed(self, name: str) -> bool:
        """True unless a source of a file has lines left."""
        config = self.worker.plane.state.config.connectors[name]
        file = self.folder / Path(str(config.get("file", "none"))).name
        has_failed = State.FAILED.value in task_states(self.worker, name)
        if config["connector.class"] != SOURCE or not file.exists() or has_failed:
            return True
        expected = {"position": file.stat().st_size}
        return [*offsets(self.worker, name).values()] == [expected]


@asynccontextmanager
async def running_plane_of(
    release: str, plugins: Plugins | None = None, files: Files | None = None
) -> AsyncIterator[RunningPlane]:
    """Serve a control plane on a socket that answers as a worker of a release."""
    settings = Settings(
        profile=release, worker=DecisionSettings(key_converter=JSON, value_converter=JSON)
    )
    with TemporaryDirectory() as folder:
        for path, lines in (files or {}).items():
            (Path(folder) / Path(path).name).write_text("".join(f"{line}\n" for line in lines))
        environment = RuntimeEnvironment(recorded_classes(Path(folder)), QUICK)
        async with (
            ConnectWorker.open(
                MemoryLog(), environment, settings, Surroundings(plugins=plugins)
            ) as worker,
            serving(worker.plane.app, listening := listen("127.0.0.1", 0)),
        ):
            yield RunningPlane(f"{url_of(listening)}/compat/{release}", worker, Path(folder))
