"""Table of all endpoints: method, path template, releases that have it, and its answer.

The table is data. `router` finds the row of a request, `responders` answer it in a service,
`pure_requests` answers it without a service, `extensions.openapi` describes it.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from operator import attrgetter
from typing import NamedTuple

from controlplane.core.releases.profiles import Profile
from controlplane.rest.endpoints import connector_plugins, reads, writes
from controlplane.rest.endpoints.query_parameters import CONNECTOR


def _no_release(_: Profile) -> bool:
    return False


class Endpoint(NamedTuple):
    """One row: a method and a path template, in which `{}` takes any one segment."""

    method: str
    template: tuple[str, ...]
    is_offered: Callable[[Profile], bool]
    """True for the releases that have the endpoint."""
    view: reads.ReadRoute | None = None
    """The pure function that answers it from the state, if any."""
    command: writes.WriteRoute | None = None
    """The command that a request to it runs, if any."""
    reads_body: bool = False
    consumes_json: Callable[[Profile], bool] = reads.every_release
    """True for the releases that refuse a `Content-Type` other than JSON."""
    type_optional: Callable[[Profile], bool] = _no_release
    """True for the releases that accept a body without a `Content-Type`."""
    changes: bool = False
    """True if it exists only where commands are run, or as a dry run."""
    media_type: str = "application/json"
    """Media type of the answer, which `Accept` must admit."""
    ours: bool = False
    """True if Connect has no such endpoint."""
    reads_log: bool = False
    """True if the answer needs the log and may take long: it is cancelled when the client
    leaves."""

    def requires_type(self, profile: Profile) -> bool:
        """Return True if a body without a `Content-Type` is refused."""
        return self.consumes_json(profile) and not self.type_optional(profile)


key_of: Callable[[Endpoint], tuple[str, tuple[str, ...]]] = attrgetter("method", "template")
"""Method and template, which identify a row."""


class EndpointSet(Enum):
    """The endpoints that a listener serves.

    Endpoints for administrators may have a listener of their own (KIP-495).
    """

    ALL = "all"
    PUBLIC = "without administration"
    ADMIN = "administration"

    def has(self, endpoint: Endpoint) -> bool:
        """Return True if the listener has an endpoint."""
        administers = endpoint.template[:1] == LOGGER[:1]
        return self is EndpointSet.ALL or (self is EndpointSet.ADMIN) == administers


LOGGER = ("admin", "loggers", "{}")
"""Template of one logger."""

PLUGINS = (
    reads.ReadRoute(("connector-plugins",), reads.every_release, connector_plugins.listed),
    reads.ReadRoute(
        ("connector-plugins", "{}", "config"),
        attrgetter("rest_all_plugins"),
        connector_plugins.definitions,
    ),
)
"""Views of the connector classes. No log holds them, so they have no past."""


def _connector_endpoints() -> Iterator[Endpoint]:
    for view in reads.ROUTES:
        consumes = reads.every_release if view.template else _no_release
        yield Endpoint("GET", view.template, view.is_offered, view, consumes_json=consumes)
    for command in writes.ROUTES:
        if command.template != LOGGER:
            yield _change(command)


def _change(command: writes.WriteRoute) -> Endpoint:
    takes_bytes = command.body == "bytes"
    return Endpoint(
        command.method,
        command.template,
        command.is_offered,
        command=command,
        reads_body=command.body is not None,
        consumes_json=_refuses_bytes if takes_bytes else reads.every_release,
        type_optional=attrgetter("session_keys") if takes_bytes else _no_release,
        changes=True,
    )


def _refuses_bytes(profile: Profile) -> bool:
    return not profile.rest_internal_any_type


def _worker_endpoints() -> Iterator[Endpoint]:
    """Connect's endpoints about the worker itself."""
    for view in PLUGINS:
        yield Endpoint("GET", view.template, view.is_offered, view)
    validated = ("connector-plugins", "{}", "config", "validate")
    yield Endpoint("PUT", validated, reads.every_release, reads_body=True)
    has_health, has_loggers = attrgetter("rest_health"), attrgetter("rest_loggers")
    yield Endpoint("GET", ("health",), has_health, consumes_json=_no_release)
    yield Endpoint("GET", LOGGER[:2], has_loggers)
    yield Endpoint("GET", LOGGER, has_loggers)
    # A level for this worker alone writes no record: a read-only service sets it as well.
    level = next(command for command in writes.ROUTES if command.template == LOGGER)
    yield Endpoint("PUT", LOGGER, has_loggers, command=level, reads_body=True)


def _own_endpoints() -> Iterator[Endpoint]:
    """This project's own endpoints, which Connect lacks."""
    yield Endpoint("GET", (*CONNECTOR, "history"), reads.every_release, reads_log=True)
    yield Endpoint("GET", (*CONNECTOR, "progress"), reads.every_release, reads_log=True)
    yield Endpoint("POST", (*CONNECTOR, "undo"), reads.every_release, changes=True)
    yield Endpoint("GET", ("diff",), reads.every_release, reads_log=True)
    yield Endpoint("GET", ("targets",), reads.every_release)
    yield Endpoint("GET", ("commands",), reads.every_release, reads_log=True)
    yield Endpoint("GET", ("watch",), reads.every_release, media_type="text/event-stream")
    yield Endpoint("GET", ("openapi.json",), reads.every_release)


ENDPOINTS: tuple[Endpoint, ...] = (
    *_connector_endpoints(),
    *_worker_endpoints(),
    *(endpoint._replace(ours=True) for endpoint in _own_endpoints()),
)
