"""`GET /metrics`: the state is looked at when it is asked for, and at no other time."""

import asyncio
from collections.abc import Iterable
from functools import partial
from itertools import chain

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.event_loop import apart
from controlplane.logs.log import LogError
from controlplane.rest.calls import Service
from controlplane.rest.errors import OK
from controlplane.rest.metrics import scraped
from controlplane.rest.security.asked import Asked
from controlplane.rest.security.layer import Layer
from controlplane.rest.security.roles import READING

PATH = ("metrics",)

ENDS_PATIENCE_S = 5
"""How long a log is asked where it ends: Prometheus gives up after ten seconds, and would have
nothing at all."""


class Exposing(Layer):
    """Answers `/metrics` in the format that the asker accepts; all else is the application's."""

    def __init__(
        self, app: ASGIApp, service: Service, registry: CollectorRegistry, found: "Found"
    ) -> None:
        super().__init__(app, service.dialect)
        self._service = service
        self._registry = registry
        self._found = found

    async def handle(self, request: Asked, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        asks = request.path == PATH and request.request.method in READING
        answer = await self._exposed(scope) if asks and not request.compat else self._app
        await answer(scope, receive, send)

    async def _exposed(self, scope: Scope) -> Response:
        families, parts = await _families(self._service)
        encode, content_type = choose_encoder(Headers(scope=scope).get("accept", ""))
        async with self._found.turn:
            self._found.families = families
            content = await apart(partial(encode, self._registry), parts)
        return Response(content, OK, {"content-type": content_type, "server": "controlplane"})


async def _families(service: Service) -> tuple[Iterable[Metric], int]:
    """What is known now, and of how many connectors; less of it where the log cannot be read."""
    follower = service.follower
    try:
        state = await follower.state(service.dialect)
    except LogError:
        return [*scraped.of_log(follower.ends, None, followed=False)], 0
    ends = await _ends(service)
    known = [*scraped.of_log(follower.ends, ends, followed=follower.failure is None)]
    return chain(scraped.of_state(state), known), len(state.config.connectors)


async def _ends(service: Service) -> scraped.Ends | None:
    """Where the log ends now; None where it does not say so in time."""
    follower = service.follower
    if service.log is None or follower.failure is not None:
        return None
    try:
        async with asyncio.timeout(ENDS_PATIENCE_S):
            return await service.log.ends(list(follower.ends))
    except (LogError, TimeoutError):
        return None


class Found(Collector):
    """What has just been found in the state, as a part of a registry."""

    def __init__(self) -> None:
        self.families: Iterable[Metric] = ()
        self.turn = asyncio.Lock()
        """Held from setting `families` until they are encoded."""

    def collect(self) -> Iterable[Metric]:
        """All of it."""
        return self.families
