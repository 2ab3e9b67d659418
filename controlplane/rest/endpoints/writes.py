"""Connect's commands: one table of routes, with the command and the answer of each.

The release decides which rows exist, and how an invalid request is refused.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from controlplane.core import commands as c
from controlplane.core.commands import AnyCommand
from controlplane.core.releases.profiles import Profile
from controlplane.rest.endpoints import command_requests, command_responses
from controlplane.rest.errors import Answer, refused


class WriteRoute(NamedTuple):
    """A method and a path (`{}` takes any one segment), with its command and its answer."""

    method: str
    path: str
    command: Callable[..., AnyCommand]
    respond: Callable[[command_responses.CompletedCommand], Answer]
    build: Callable[..., AnyCommand] | None = None
    """Builds the command from the request; None: the connector's name is enough."""
    needs: str | None = None
    """The profile field that is true if a release has it; None: every release has it."""
    body: Literal["json", "bytes"] | None = None
    """Body that it reads: `json` requires a JSON content type, `bytes` accepts any."""

    def command_for(self, request: command_requests.CommandInput, *names: str) -> AnyCommand:
        """Return the command of a request.

        Raises:
            RestError: a release refuses the request in every state.
        """
        return self.command(*names) if self.build is None else self.build(request, *names)

    @property
    def template(self) -> tuple[str, ...]:
        """The path in segments, as `router` matches them; `{}` takes any one segment."""
        return tuple(self.path.split("/"))

    def is_offered(self, profile: Profile) -> bool:
        """Return True if a release has it."""
        return self.needs is None or getattr(profile, self.needs)


def read_command(
    route: WriteRoute,
    request: command_requests.CommandInput,
    names: Sequence[str],
    body: bytes | None,
) -> AnyCommand:
    """Return the command of a request with this body.

    It is a function of the module, so that another process can run it.

    Raises:
        RestError: a release refuses the request in every state.
    """
    return route.command_for(request._replace(body=body), *names)


def answer_to(done: command_responses.CompletedCommand) -> Answer:
    """Return the answer to a completed command."""
    if done.outcome.refusal is not None:
        return refused(done.outcome.refusal).answer()
    return _RESPONSES[type(done.command)](done.in_first_release)


_C = "connectors/{}"

ROUTES: tuple[WriteRoute, ...] = (
    WriteRoute(
        "POST",
        "connectors",
        c.CreateConnector,
        command_responses.config_written,
        command_requests.create,
        body="json",
    ),
    WriteRoute(
        "PUT",
        f"{_C}/config",
        c.PutConfig,
        command_responses.config_written,
        command_requests.put_config,
        body="json",
    ),
    WriteRoute(
        "PATCH",
        f"{_C}/config",
        c.PatchConfig,
        command_responses.config_written,
        command_requests.patch_config,
        needs="patches_configs",
        body="json",
    ),
    WriteRoute("DELETE", _C, c.DeleteConnector, command_responses.nothing),
    WriteRoute(
        "PUT", f"{_C}/pause", c.PauseConnector, command_responses.accepted, needs="target_states"
    ),
    WriteRoute(
        "PUT", f"{_C}/resume", c.ResumeConnector, command_responses.accepted, needs="target_states"
    ),
    WriteRoute("PUT", f"{_C}/stop", c.StopConnector, command_responses.nothing, needs="stops"),
    WriteRoute(
        "POST",
        f"{_C}/restart",
        c.RestartConnector,
        command_responses.restarted,
        command_requests.restart,
        needs="restarts",
    ),
    WriteRoute(
        "POST",
        f"{_C}/tasks/{{}}/restart",
        c.RestartTask,
        command_responses.nothing,
        command_requests.restart_task,
        needs="restarts",
    ),
    WriteRoute(
        "PATCH",
        f"{_C}/offsets",
        c.AlterOffsets,
        command_responses.offsets_altered,
        command_requests.alter_offsets,
        needs="alters_offsets",
        body="json",
    ),
    WriteRoute(
        "DELETE",
        f"{_C}/offsets",
        c.ResetOffsets,
        command_responses.offsets_reset,
        needs="alters_offsets",
    ),
    WriteRoute(
        "PUT",
        f"{_C}/topics/reset",
        c.ResetTopics,
        command_responses.topics_reset,
        needs="rest_topics",
    ),
    WriteRoute(
        "PUT",
        "admin/loggers/{}",
        c.SetLoggerLevel,
        command_responses.nothing,
        command_requests.set_level,
        needs="logger_levels",
        body="json",
    ),
    WriteRoute(
        "POST",
        f"{_C}/tasks",
        c.PublishTasks,
        command_responses.nothing,
        command_requests.publish_tasks,
        body="bytes",
    ),
    WriteRoute(
        "PUT",
        f"{_C}/fence",
        c.FenceTasks,
        command_responses.nothing,
        command_requests.fence_tasks,
        needs="fencing",
        body="bytes",
    ),
)

_RESPONSES: dict[Any, Callable[[command_responses.CompletedCommand], Answer]] = {
    **{route.command: route.respond for route in ROUTES},
    c.RestoreConnector: command_responses.restored,  # no release of Kafka has this command
}
