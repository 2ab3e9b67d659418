"""Router: the table of all endpoints, and the search for the endpoint of a request.

A row of the table has a method, a path template, the releases that have it, and its answer. The
table is data: `responders` answer a row in a service, `pure_requests` answers it without a service,
`extensions.openapi` describes it. The server, tests and offline tools search the same table.

A tree over the templates of `ENDPOINTS` finds a template in as many steps as a path has segments. A
second table, made once per release, lists the methods that the release has for each template.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from controlplane.core.java.java_library import hash_map_order
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.rest.endpoints import connector_plugins, query_parameters, reads, writes
from controlplane.rest.endpoints.query_parameters import CONNECTOR, DRY_RUN
from controlplane.rest.errors import NoSuchMethod, NoSuchPath, ReadOnlyRefusal
from controlplane.rest.requests import (
    ExpectedMedia,
    Query,
    Request,
    RequestTarget,
    check_head,
    check_media,
    is_literal,
    matrix_names,
)


def _json(_: Profile) -> ExpectedMedia:
    return ExpectedMedia.JSON


def _anything(_: Profile) -> ExpectedMedia:
    return ExpectedMedia.ANYTHING


def _of_workers(profile: Profile) -> ExpectedMedia:
    """Rule for requests of other workers, whose bodies are read as bytes."""
    if profile.rest_internal_any_type:
        return ExpectedMedia.ANYTHING
    return ExpectedMedia.JSON_IF_SENT if profile.session_keys else ExpectedMedia.JSON


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
    expects: Callable[[Profile], ExpectedMedia] = _json
    """Rule of each release for the `Content-Type` of a body."""
    expected: ExpectedMedia = ExpectedMedia.JSON
    """The rule of the requested release; `offered` computes it from `expects`."""
    changes: bool = False
    """True if a request to it runs a command. A read-only service refuses such requests, except
    for dry runs if it can plan commands."""
    media_type: str = "application/json"
    """Media type of the answer, which `Accept` must admit."""
    ours: bool = False
    """True if Connect has no such endpoint."""
    reads_log: bool = False
    """True if the answer needs the log and may take long: it is cancelled when the client
    leaves."""


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
"""Views of the plugins. No log holds plugins, so with `as_of=` these views show the present."""


def _connector_endpoints() -> Iterator[Endpoint]:
    for view in reads.ROUTES:
        expects = _json if view.template else _anything
        yield Endpoint("GET", view.template, view.is_offered, view, expects=expects)
    for command in writes.ROUTES:
        if command.template != LOGGER:
            yield _change(command)


def _change(command: writes.WriteRoute) -> Endpoint:
    return Endpoint(
        command.method,
        command.template,
        command.is_offered,
        command=command,
        reads_body=command.body is not None,
        expects=_of_workers if command.body == "bytes" else _json,
        changes=True,
    )


def _worker_endpoints() -> Iterator[Endpoint]:
    """Connect's endpoints about the worker itself."""
    for view in PLUGINS:
        yield Endpoint("GET", view.template, view.is_offered, view)
    validated = ("connector-plugins", "{}", "config", "validate")
    yield Endpoint("PUT", validated, reads.every_release, reads_body=True)
    has_health, has_loggers = attrgetter("rest_health"), attrgetter("rest_loggers")
    yield Endpoint("GET", ("health",), has_health, expects=_anything)
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


# --- the search ----------------------------------------------------------------------------------

Path = tuple[str, ...]
"""Decoded segments of a path, or of a template."""

Methods = Mapping[str, Endpoint]
"""The endpoints of one path, by method."""


class Match(NamedTuple):
    """A template, and the segments of a path that its `{}` stand for."""

    template: Path
    names: Path


class _Node:
    """Node in the tree of templates: either fixed segments follow, or one open segment."""

    def __init__(self) -> None:
        self.template: Path | None = None
        self.fixed: dict[str, _Node] = {}
        self.open: _Node | None = None

    def add(self, template: Path, depth: int = 0) -> None:
        """Add the rest of a template."""
        if depth == len(template):
            self.template = template
            return
        if template[depth] == "{}":
            self.open = child = self.open or _Node()
        else:
            child = self.fixed.setdefault(template[depth], _Node())
        assert not (self.fixed and self.open), f"two ways to match {template}"
        child.add(template, depth + 1)


def _tree() -> _Node:
    root = _Node()
    for endpoint in ENDPOINTS:
        root.add(endpoint.template)
    return root


_TREE = _tree()


@lru_cache(maxsize=256)  # each request is matched for its answer and for the metrics
def match(path: Path) -> Match | None:
    """Find the template of a path in any release; None if there is none."""
    node, names = _TREE, []
    for segment in path:
        child = node.fixed.get(segment)
        if child is None:
            if node.open is None:
                return None
            child = node.open
            names.append(segment)
        node = child
    return None if node.template is None else Match(node.template, tuple(names))


