"""A control plane on its own log, with a fixed clock and sequential ids."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import msgspec

from controlplane.controller import StepListener
from controlplane.controller.log_groups import LogGroups
from controlplane.core import views
from controlplane.core.commands import CommandRequest, CreateConnector
from controlplane.core.entry import Entry, TopicPartition
from controlplane.core.order import entries_of, in_order
from controlplane.core.plan import Step
from controlplane.logs.log import Log, ReadableLog, Record
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Settings, Surroundings
from controlplane.plugins import catalogued
from tests.outages import until

NOW_MS = 1_700_000_000_000
CONFIG, OFFSETS, STATUS, COMMANDS = (
    f"connect-{name}" for name in ("configs", "offsets", "status", "commands")
)


class Crash(BaseException):
    """Raised to end the process at this point."""


def crash_after(step: str) -> StepListener:
    """A `stepped` hook that crashes after the step of this name."""

    async def stepped(_asked: CommandRequest, done: Step) -> None:
        if done.name == step:
            raise Crash(step)

    return stepped


def around(**overrides: Any) -> Surroundings:
    """Surroundings with fixed values, in which every connector class exists."""
    numbers = count(1)
    usual = Surroundings(
        plugins=catalogued(trusting=True),
        now_ms=lambda: NOW_MS,
        new_id=lambda: f"command-{next(numbers)}",
    )
    return usual._replace(**overrides)


@asynccontextmanager
async def plane_on(
    log: Log | str, settings: Settings | None = None, **overrides: Any
) -> AsyncIterator[ControlPlane]:
    """A control plane on this log."""
    async with ControlPlane.open(log, settings or Settings(), around(**overrides)) as plane:
        yield plane


async def wait_for_connectors(plane: ControlPlane, *names: str) -> None:
    """Wait until the plane has read these connectors of another writer."""
    # A watch begins at its first iteration, and could miss the record.
    await until(lambda: {*names} <= {*views.connectors(plane.state)})


async def written_texts(log: ReadableLog, *topics: str) -> list[tuple[str, str | None]]:
    """Keys and values of the records in these topics."""
    return [(_text(entry.key) or "", _text(entry.value)) for entry in await entries(log, topics)]


async def entries(log: ReadableLog, topics: Iterable[str]) -> list[Entry]:
    """The entries of these topics, in the one order."""
    return in_order(entries_of([batch async for batch in log.read(list(topics))]))


def _text(octets: bytes | None) -> str | None:
    return None if octets is None else octets.decode()


def connector(name: str, **config: str) -> CreateConnector:
    """A command that creates a connector."""
    properties = {key.replace("_", "."): value for key, value in config.items()}
    return CreateConnector(name, {"connector.class": "lab.Source", **properties})


def raw(topic: str, key: str, value: str | None, partition: int = 0) -> Record:
    """Return a record as a foreign writer appends it."""
    return Record(topic, partition, NOW_MS, key.encode(), None if value is None else value.encode())


async def commit_offsets(log: Log, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets of a consumer group, as a worker does on a log of our own."""
    groups = LogGroups(log, lambda: None, lambda: NOW_MS)
    await groups.open()
    await groups.commit(group, offsets)


async def two_connectors() -> MemoryLog:
    """A log in which `orders` and `users` are configured."""
    log = MemoryLog()
    for topic, partitions in ((CONFIG, 1), (OFFSETS, 5), (STATUS, 5)):
        await log.create_topic(topic, partitions)
    await log.append([configured("orders"), configured("users")])
    return log


def configured(name: str) -> Record:
    """A connector config from a foreign writer."""
    properties = {"properties": {"connector.class": "lab.Source", "name": name}}
    return raw(CONFIG, f"connector-{name}", msgspec.json.encode(properties).decode())


def offset_values(plane: ControlPlane) -> list[object]:
    """Stored offsets of the connector `orders`, without their partitions."""
    return [offset.offset for offset in views.source_offsets(plane.state, "orders")]
