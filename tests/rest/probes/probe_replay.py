"""Replay of the probe's worlds, in sequence, each on its own control plane."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
from starlette.types import ASGIApp

from controlplane.core.plugins import Plugins
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Surroundings
from controlplane.plane_settings import plane_settings
from controlplane.plugins import catalogued
from controlplane.rest.app import App
from controlplane.rest.endpoints.router import EndpointSet
from controlplane.rest.http.server import listen, serving
from controlplane.rest.security.credential_hashes import Scrypt
from controlplane.rest.security.middleware import Protection, protected
from controlplane.settings import Configuration, SourcedValue, ValueSource
from tests.harvested_catalogues import with_documentation
from tests.recorded_requests import installed
from tests.rest.broker import SimulatedBroker
from tests.rest.probes.comparison import differences
from tests.rest.probes.raw_requests import ClientAddress, Response, ask, call, request_of
from tests.rest.probes.rows import RELEASE, ProbeRow, rows
from tests.rest.probes.runtime import KEY, Recording, Runtime

CONNECTORS = ("source", "sink")
PREFIX = f"/compat/{RELEASE}"


class ProbeExchange(NamedTuple):
    """A request and our answer."""

    row: ProbeRow
    response: Response
    differences: list[str]


class ProbeWorld(NamedTuple):
    """A running world: its address, and its runtime."""

    app: ASGIApp
    address: ClientAddress
    admin: ClientAddress
    """Address of the listener for administrators."""
    runtime: Runtime


def worlds() -> Iterator[tuple[ProbeRow, list[ProbeRow]]]:
    """The rows by world, with the row that describes the world."""
    numbered, number = [], 0
    for row in rows():
        number += row.kind == "world"
        numbered.append((number, row))
    for _, group in groupby(numbered, key=lambda pair: pair[0]):
        first, *rest = (row for _, row in group)
        yield first, rest


async def replay(
    about: ProbeRow, rest: list[ProbeRow], *, harvested: bool = False
) -> tuple[list[ProbeExchange], list[ProbeRow]]:
    """Return every request of a world with its answer, and the waits whose condition did not hold.

    The documentation of keys is compared if the catalogue is `harvested`.
    """
    exchanges, missed = [], []
    async with _opened(about, Recording.of(rest), probe_plugins(harvested=harvested)) as world:
        for row in rest:
            if not row.race:
                await world.runtime.settle(long=row.kind == "sleep" or row.contains is not None)
            match row.kind:
                case "file":
                    world.runtime.write(row)
                case "wait" if not await _holds(row, world):
                    missed.append(row)
                case "request":
                    response = await _sent(row, world)
                    deviations = differences(row, response, documentation=harvested)
                    exchanges.append(ProbeExchange(row, response, deviations))
    return exchanges, missed


async def _sent(row: ProbeRow, world: ProbeWorld) -> Response:
    if not row.target.isascii():
        return await call(world.app, row, PREFIX, KEY)
    address = world.admin if row.worker == "admin" else world.address
    host, port = address
    return await ask(address, request_of(row, PREFIX, f"{host}:{port}", KEY))


@asynccontextmanager
async def _opened(
    about: ProbeRow, recording: Recording, plugins: Plugins
) -> AsyncIterator[ProbeWorld]:
    log, broker = MemoryLog(), SimulatedBroker()
    with TemporaryDirectory() as folder:
        configuration = _worker_configuration(about.workers["w1"], Path(folder))
        settings = plane_settings(configuration)
        around = Surroundings(plugins=plugins, outside=broker)
        async with ControlPlane.open(log, settings, around) as plane:
            app = protected(plane.app, Protection.from_configuration(configuration))
            admin = App(plane.service._replace(endpoint_set=EndpointSet.ADMIN))
            listening, apart = listen("127.0.0.1", 0), listen("127.0.0.1", 0)
            async with serving(app, listening), serving(admin, apart):
                runtime = Runtime(log, plane, broker, recording)
                await runtime.lead()
                yield ProbeWorld(app, listening.getsockname(), apart.getsockname(), runtime)


def _worker_configuration(worker: Mapping[str, str], folder: Path) -> Configuration:
    """Worker settings from its file, with users if the worker authenticates."""
    settings = {"group.id": f"{worker.get('cluster', 'connect')}-cluster", **worker}
    if "rest.extension.classes" in worker:
        passwords = folder / "passwords"
        passwords.write_text(f"ann:administer:{Scrypt.of('pw')}\n")
        settings |= {"auth.password.file": str(passwords), "auth.health.open": "false"}
    source = ValueSource("file", "worker.properties")
    return Configuration({key: SourcedValue(str(value), source) for key, value in settings.items()})


@cache
def probe_plugins(*, harvested: bool) -> Plugins:
    """Plugins that the workers listed, with the known properties of the connectors among them."""
    connectors = installed("life-3.9")
    described = {key["name"]: key for key in _answer_to("/lab.PagesSourceConnector/config")}
    for key in connectors[0]["config"]:
        key["documentation"] = described[key["name"]]["documentation"]
    listed = _answer_to("?connectorsOnly=false")
    others = [plugin for plugin in listed if plugin["type"] not in CONNECTORS]
    if harvested:
        return catalogued(with_documentation(RELEASE, [*connectors, *others]))
    return catalogued(msgspec.json.encode([*connectors, *others]))


def _answer_to(ending: str) -> Any:
    """First answer about plugins to a path with this ending."""
    requests = (row for row in rows() if row.path.startswith("/connector-plugins"))
    return json.loads(next(row.answer or "" for row in requests if row.path.endswith(ending)))


async def _holds(wait: ProbeRow, world: ProbeWorld) -> bool:
    """True if the condition of a wait holds. No task runs here, so waiting longer is useless."""
    answer = await _sent(msgspec.structs.replace(wait, method="GET"), world)
    if wait.contains is not None:
        return wait.contains.encode() in answer.body
    shown = json.loads(answer.body)
    tasks = [task["state"] for task in shown.get("tasks", [])]
    return (shown.get("connector", {}).get("state"), tasks) == (wait.state, wait.tasks)
