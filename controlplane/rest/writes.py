"""What Connect can be asked to do: one table of routes, as `reads` has one of what it can be asked.

Each row tells how a request becomes a command (`asks`), and how the outcome of that command is
answered (`outcomes`). The set of rows, and the words for what means nothing, follow the release.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from controlplane.core import commands
from controlplane.core.commands import AnyCommand
from controlplane.core.profiles import Profile
from controlplane.rest import asks, reads
from controlplane.rest.errors import NoSuchMethod
from controlplane.rest.paths import matches, names_in, parse_target


class Route(NamedTuple):
    """A method and a path (`{}` takes any one segment), who has it, what it asks for."""

    method: str
    template: tuple[str, ...]
    known: Callable[[Profile], bool]
    ask: Callable[..., AnyCommand]


def command_of(
    method: str, target: str, body: bytes | None, profile: Profile, *, signed: bool = False
) -> AnyCommand:
    """The command that a request means. `target` is the raw path with its query.

    `signed` says that it comes from a worker of the cluster, with a signature that was checked.

    Raises:
        RestError: a release refuses such a request whatever its state; the message is its own.
    """
    path, query = parse_target(target, profile)
    route = _find(method, path, profile)
    asking = asks.Asking(profile, query, body, signed)
    return route.ask(asking, *names_in(route.template, path))


def methods(path: tuple[str, ...], profile: Profile) -> list[str]:
    """The methods by which a path can be asked to do something in this release."""
    return [route.method for route in _routes(path, profile)]


def _find(method: str, path: tuple[str, ...], profile: Profile) -> Route:
    found = {route.method: route for route in _routes(path, profile)}
    if method in found:
        return found[method]
    if not found:
        reads.find(path, profile)  # what can only be read is a path all the same
    raise NoSuchMethod


def _routes(path: tuple[str, ...], profile: Profile) -> Iterator[Route]:
    return (one for one in ROUTES if one.known(profile) and matches(one.template, path))


def _always(_: Profile) -> bool:
    return True


_CONNECTORS = ("connectors",)
_CONNECTOR = (*_CONNECTORS, "{}")
_CONFIG = (*_CONNECTOR, "config")
_OFFSETS = (*_CONNECTOR, "offsets")
_TASKS = (*_CONNECTOR, "tasks")
_TASK = (*_TASKS, "{}")

ROUTES: tuple[Route, ...] = (
    Route("POST", _CONNECTORS, _always, asks.create),
    Route("PUT", _CONFIG, _always, asks.put_config),
    Route("PATCH", _CONFIG, lambda profile: profile.patches_configs, asks.patch_config),
    Route("DELETE", _CONNECTOR, _always, asks.only(commands.DeleteConnector)),
    Route(
        "PUT",
        (*_CONNECTOR, "pause"),
        lambda profile: profile.target_states,
        asks.only(commands.PauseConnector),
    ),
    Route(
        "PUT",
        (*_CONNECTOR, "resume"),
        lambda profile: profile.target_states,
        asks.only(commands.ResumeConnector),
    ),
    Route(
        "PUT",
        (*_CONNECTOR, "stop"),
        lambda profile: profile.stops,
        asks.only(commands.StopConnector),
    ),
    Route("POST", (*_CONNECTOR, "restart"), lambda profile: profile.restarts, asks.restart),
    Route("POST", (*_TASK, "restart"), lambda profile: profile.restarts, asks.restart_task),
    Route("PATCH", _OFFSETS, lambda profile: profile.alters_offsets, asks.alter_offsets),
    Route(
        "DELETE",
        _OFFSETS,
        lambda profile: profile.alters_offsets,
        asks.only(commands.ResetOffsets),
    ),
    Route(
        "PUT",
        (*_CONNECTOR, "topics", "reset"),
        lambda profile: profile.rest_topics,
        asks.only(commands.ResetTopics),
    ),
    Route(
        "PUT",
        ("admin", "loggers", "{}"),
        lambda profile: profile.logger_levels,
        asks.set_level,
    ),
    Route("POST", _TASKS, _always, asks.publish_tasks),
    Route("PUT", (*_CONNECTOR, "fence"), lambda profile: profile.fencing, asks.fence_tasks),
)
