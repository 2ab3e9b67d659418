"""Workers that run the file pipeline: Kafka's in Java, and this project on Kafka and on SQLite."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.processes.programs import SCRIPT_JVM, serve
from tests.kafka.real_kafka import Broker, KafkaWorker

RELEASE = "3.9.1"
SETTINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.flush.interval.ms": "1000",
}
"""Settings in the properties file of every worker."""

PLUGIN_PATH = "controlplane.connectors,benchmarks.pipeline.numbered_lines"

_groups = count()
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class PipelineWorker(NamedTuple):
    """A running worker, with its REST API and its process."""

    url: str
    pid: int

    @property
    def cpu_s(self) -> float:
        """Processor time of the process so far, in seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    @property
    def resident_mib(self) -> float:
        """Resident memory of the process, in MiB."""
        status = Path(f"/proc/{self.pid}/status").read_text("ascii")
        kib = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(kib.split()[1]) / 1024


OpenWorker = Callable[[Path, Broker], AbstractAsyncContextManager[PipelineWorker]]
"""Starts a worker whose files lie in a folder."""


@asynccontextmanager
async def java_worker(folder: Path, broker: Broker) -> AsyncIterator[PipelineWorker]:
    """Kafka's worker, with the options of its start script."""
    del folder
    settings = SETTINGS | _topics()
    arguments: dict[str, Any] = {key.replace(".", "__"): value for key, value in settings.items()}
    async with KafkaWorker(RELEASE, broker, jvm=SCRIPT_JVM, **arguments) as worker:
        yield PipelineWorker(worker.url, worker.pid)


@asynccontextmanager
async def on_kafka(folder: Path, broker: Broker) -> AsyncIterator[PipelineWorker]:
    """`controlplane serve --own` on the same broker."""
    settings = SETTINGS | _topics()
    async with _served(f"kafka://{broker.bootstrap}", folder, settings, "--own") as worker:
        yield worker


@asynccontextmanager
async def on_sqlite(folder: Path, broker: Broker | None = None) -> AsyncIterator[PipelineWorker]:
    """`controlplane serve` on an embedded log, which also has the data."""
    del broker
    async with _served(f"sqlite:///{folder}/state.db", folder, SETTINGS) as worker:
        yield worker


@asynccontextmanager
async def _served(
    log: str, folder: Path, settings: dict[str, str], *options: str
) -> AsyncIterator[PipelineWorker]:
    file = folder / "worker.properties"
    connectors = {"plugin.path": PLUGIN_PATH, "connectors.folders": str(folder)}
    file.write_text(
        "".join(f"{key}={value}\n" for key, value in (settings | connectors).items()), "utf-8"
    )
    listening = ("--worker-properties", str(file), "--port", "0", "--quiet")
    async with serve(log, *options, *listening) as served:
        yield PipelineWorker(served.url, served.pid)


def _topics() -> dict[str, str]:
    """Group and topics that no other worker has."""
    group = f"pipeline-{next(_groups)}"
    stores = ("config", "offset", "status")
    return {
        "group.id": group,
        "command.storage.topic": f"{group}-commands",
        **{f"{store}.storage.topic": f"{group}-{store}" for store in stores},
        **{f"{store}.storage.replication.factor": "1" for store in stores},
    }
