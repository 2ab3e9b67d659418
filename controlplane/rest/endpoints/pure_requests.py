"""Functions that handle a request without a running service.

`answer` answers a GET from a given state. `command_of` returns the command that a request runs.
"""

from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import quote, unquote

from controlplane.core import views
from controlplane.core.commands import AnyCommand
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.rest.endpoints import command_requests, reads, router
from controlplane.rest.endpoints.query_parameters import CONNECTOR
from controlplane.rest.endpoints.reads import ReadInputs
from controlplane.rest.errors import OK, Answer, NoSuchMethod, NoSuchPath, RequestFailed, RestError
from controlplane.rest.requests import parse_target


def answer(reading: ReadInputs, target: str) -> Answer:
    """Answer `GET target`, a raw path with its query. Never raises."""
    profile = reading.state.profile
    try:
        path, query = parse_target(target, profile)
        methods, names = _find(path, target, profile)
        view = methods["GET"].view if "GET" in methods else None
        if view is None:
            raise NoSuchPath
        return Answer(OK, view.view(reading._replace(query=query), *names))
    except RestError as error:
        return error.answer()
    except views.ReadFailed as error:
        return RequestFailed(str(error)).answer()


def command_of(  # noqa: PLR0913 - the facts that determine a command
    method: str,
    target: str,
    body: bytes | None,
    profile: Profile,
    *,
    signed: bool = False,
    existing: Container[str] = frozenset(),
) -> AnyCommand:
    """Return the command of a request. `target` is the raw path with its query.

    `signed`: a worker of the cluster sent the request, with a verified signature. `existing`: names
    of the connectors that exist.

    Raises:
        RestError: a release refuses the request in every state; the message is the release's.
    """
    path, query = parse_target(target, profile)
    methods, names = _find(path, target, profile)
    command = methods[method].command if method in methods else None
    if command is None:
        raise NoSuchMethod
    request = command_requests.CommandInput(profile, query, body, signed=signed, existing=existing)
    return command.command_for(request, *names)


def _find(path: router.Path, target: str, profile: Profile) -> tuple[router.Methods, router.Path]:
    """Find the endpoints of a path that need no service.

    Raises:
        NoSuchPath: the path has none.
    """
    endpoints, names = router.find(path, target, profile, compat=True)
    methods = {
        method: endpoint
        for method, endpoint in endpoints.items()
        if endpoint.view or (endpoint.command and endpoint.command.is_offered(profile))
    }
    if not methods:
        raise NoSuchPath
    return methods, names


def reachable(targets: Iterable[str], profile: Profile) -> Iterator[str]:
    """Yield the targets that a release accepts as a URL, and for which it has a read endpoint."""
    for target in targets:
        with suppress(RestError):
            path, _ = parse_target(target, profile)
            if "GET" in _find(path, target, profile)[0]:
                yield target


def every_path(state: ClusterState) -> Iterator[str]:
    """List the read endpoints of every connector; the release may lack some of them."""
    yield from list_paths(state.profile)
    for name in views.connectors(state):
        yield from connector_paths(base_path(name), sorted(state.status.tasks.get(name, {})))


def base_path(name: str) -> str:
    """Return the path of a connector, also of a name that is no Unicode text."""
    return f"/connectors/{quote(name, safe='', errors='surrogatepass')}"


class EndpointParts(NamedTuple):
    """Parts of the path of an endpoint about connectors."""

    connector: str | None
    """None: the endpoint lists connectors."""
    rest: tuple[str, ...]
    """Segments after the connector: `("tasks", "0", "status")`."""


def endpoint_parts(path: str) -> EndpointParts:
    """Split the path `/connectors/{c}/…`, without its query, and decode the connector's name.

    Any other text gives parts, too: the paths of a recorded story may be wrong.
    """
    segments = path.partition("?")[0].rstrip("/").split("/")[2:]
    return EndpointParts(unquote(segments[0]) if segments else None, tuple(segments[1:]))


def list_paths(profile: Profile) -> Iterator[str]:
    """List the endpoints that list connectors."""
    yield "/connectors"
    if profile.rest_expand:
        yield "/connectors?expand=status&expand=info"


def connector_paths(base: str, tasks: Iterable[int]) -> Iterator[str]:
    """List the read endpoints of the connector with the path `base`, and those of its tasks."""
    yield from ("/".join((base, *part)) for part in _CONNECTOR_ENDPOINTS)
    yield from (f"{base}/tasks/{task}/status" for task in tasks)


_CONNECTOR_ENDPOINTS = [
    route.template[2:]
    for route in reads.ROUTES
    if route.template[:2] == CONNECTOR and "{}" not in route.template[2:]
]
"""Segments of each read endpoint after `connectors/{}`; an empty tuple is the connector itself."""