def find(
    path: Path,
    target: str,
    profile: Profile,
    *,
    compat: bool = False,
    endpoint_set: EndpointSet = EndpointSet.ALL,
) -> tuple[Methods, Path]:
    """Find a release's endpoints at a path, and the path's names.

    `compat`: without this project's own endpoints.

    Raises:
        NoSuchPath: the release has nothing there, or `target` percent-encodes a fixed segment.
    """
    matched = match(path)
    methods = matched and offered(profile, endpoint_set, compat=compat).get(matched.template)
    if matched is None or not methods or not is_literal(target, matched.template):
        raise NoSuchPath
    return methods, matched.names


@lru_cache(maxsize=256)  # bounded: clients may name any number of unknown releases
def offered(profile: Profile, endpoint_set: EndpointSet, *, compat: bool) -> Mapping[Path, Methods]:
    """List the endpoints of a release on a listener, by template.

    `compat`: without this project's own endpoints.
    """
    endpoints: dict[Path, dict[str, Endpoint]] = {}
    for endpoint in ENDPOINTS:
        if (
            endpoint.is_offered(profile)
            and not (compat and endpoint.ours)
            and endpoint_set.has(endpoint)
        ):
            methods = endpoints.setdefault(endpoint.template, {})
            methods[endpoint.method] = endpoint._replace(expected=endpoint.expects(profile))
    return endpoints


def methods_of(endpoints: Methods) -> Sequence[str]:
    """List the methods of a path in the order in which Connect lists them."""
    heads = ["HEAD"] if "GET" in endpoints else []
    return list(hash_map_order([*heads, *endpoints, "OPTIONS"]))


class ListenerEndpoints(NamedTuple):
    """The endpoints that one listener of a service offers."""

    endpoint_set: EndpointSet = EndpointSet.ALL
    read_only: bool = False
    """True if no commands are run here."""
    plans: bool = False
    """True if dry runs are answered although the service is read-only."""


EVERYTHING = ListenerEndpoints()


class RouteMatch(NamedTuple):
    """Endpoint that answers a request, all methods of its path, and the names in the path."""

    methods: Methods
    endpoint: Endpoint | None
    """None for `OPTIONS`, which asks for the methods."""
    names: Path
    notice: str | None = None
    """Notice about an ignored query parameter."""


def route(
    request: Request,
    target: RequestTarget,
    profile: Profile,
    offering: ListenerEndpoints = EVERYTHING,
) -> RouteMatch:
    """Check path, method, `Content-Type`, `Accept` and query, in a worker's order.

    Raises:
        RestError: a worker of the release refuses the request, or this project does.
    """
    check_head(request, profile)
    endpoint_set, read_only, plans = offering
    compat = request.compat
    methods, names = find(
        target.segments, request.target, profile, compat=compat, endpoint_set=endpoint_set
    )
    if read_only:
        methods = _unchanging(methods, request, target.query, plans=plans)
    if request.method == "OPTIONS":
        return RouteMatch(methods, None, ())
    endpoint = methods.get("GET" if request.method == "HEAD" else request.method)
    if endpoint is None:
        raise NoSuchMethod
    check_media(request, endpoint.media_type, expected=endpoint.expected)
    return RouteMatch(
        methods, endpoint, names, _check_query(request, endpoint, target.query, profile)
    )


def _unchanging(
    methods: Methods, request: Request, query: Mapping[str, object], *, plans: bool
) -> Methods:
    """Remove endpoints that change something, unless the request is a dry run that can be planned.

    Raises:
        ReadOnlyRefusal: the request would change something. Kafka has no such refusal.
        NoSuchMethod: no endpoint is left.
    """
    if request.method in methods and methods[request.method].changes:
        if plans and DRY_RUN in query:
            return methods
        if not request.compat:
            raise ReadOnlyRefusal(plans=plans)
    left = {method: endpoint for method, endpoint in methods.items() if not endpoint.changes}
    if not left:
        raise NoSuchMethod
    return left


def _check_query(
    request: Request, endpoint: Endpoint, query: Query, profile: Profile
) -> str | None:
    """Check the parameters; return a notice about an ignored one."""
    matrix = matrix_names(request.target) if ";" in request.target else ()
    if not query and not matrix:
        return None
    key = key_of(endpoint)
    if endpoint.ours or not _expects_kafka(request, profile):
        return query_parameters.check(key, query, matrix, ours=endpoint.ours)
    query_parameters.check_as_kafka(key, query, matrix)
    return None


def _expects_kafka(request: Request, profile: Profile) -> bool:
    """Return True if the client may be a tool that expects Kafka.

    Such a client uses a path under `/compat`, or the root of a service that was started with a
    release.
    """
    return request.compat or (request.profile is None and profile.release != KIP)
