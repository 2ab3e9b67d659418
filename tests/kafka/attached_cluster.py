"""Service attached to a real Connect cluster, run in this process beside real workers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from controlplane.attached.attached_service import attached_service
from controlplane.attached.cluster_check import identify_cluster
from controlplane.attached.connect_client import ConnectClient
from controlplane.attached.execution import AttachedSurroundings, RequestListener
from controlplane.attached.settings import ConnectSettings
from controlplane.attached.worker_connections import WorkerConnections
from controlplane.core.commands import CommandRequest
from controlplane.core.context import Context
from controlplane.core.state import Topics
from controlplane.event_loop import now_ms
from controlplane.logs.log import Log
from controlplane.logs.log_factory import OpenOptions, open_log
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog
from controlplane.observe import silent
from controlplane.projection.limits import FollowerLimits
from controlplane.read_only.read_only_service import ReadOnlySettings
from controlplane.rest.app import App
from controlplane.rest.endpoints.router import EndpointSet
from controlplane.rest.service import Service
from controlplane.settings import Configuration
from controlplane.settings.sources import flag_values
from tests.kafka.access_rights import Right
from tests.kafka.real_kafka import USERS, Broker, KafkaWorker
from tests.patience import PATIENCE_S

PATIENT = ConnectSettings(
    patience_ms=PATIENCE_S * 1_000, read_on_ms=PATIENCE_S * 1_000, records_ms=PATIENCE_S * 1_000
)
"""Limits of patience that no test reaches, even on a busy machine."""

ENDED_S = 0.02
"""Pause between two looks at the trail; a command ends some milliseconds after its answer."""

BrokerLogin = tuple[str, dict[str, str]]
"""Name of the log, and the settings of a connection to it."""


async def ignored(_request: CommandRequest, _step: str) -> None:
    """Step listener that lets every step pass."""


@asynccontextmanager
async def attached_to(
    broker: Broker,
    workers: Sequence[KafkaWorker],
    *,
    topics: Topics | None = None,
    trail: Path | None = None,
    stepped: RequestListener = ignored,
    limits: ConnectSettings = PATIENT,
    login: BrokerLogin | None = None,
    clock: Callable[[], int] = now_ms,
) -> AsyncIterator[httpx.AsyncClient]:
    """Client of a service that is attached to these workers.

    `login` is that of the service at the broker; None: no login. `clock` is the service's clock.
    """
    async with AsyncExitStack() as stack:
        clients = {
            worker.url: await stack.enter_async_context(
                httpx.AsyncClient(base_url=worker.url, timeout=limits.answer_timeout_ms / 1_000)
            )
            for worker in workers
        }
        connections = {url: WorkerConnections(client, None) for url, client in clients.items()}
        for kept_open in connections.values():
            stack.callback(kept_open.close)
        service = await stack.enter_async_context(
            _service(
                (f"kafka://{broker.bootstrap}", {}) if login is None else login,
                ConnectClient(clients, limits, connections),
                topics or Topics(),
                trail,
                AttachedSurroundings(silent(), clock, stepped=stepped, limits=limits),
            )
        )
        transport = httpx.ASGITransport(App(service))
        rest = httpx.AsyncClient(transport=transport, base_url="http://ours", timeout=PATIENCE_S)
        yield await stack.enter_async_context(rest)


@asynccontextmanager
async def _service(
    login: BrokerLogin,
    client: ConnectClient,
    names: Topics,
    trail: Path | None,
    around: AttachedSurroundings,
) -> AsyncIterator[Service]:
    cluster = await identify_cluster(client)
    where, access = login
    flags = Configuration(flag_values((key, key, value) for key, value in access.items()))
    async with await open_log(where, OpenOptions(names, configuration=flags)) as opened:
        trail_log: Log = MemoryLog() if trail is None else await SqliteLog.open(trail)
        settings = ReadOnlySettings(
            names, Context(profile=cluster.profile), FollowerLimits(), EndpointSet.ALL
        )
        try:
            async with attached_service(
                opened,
                settings,
                client=client,
                cluster=cluster,
                trail_log=trail_log,
                around=around,
            ) as service:
                yield service
        finally:
            await trail_log.close()


def login_of(broker: Broker, user: str, password: str | None = None) -> BrokerLogin:
    """Address and settings with which a user of `USERS` connects; by default with its password."""
    shown = password or USERS[user]
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    return f"kafka://{broker.address('SASL_PLAINTEXT')}", {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} username="{user}" password="{shown}";',
    }


READING = (
    Right("READ", "topic", "*"),
    Right("DESCRIBE_CONFIGS", "topic", "*"),
    Right("READ", "group", "*"),
)
"""Rights of a user who reads everything; the broker refuses any write."""


async def ended(rest: httpx.AsyncClient, **query: str) -> dict[str, Any]:
    """Wait until the trail's newest command has ended, which is after its answer; return it."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await rest.get("/commands", params=query)
            rows = [row for row in answer.json()["commands"] if row["principal"] is not None]
            if rows and rows[-1]["outcome"] != "unfinished":
                row: dict[str, Any] = rows[-1]
                return row
            await asyncio.sleep(ENDED_S)
