"""What Connect can be asked to do: one table of routes, as `reads` has one of what it can be asked.

Each row tells which command a request means (`asks`), and how its outcome is answered (`outcomes`).
Which rows there are, and the words for a request that means nothing, follow the release.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

from controlplane.core import commands as c
from controlplane.core.commands import AnyCommand
from controlplane.core.profiles import Profile
from controlplane.rest import asks, outcomes, reads
from controlplane.rest.errors import Answer, NoSuchMethod, refused
from controlplane.rest.paths import matches, names_in, parse_target


class Route(NamedTuple):
    """A method and a path (`{}` takes any one segment), its command, and how that is answered."""

    method: str
    path: str
    command: Callable[..., AnyCommand]
    show: Callable[[outcomes.Done], Answer]
    ask: Callable[..., AnyCommand] | None = None
    """Makes the command of a request; None: it says no more than the connector's name."""
    needs: str | None = None
    """The field of a profile that tells whether a release has it; None: every release has."""
    body: Literal["json", "bytes"] | None = None
    """What it reads of a request: a body that is called JSON, or one that is called anything."""

    def meant(self, asking: asks.Asking, *names: str) -> AnyCommand:
        """The command that a request means.

        Raises:
            RestError: a release refuses such a request whatever its state.
        """
        return self.command(*names) if self.ask is None else self.ask(asking, *names)

    @property
    def template(self) -> tuple[str, ...]:
        """The path in segments."""
        return tuple(self.path.split("/"))

    def known(self, profile: Profile) -> bool:
        """Whether a release has it."""
        return self.needs is None or getattr(profile, self.needs)


class Circumstances(TypedDict, total=False):
    """Facts beside a request that decide what it means."""

    signed: bool
    """It comes from a worker of the cluster, with a signature that was checked."""
    known: Container[str]
    """Names of the connectors that exist."""


def command_of(
    method: str,
    target: str,
    body: bytes | None,
    profile: Profile,
    **circumstances: Unpack[Circumstances],
) -> AnyCommand:
    """The command that a request means. `target` is the raw path with its query.

    Raises:
        RestError: a release refuses such a request whatever its state; the message is its own.
    """
    path, query = parse_target(target, profile)
    route = _find(method, path, profile)
    names = names_in(route.template, path)
    return route.meant(asks.Asking(profile, query, body, **circumstances), *names)


def meant(route: int, asking: asks.Asking, names: Sequence[str], body: bytes | None) -> AnyCommand:
    """The command that a request means which has found its row of `ROUTES`.

    Raises:
        RestError: a release refuses such a request whatever its state.
    """
    return ROUTES[route].meant(asking._replace(body=body), *names)


def shown(done: outcomes.Done) -> Answer:
    """What the asker of a command is told when it has been done."""
    if done.outcome.refusal is not None:
        return refused(done.outcome.refusal).answer()
    return _SHOWN[type(done.command)](done.as_first)


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


_C = "connectors/{}"

ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "connectors",
        c.CreateConnector,
        outcomes.config_written,
        asks.create,
        body="json",
    ),
    Route(
        "PUT",
        f"{_C}/config",
        c.PutConfig,
        outcomes.config_written,
        asks.put_config,
        body="json",
    ),
    Route(
        "PATCH",
        f"{_C}/config",
        c.PatchConfig,
        outcomes.config_written,
        asks.patch_config,
        needs="patches_configs",
        body="json",
    ),
    Route("DELETE", _C, c.DeleteConnector, outcomes.nothing),
    Route("PUT", f"{_C}/pause", c.PauseConnector, outcomes.accepted, needs="target_states"),
    Route("PUT", f"{_C}/resume", c.ResumeConnector, outcomes.accepted, needs="target_states"),
    Route("PUT", f"{_C}/stop", c.StopConnector, outcomes.nothing, needs="stops"),
    Route(
        "POST",
        f"{_C}/restart",
        c.RestartConnector,
        outcomes.restarted,
        asks.restart,
        needs="restarts",
    ),
    Route(
        "POST",
        f"{_C}/tasks/{{}}/restart",
        c.RestartTask,
        outcomes.nothing,
        asks.restart_task,
        needs="restarts",
    ),
    Route(
        "PATCH",
        f"{_C}/offsets",
        c.AlterOffsets,
        outcomes.offsets_altered,
        asks.alter_offsets,
        needs="alters_offsets",
        body="json",
    ),
    Route(
        "DELETE",
        f"{_C}/offsets",
        c.ResetOffsets,
        outcomes.offsets_reset,
        needs="alters_offsets",
    ),
    Route("PUT", f"{_C}/topics/reset", c.ResetTopics, outcomes.topics_reset, needs="rest_topics"),
    Route(
        "PUT",
        "admin/loggers/{}",
        c.SetLoggerLevel,
        outcomes.nothing,
        asks.set_level,
        needs="logger_levels",
        body="json",
    ),
    Route(
        "POST",
        f"{_C}/tasks",
        c.PublishTasks,
        outcomes.nothing,
        asks.publish_tasks,
        body="bytes",
    ),
    Route(
        "PUT",
        f"{_C}/fence",
        c.FenceTasks,
        outcomes.nothing,
        asks.fence_tasks,
        needs="fencing",
        body="bytes",
    ),
)

_SHOWN: dict[Any, Callable[[outcomes.Done], Answer]] = {
    **{route.command: route.show for route in ROUTES},
    c.RestoreConnector: outcomes.restored,  # which no release of Kafka can be asked for
}
