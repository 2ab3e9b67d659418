"""`GET /metrics`: reads the state at each scrape only."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.core.order import Ends
from controlplane.event_loop import in_thread_if_large
from controlplane.logs.log import LogError
from controlplane.rest.errors import OK
from controlplane.rest.http.messages import Layer, RequestInfo
from controlplane.rest.metrics import state_metrics
from controlplane.rest.security.roles import READING
from controlplane.rest.service import Service

PATH = ("metrics",)

STATE_PATIENCE_S, ENDS_PATIENCE_S = 4, 5
"""Time limits for the first load of the log, and for reading its end. Prometheus gives up after ten
seconds, and would then get nothing at all."""


class MetricsEndpoint(Layer):
    """Serves `/metrics` in the format that the client accepts; passes all else on."""

    def __init__(
        self,
        app: ASGIApp,
        service: Service,
        registry: CollectorRegistry,
        collector: "StateCollector",
    ) -> None:
        super().__init__(app, service.dialect)
        self._service = service
        self._registry = registry
        self._collector = collector

    async def handle(
        self, request: RequestInfo, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Serve the metrics, or pass the request on."""
        is_scrape = request.path == PATH and request.request.method in READING
        answer = await self._exposed(scope) if is_scrape and not request.compat else self._app
        await answer(scope, receive, send)

    async def _exposed(self, scope: Scope) -> Response:
        families, parts = await _families(self._service)
        encode, content_type = _encoder(Headers(scope=scope).get("accept", ""))
        async with self._collector.lock:
            self._collector.families = families
            content = await in_thread_if_large(partial(encode, self._registry), parts)
        return Response(content, OK, {"content-type": content_type, "server": "controlplane"})


def _encoder(accept: str) -> tuple[Callable[[CollectorRegistry], bytes], str]:
    """Return the encoder for an `Accept` header and its media type; the default for a bad one."""
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):  # the version of a format is no number
        return choose_encoder("")


async def _families(service: Service) -> tuple[Iterable[Metric], int]:
    """Return the current metrics and the number of connectors; fewer metrics without a state."""
    follower = service.follower
    try:
        async with asyncio.timeout(STATE_PATIENCE_S):
            await service.state_read.wait()
        state = await follower.state(service.dialect)
    except (LogError, TimeoutError):
        unfollowed = state_metrics.of_log(follower.ends, None, followed=False)
        return chain(unfollowed, _of_worker(service)), 0
    ends = await _ends(service)
    of_log = [*state_metrics.of_log(follower.ends, ends, followed=follower.failure is None)]
    families = chain(state_metrics.of_state(state), of_log, _of_worker(service))
    return families, len(state.config.connectors)


def _of_worker(service: Service) -> Iterable[Metric]:
    """Return the metrics of the tasks that run in this process."""
    return () if service.worker_metrics is None else service.worker_metrics()


async def _ends(service: Service) -> Ends | None:
    """Return the end offsets of the log; None if they do not arrive in time."""
    follower = service.follower
    if follower.failure is not None:
        return None
    try:
        async with asyncio.timeout(ENDS_PATIENCE_S):
            return await service.log.ends(list(follower.ends))
    except (LogError, TimeoutError):
        return None


class StateCollector(Collector):
    """Collector of the metrics that were last read from the state."""

    def __init__(self) -> None:
        self.families: Iterable[Metric] = ()
        self.lock = asyncio.Lock()
        """Held while `families` are set and encoded, because all scrapes share this object."""

    def collect(self) -> Iterable[Metric]:
        """Return the families of the current scrape; the registry calls this to encode them."""
        return self.families
