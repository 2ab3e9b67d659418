"""The worlds of the probe, one after the other, each on a control plane of its own."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from itertools import groupby
from typing import NamedTuple

import msgspec

from controlplane.core.context import Worker
from controlplane.core.plugins import Plugins
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Settings, Surroundings
from controlplane.plugins import catalogued
from controlplane.rest.server import listen, serving
from tests.recorded import installed
from tests.rest.probes.broker import Broker
from tests.rest.probes.comparing import differences
from tests.rest.probes.rows import RELEASE, Row, rows
from tests.rest.probes.runtime import KEY, Runtime
from tests.rest.probes.sending import Address, Response, ask, request_of

CONNECTORS = ("source", "sink")
PREFIX = f"/compat/{RELEASE}"
HOSTS = {"pages": "127.0.0.1:8084"}
"""Which connectors the second worker runs, where there are two."""


class Told(NamedTuple):
    """A request and what we answered."""

    row: Row
    given: Response
    differences: list[str]


class World(NamedTuple):
    """One world that goes on: where it is served, and what runs in it."""

    address: Address
    runtime: Runtime


def worlds() -> Iterator[tuple[Row, list[Row]]]:
    """The rows by world, each behind the row that tells of it."""
    numbered, number = [], 0
    for row in rows():
        number += row.kind == "world"
        numbered.append((number, row))
    for _, group in groupby(numbered, key=lambda pair: pair[0]):
        first, *rest = (row for _, row in group)
        yield first, rest


async def replay(world: Row, rest: list[Row]) -> tuple[list[Told], list[Row]]:
    """Every request of a world with its answer, and the waits that found something else."""
    told, missed = [], []
    async with _opened(world, _traces(rest)) as (address, runtime):
        for row in rest:
            if not row.race:
                await runtime.settle(long=row.kind == "sleep" or row.contains is not None)
            match row.kind:
                case "file":
                    runtime.write(row)
                case "wait" if not await _holds(row, address):
                    missed.append(row)
                case "request":
                    host = f"{address[0]}:{address[1]}"
                    given = await ask(address, request_of(row, PREFIX, host, KEY))
                    told.append(Told(row, given, differences(row, given)))
    return told, missed


@asynccontextmanager
async def _opened(world: Row, traces: Mapping[str, str]) -> AsyncIterator[World]:
    log, broker = MemoryLog(), Broker()
    settings = _settings(world.workers["w1"])
    around = Surroundings(plugins=_plugins(), outside=broker)
    hosts = HOSTS if len(world.workers) > 1 else {}
    listening = listen("127.0.0.1", 0)
    async with (
        ControlPlane.open(log, settings, around) as plane,
        serving(plane.app, listening),
    ):
        runtime = Runtime(log, plane, broker, traces, hosts, settings.worker.consumer_group_id)
        await runtime.lead()
        yield World(listening.getsockname(), runtime)


@cache
def _plugins() -> Plugins:
    """The plugins that the workers listed, and what is known of the connectors among them."""
    listed = next(row for row in rows() if row.path.endswith("?connectorsOnly=false"))
    known = installed("life-3.9")
    more = [one for one in json.loads(listed.answer or "") if one["type"] not in CONNECTORS]
    return catalogued(msgspec.json.encode([*known, *more]))


def _settings(told: Mapping[str, str]) -> Settings:
    """A world's settings, as far as a control plane has them."""
    worker = Worker(
        group_id=told.get("cluster", "connect-cluster"),
        consumer_group_id=told.get("consumer.group.id"),
        topic_tracking_enable=told.get("topic.tracking.enable") != "false",
        topic_tracking_allow_reset=told.get("topic.tracking.allow.reset") != "false",
        override_policy=told.get("connector.client.config.override.policy"),
        key_converter="org.apache.kafka.connect.json.JsonConverter",
        value_converter="org.apache.kafka.connect.json.JsonConverter",
        config_providers=tuple(filter(None, [told.get("config.providers")])),
    )
    support = told.get("exactly.once.source.support") == "enabled"
    return Settings(worker=worker, exactly_once=support)


async def _holds(wait: Row, address: Address) -> bool:
    """Whether what was waited for is so. It is by now, or never."""
    row = msgspec.structs.replace(wait, method="GET")
    answer = await ask(address, request_of(row, PREFIX, "localhost", KEY))
    if wait.contains is not None:
        return wait.contains.encode() in answer.body
    shown = json.loads(answer.body)
    tasks = [one["state"] for one in shown.get("tasks", [])]
    return (shown.get("connector", {}).get("state"), tasks) == (wait.state, wait.tasks)


def _traces(rest: list[Row]) -> dict[str, str]:
    """The recorded traces by their first line."""
    found = {}
    for row in rest:
        if row.answer is not None and row.answer.startswith("{"):
            for trace in _traces_in(json.loads(row.answer)):
                found.setdefault(trace.partition("\n")[0], trace)
    return found


def _traces_in(value: object) -> Iterator[str]:
    match value:
        case {"trace": str(trace)}:
            yield trace
    if isinstance(value, dict):
        for one in value.values():
            yield from _traces_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from _traces_in(one)
