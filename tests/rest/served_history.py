"""A recorded history behind the application, with HTTP clients."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
from starlette.types import ASGIApp

from controlplane.core.context import Context, DecisionSettings
from controlplane.core.plugins import Plugins, parse_catalogue
from controlplane.core.releases.profiles import Profile
from controlplane.logs.log import ReadableLog
from controlplane.logs.log_factory import open_log
from controlplane.projection.change_feed import ChangeFeed
from controlplane.projection.follower import Follower
from controlplane.rest.app import App
from controlplane.rest.service import Service, compose

HISTORIES = Path(__file__).parent.parent / "histories"

NO_CLASSES = Plugins()
DEFAULTS = DecisionSettings()


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


def service_of(
    follower: Follower,
    release: str,
    plugins: Plugins = NO_CLASSES,
    *,
    log: ReadableLog | None = None,
    worker: DecisionSettings = DEFAULTS,
    **parts: Any,
) -> Service:
    """Read-only service of a followed log, composed as in every program.

    `log`: the log for questions about the past; None: that of the follower.
    """
    context = Context(profile=Profile.of(release), worker=worker, plugins=plugins)
    log = follower._log if log is None else log
    feed = ChangeFeed(follower, log, context.profile)
    return compose(follower, log, context, watching=feed, **parts)


@asynccontextmanager
async def served(
    history: str, dialect: str = "kip", **settings: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a service in this process that reads a history."""
    async with following(history, **settings) as follower:
        app = App(service_of(follower, dialect, catalogue(), cluster_id="cluster-1"))
        async with client_of(app) as client:
            yield client


def client_of(app: ASGIApp) -> httpx.AsyncClient:
    """A client that calls an application directly, without a socket."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://connect")


def vector(ends: dict[str, list[int]]) -> str:
    """End offsets as `as_of=` takes them, quoted."""
    return quote(msgspec.json.encode(ends).decode(), safe="")
