"""Process that its test kills: a source, its topic, and a sink on an embedded log."""

import asyncio
from multiprocessing.synchronize import Event
from pathlib import Path

from controlplane.connectors import shipped
from controlplane.core.commands import CreateConnector
from controlplane.core.context import DecisionSettings
from controlplane.plane import Settings
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.factory import RuntimeEnvironment
from controlplane.worker.settings import RuntimeSettings
from controlplane.worker.worker import ConnectWorker

STRING = "org.apache.kafka.connect.storage.StringConverter"
SOURCE = {
    "connector.class": "GeneratorSource",
    "topic": "orders",
    "rate": "1000",
    "tasks.max": "2",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


async def run_until_killed(log: str, out: Path, started: Event, *, exactly_once: bool) -> None:
    """Run until the process is killed; the first life creates the connectors."""
    runtime = RuntimeSettings(
        offset_flush_interval_ms=20,
        exactly_once=exactly_once,
        key_converter=STRING,
        value_converter=STRING,
    )
    settings = Settings(
        exactly_once=exactly_once, worker=DecisionSettings(exactly_once_source=exactly_once)
    )
    classes = ConnectorClasses(named=shipped([out.parent]))
    environment = RuntimeEnvironment(classes, runtime)
    async with ConnectWorker.open(f"sqlite:///{log}", environment, settings) as worker:
        if "source" not in worker.plane.state.config.connectors:
            sink = {
                "connector.class": "FileStreamSink",
                "file": str(out),
                "topics": "orders",
            }
            await worker.plane.execute(CreateConnector("source", SOURCE))
            await worker.plane.execute(CreateConnector("sink", sink))
        started.set()
        await asyncio.Event().wait()


def run_worker(log: str, out: Path, mode: str, started: Event) -> None:
    """Run in this process; `mode`: exactly-once or at-least-once."""
    asyncio.run(run_until_killed(log, out, started, exactly_once=mode == "exactly-once"))
