"""A control plane at work: it listens like a worker, and something runs its connectors.

Kafka's file connectors do not run here. What they would leave behind is written by the stand-in
that the probes use (`tests.rest.probes.runtime`), whenever a test lets it: `settle`.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from controlplane.core.context import DecisionSettings
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Settings, Surroundings
from controlplane.rest.http.server import listen, serving, url_of
from tests.rest.broker import SimulatedBroker
from tests.rest.probes.rows import ProbeRow
from tests.rest.probes.runtime import Recording, Runtime

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
JSON = "org.apache.kafka.connect.json.JsonConverter"

Files = Mapping[str, list[str]]
"""Lines by path."""


class AtWork(NamedTuple):
    """Address of the service, and the runtime of its connectors."""

    url: str
    """URL of `/compat/{release}`."""
    runtime: Runtime

    async def settle(self) -> None:
        """Let connectors and tasks come to where they are to be, and commit what they have done."""
        await self.runtime.settle(long=True)


@asynccontextmanager
async def at_work(
    release: str, plugins: Plugins | None = None, files: Files | None = None
) -> AsyncIterator[AtWork]:
    """A control plane that is asked as a worker of a release, over a socket."""
    log, broker = MemoryLog(), SimulatedBroker()
    settings = Settings(worker=DecisionSettings(key_converter=JSON, value_converter=JSON))
    around = Surroundings(plugins=plugins, outside=broker)
    async with (
        ControlPlane.open(log, settings, around) as plane,
        serving(plane.app, listening := listen("127.0.0.1", 0)),
    ):
        runtime = Runtime(log, plane, broker, Recording({}, {}), Profile.of(release))
        await runtime.lead()
        for path, lines in (files or {}).items():
            runtime.write(ProbeRow(n=0, kind="file", path=path, lines=lines))
        yield AtWork(f"{url_of(listening)}/compat/{release}", runtime)
