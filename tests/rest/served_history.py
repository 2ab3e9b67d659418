"""A recorded history behind the application, with HTTP clients."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
from starlette.types import ASGIApp

from controlplane.core.plugins import Plugins, parse_catalogue
from controlplane.core.releases.profiles import Profile
from controlplane.logs.log_factory import open_log
from controlplane.projection.follower import Follower
from controlplane.rest.app import App
from controlplane.rest.bodies.body_processes import BodyProcesses
from controlplane.rest.service import Service

HISTORIES = Path(__file__).parent.parent / "histories"


def catalogue() -> Plugins:
    """Catalogue of the connector classes that the recorded clusters had."""
    return parse_catalogue((HISTORIES / "catalogue.json").read_bytes())


@asynccontextmanager
async def following(history: str, *, exactly_once: bool = False) -> AsyncIterator[Follower]:
    """A follower of a history's log."""
    log = (await open_log(str(HISTORIES / f"{history}.log.jsonl"))).log
    async with Follower(log, exactly_once=exactly_once) as follower:
        yield follower
    await log.close()


@asynccontextmanager
async def served(
    history: str, dialect: str = "kip", **settings: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a service in this process that reads a history."""
    async with following(history, **settings) as follower:
        service = Service(
            follower, Profile.of(dialect), BodyProcesses(), catalogue(), cluster_id="cluster-1"
        )
        app = App(service)
        async with client_of(app) as client:
            yield client


def client_of(app: ASGIApp) -> httpx.AsyncClient:
    """A client that calls an application directly, without a socket."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://connect")


def vector(ends: dict[str, list[int]]) -> str:
    """End offsets as `as_of=` takes them, quoted."""
    return quote(msgspec.json.encode(ends).decode(), safe="")
