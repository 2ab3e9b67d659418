"""Counters: requests, commands, recoveries, outages of the log."""

from collections.abc import Callable
from importlib.metadata import version
from platform import python_version
from time import perf_counter
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    Info,
    ProcessCollector,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controlplane.core.releases.profiles import Profile
from controlplane.observe import Logger
from controlplane.rest.endpoints import router
from controlplane.rest.http.messages import Layer, RequestInfo
from controlplane.rest.metrics.exposition import PATH, MetricsEndpoint, StateCollector
from controlplane.rest.service import Service

OTHER = "other"
"""Label of unknown routes and methods: made-up ones create no new series."""

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 90)
"""Upper bounds of the latency histogram: from an in-memory answer to the longest wait."""


class Metrics:
    """Counters and state metrics of one control plane, with a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._state = StateCollector()
        self._answers: dict[tuple[str, str, int], Callable[[float], None]] = {}
        self.registry.register(self._state)
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._build = Info(
            "controlplane_build",
            "Version of this program, and of the Python that runs it.",
            registry=self.registry,
        )
        self._build.info({"version": version("controlplane"), "python": python_version()})
        self._requests = Counter(
            "controlplane_http_requests",
            "Requests that were answered, by endpoint.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._answering = Histogram(
            "controlplane_http_answer_seconds",
            "Time until the head of an answer was sent.",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._commands = Histogram(
            "controlplane_command_seconds",
            "Duration of a command; outcome: done, or a word for its refusal or failure.",
            ("command", "outcome"),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._recovered = Counter(
            "controlplane_commands_recovered",
            "Commands left unfinished by a crash or an outage, by their ending.",
            ("command", "ending"),
            registry=self.registry,
        )
        self._interruptions = Counter(
            "controlplane_log_interruptions",
            "Outages in which the log could not be followed.",
            registry=self.registry,
        )
        self._defects = Counter(
            "controlplane_defects",
            "Requests that failed by a defect of this program; the log has the traceback.",
            registry=self.registry,
        )

    def counting_logger(self, logger: Logger) -> Logger:
        """Return a logger that also counts its events."""
        return _CountingLogger(self, logger)

    def counting_requests(self, app: ASGIApp, dialect: Profile) -> ASGIApp:
        """Wrap an application to count its answers; use it outermost, so that none is missed."""
        return _AnswerCounter(self, app, dialect)

    def with_metrics(self, app: ASGIApp, service: Service) -> ASGIApp:
        """Wrap an application to serve `/metrics`; use it innermost, so that it is protected."""
        return MetricsEndpoint(app, service, self.registry, self._state)

    def count_event(self, event: str, facts: dict[str, Any]) -> None:
        """Count a log event by its name and facts; an event without a counter is ignored."""
        match event:
            case "command":
                labels = facts["command"], facts["outcome"]
                self._commands.labels(*labels).observe(facts["took_ms"] / 1_000)
            case "command_recovered":
                self._recovered.labels(facts["command"], facts["ending"]).inc()
            case "log_not_followed":
                self._interruptions.inc()
            case "defect":
                self._defects.inc()

    def answering(self, request: RequestInfo, status: int) -> Callable[[float], None]:
        """Return a function that counts an answer with its duration in seconds."""
        method = request.request.method
        labels = method if method in METHODS else OTHER, _route(request.path), status
        if labels not in self._answers:  # looking a series up by its labels is slow
            self._answers[labels] = self._counter(*labels)
        return self._answers[labels]

    def _counter(self, method: str, route: str, status: int) -> Callable[[float], None]:
        requests = self._requests.labels(method, route, status)
        answers = self._answering.labels(route)

        def count(took_s: float) -> None:
            requests.inc()
            answers.observe(took_s)

        return count


def _route(path: tuple[str, ...]) -> str:
    """Return the template of a path as text."""
    if path == PATH:
        return "/metrics"
    matched = router.match(path)
    return OTHER if matched is None else "/" + "/".join(matched.template)


class _CountingLogger:
    def __init__(self, metrics: Metrics, logger: Logger) -> None:
        self._metrics, self._logger = metrics, logger

    def info(self, event: str, **facts: Any) -> None:
        self._metrics.count_event(event, facts)
        self._logger.info(event, **facts)

    def warning(self, event: str, **facts: Any) -> None:
        self._metrics.count_event(event, facts)
        self._logger.warning(event, **facts)

    def exception(self, event: str, **facts: Any) -> None:
        self._metrics.count_event(event, facts)
        self._logger.exception(event, **facts)  # noqa: LOG004 - called in a handler


class _AnswerCounter(Layer):
    def __init__(self, metrics: Metrics, app: ASGIApp, dialect: Profile) -> None:
        super().__init__(app, dialect)
        self._metrics = metrics

    async def handle(
        self, request: RequestInfo, scope: Scope, receive: Receive, send: Send
    ) -> None:
        began = perf_counter()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                count = self._metrics.answering(request, message["status"])
                count(perf_counter() - began)
                if request.cacheability is not None:
                    request.cacheability.listeners.append(lambda _peer: count(0))
            await send(message)

        await self._app(scope, receive, sending)
