"""Process of `controlplane serve --own` on a broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from controlplane.core.state import Topics
from tests.cli.command_calls import CommandResult, shell
from tests.cli.running_service import RunningService, running
from tests.kafka.real_kafka import Broker, cluster_settings, dotted
from tests.patience import PATIENCE_S

SINGLE_REPLICAS = {
    f"{store}.storage.replication.factor": "1" for store in ("config", "offset", "status")
}
"""Settings of a worker for a cluster of one broker."""


def own_settings(topics: Topics) -> dict[str, str]:
    """Settings of our worker with these topics, as in a file."""
    return {
        **dotted(cluster_settings(topics)),
        "command.storage.topic": topics.commands,
        "offset.storage.partitions": "5",
        "status.storage.partitions": "-1",
        **SINGLE_REPLICAS,
    }


def worker_file(folder: Path, topics: Topics, **settings: object) -> Path:
    """Worker's file; `__` in a setting's name is a dot."""
    overrides = {key.replace("__", "."): value for key, value in settings.items()}
    lines = [f"{key}={value}\n" for key, value in (own_settings(topics) | overrides).items()]
    path = folder / f"{topics.config}.properties"
    path.write_text("".join(lines), "utf-8")
    return path


def serve_arguments(broker: Broker, file: Path) -> tuple[str, ...]:
    """Arguments with which `serve` runs its own worker."""
    return f"kafka://{broker.bootstrap}", "--own", "--worker", str(file), "--quiet"


@asynccontextmanager
async def serving_own(
    broker: Broker, file: Path
) -> AsyncIterator[tuple[RunningService, httpx.AsyncClient]]:
    """Running service and its client."""
    async with (
        running(*serve_arguments(broker, file)) as service,
        httpx.AsyncClient(base_url=await _url(service), timeout=PATIENCE_S) as client,
    ):
        yield service, client


async def _url(service: RunningService) -> str:
    """URL of a service; fails with its output if it does not start."""
    if not service.lines:
        _, printed = await service.process.communicate()
        raise AssertionError(printed.decode())
    return service.url


async def refused_own(broker: Broker, file: Path, *options: object) -> CommandResult:
    """Result of a service that does not start."""
    return await asyncio.to_thread(
        shell, "serve", *serve_arguments(broker, file), "--port", "0", *options
    )
