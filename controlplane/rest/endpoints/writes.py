"""Connect's commands: one table of routes, with the command and the answer of each.

The release decides which rows exist, how an invalid request is refused, and how a completed command
is answered.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from controlplane.core import commands as c
from controlplane.core import views
from controlplane.core.commands import AnyCommand, ConnectorCommand, CreateConnector
from controlplane.core.plan import Outcome
from controlplane.core.plugins import UNKNOWN_TYPE, Plugins
from controlplane.core.records import State, Status
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.views import ConnectorView, StatusView
from controlplane.rest.endpoints import command_requests, entities
from controlplane.rest.errors import (
    ACCEPTED,
    CREATED,
    NO_CONTENT,
    OK,
    Answer,
    RequestFailed,
    refused,
)


class CompletedCommand(NamedTuple):
    """A command that was carried out.

    If `outcome.release` is set, the outcome alone determines the answer. Otherwise the answer also
    depends on `state` and `profile`. `Outcome.release` documents when it is unset.
    """

    command: AnyCommand
    outcome: Outcome
    state: ClusterState | None
    """State once the records have been read back; None: the outcome holds the whole answer."""
    profile: Profile
    plugins: Plugins = Plugins()

    @property
    def connector(self) -> str:
        """Name of the command's connector; only a `ConnectorCommand` has one."""
        assert isinstance(self.command, ConnectorCommand)
        return self.command.connector

    @property
    def in_first_release(self) -> "CompletedCommand":
        """Return the command with the release that answered it first.

        A repeated request gets the first answer again, also if it names another release.
        """
        release = self.outcome.release
        if release in (None, self.profile.release):
            return self
        return self._replace(profile=Profile.of(release))

    def view(self) -> ConnectorView | None:
        """Return the connector as the command left it; None if there was none."""
        stored = self.outcome.connector
        if stored is not None:
            return ConnectorView(self.connector, stored.config, range(stored.tasks), stored.type)
        if self.state is None or self.outcome.release is not None:
            return None
        return views.connector(self.state, self.connector, self.plugins)

    def status(self) -> StatusView | None:
        """Return the status at the time of the restart request; None if it is unknown."""
        stored = self.outcome.status
        if stored is not None:
            return StatusView(self.connector, stored.connector, dict(stored.tasks), stored.type)
        if self.state is None:
            return None
        return views.status(self.state, self.connector, self.plugins)


class WriteRoute(NamedTuple):
    """A method and a path (`{}` takes any one segment), with its command and its answer."""

    method: str
    path: str
    command: Callable[..., AnyCommand]
    respond: Callable[[CompletedCommand], Answer]
    build: Callable[..., AnyCommand] | None = None
    """Builds the command from the request; None: the connector's name is enough."""
    needs: str | None = None
    """The profile field that is true if a release has it; None: every release has it."""
    body: Literal["json", "bytes"] | None = None
    """Body that it reads. `json` requires a JSON content type; for `bytes`, the release decides."""

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


# --- answers --------------------------------------------------------------------------------------


def nothing(_: CompletedCommand) -> Answer:
    """Answer 204: the command is done."""
    return Answer(NO_CONTENT, "", None)


def accepted(_: CompletedCommand) -> Answer:
    """Answer 202: the workers follow the new target."""
    return Answer(ACCEPTED, "", None)


def topics_reset(done: CompletedCommand) -> Answer:
    """Answer 202 as Kafka does, because running tasks add topics again; 200 for KIP-558."""
    return Answer(OK if done.profile.rest_kip_topics_reset else ACCEPTED, "", None)


def config_written(done: CompletedCommand) -> Answer:
    """Return the connector as the command left it, with its `Location` if it is new.

    After a creation with offsets, the status is 200, with a message about them (KIP-995).
    """
    name, profile = done.connector, done.profile
    view = done.view()
    shown = _as_requested(done) if view is None else entities.connector(view, profile)
    if not done.outcome.created:
        return Answer(OK, shown)
    location = {"location": location_of(name, profile)}
    if isinstance(done.command, CreateConnector) and done.command.initial_offsets is not None:
        return Answer(OK, {**shown, **done.outcome.facts}, headers=location)
    return Answer(CREATED, shown, headers=location)


def _as_requested(completed: CompletedCommand) -> dict[str, Any]:
    """Describe a connector that has been deleted since, from the request.

    Earlier versions of this program stored only the request.
    """
    return {
        "name": completed.connector,
        "config": getattr(completed.command, "config", {}),
        "tasks": [],
    }


def restored(done: CompletedCommand) -> Answer:
    """Return the restored connector; 204 if the restored state has none."""
    view = done.view()
    return nothing(done) if view is None else Answer(OK, entities.connector(view, done.profile))


def offsets_altered(done: CompletedCommand) -> Answer:
    """Return the message about the connector's new offsets."""
    return Answer(OK, {"message": done.outcome.message})


def offsets_reset(done: CompletedCommand) -> Answer:
    """Return the message, as `offsets_altered` does; 204 for KIP-875, which defines no body."""
    return nothing(done) if done.profile.rest_kip_offsets else offsets_altered(done)


def restarted(done: CompletedCommand) -> Answer:
    """Return the status with the instances to restart as RESTARTING (KIP-745).

    Each worker selects its own instances; the answer assumes that all workers restart theirs. If
    the outcome has no list of instances, the answer is 204.
    """
    concerned = done.outcome.facts.get("restarting")
    if concerned is None:
        return nothing(done)
    status = done.status() or _restarting_only(done, concerned)
    marked = StatusView(
        status.name,
        _marked(status.connector, concerned=None in concerned),
        {task: _marked(last, concerned=task in concerned) for task, last in status.tasks.items()},
        status.type,
    )
    return Answer(ACCEPTED, entities.status(marked, done.profile))


def _restarting_only(completed: CompletedCommand, concerned: Sequence[int | None]) -> StatusView:
    """Return a status of the connector and the tasks to restart, all RESTARTING.

    It replaces the missing status of a connector that has been deleted since.
    """
    unknown = Status(State.RESTARTING, None, "", 0)
    tasks = {task: unknown for task in concerned if task is not None}
    return StatusView(completed.connector, unknown, tasks, UNKNOWN_TYPE)


def _marked(reported: Status, *, concerned: bool) -> Status:
    return msgspec.structs.replace(reported, state=State.RESTARTING) if concerned else reported


# --- the header Location ------------------------------------------------------------------------

_BASE = "/connectors/"

_KEPT = "/:@!$&'()*+,;=-._~{}"
"""Characters besides letters and digits that JAX-RS leaves unescaped."""

_ESCAPE = re.compile(r"%[0-9a-fA-F]{2}")
_TEMPLATE = re.compile(r"\{([^{}]*)\}")


def location_of(name: str, profile: Profile) -> str:
    """Return the path of a new connector, relative to the service's address.

    Releases build it by JAX-RS: `UriBuilder.fromUri("/connectors").path(name)`. JAX-RS keeps
    slashes, escapes and everything else that a path allows, and parses braces as a template.

    Raises:
        RequestFailed: a release cannot build the address of this name; the connector exists anyway.
    """
    if not profile.rest_location_verbatim:
        return _BASE + quote(name, safe="", errors="surrogatepass")
    path = _BASE + _encoded(name)
    variable = _TEMPLATE.search(path)
    if variable is not None:
        raise RequestFailed(f"The template variable '{variable[1].strip()}' has no value")
    if "{" in path:
        raise RequestFailed(
            f'Invalid syntax in the template "{path}". '
            'Check if a path parameter is terminated with a "}".'
        )
    if "}" in path:
        at = path.index("}")
        raise RequestFailed(
            f"java.net.URISyntaxException: Illegal character in path at index {at}: {path}"
        )
    return path


def _encoded(name: str) -> str:
    """Escape everything in a name that is neither allowed in a path nor an escape."""
    parts, behind = [], 0
    for escape in _ESCAPE.finditer(name):
        parts += [_quoted(name[behind : escape.start()]), escape[0]]
        behind = escape.end()
    return "".join([*parts, _quoted(name[behind:])])


def _quoted(text: str) -> str:
    return quote(text, safe=_KEPT, errors="surrogatepass")


# --- the table ------------------------------------------------------------------------------------

_C = "connectors/{}"

ROUTES: tuple[WriteRoute, ...] = (
    WriteRoute(
        "POST",
        "connectors",
        c.CreateConnector,
        config_written,
        command_requests.create,
        body="json",
    ),
    WriteRoute(
        "PUT",
        f"{_C}/config",
        c.PutConfig,
        config_written,
        command_requests.put_config,
        body="json",
    ),
    WriteRoute(
        "PATCH",
        f"{_C}/config",
        c.PatchConfig,
        config_written,
        command_requests.patch_config,
        needs="patches_configs",
        body="json",
    ),
    WriteRoute("DELETE", _C, c.DeleteConnector, nothing),
    WriteRoute("PUT", f"{_C}/pause", c.PauseConnector, accepted, needs="target_states"),
    WriteRoute("PUT", f"{_C}/resume", c.ResumeConnector, accepted, needs="target_states"),
    WriteRoute("PUT", f"{_C}/stop", c.StopConnector, nothing, needs="stops"),
    WriteRoute(
        "POST",
        f"{_C}/restart",
        c.RestartConnector,
        restarted,
        command_requests.restart,
        needs="restarts",
    ),
    WriteRoute(
        "POST",
        f"{_C}/tasks/{{}}/restart",
        c.RestartTask,
        nothing,
        command_requests.restart_task,
        needs="restarts",
    ),
    WriteRoute(
        "PATCH",
        f"{_C}/offsets",
        c.AlterOffsets,
        offsets_altered,
        command_requests.alter_offsets,
        needs="alters_offsets",
        body="json",
    ),
    WriteRoute(
        "DELETE",
        f"{_C}/offsets",
        c.ResetOffsets,
        offsets_reset,
        needs="alters_offsets",
    ),
    WriteRoute(
        "PUT",
        f"{_C}/topics/reset",
        c.ResetTopics,
        topics_reset,
        needs="rest_topics",
    ),
    WriteRoute(
        "PUT",
        "admin/loggers/{}",
        c.SetLoggerLevel,
        nothing,
        command_requests.set_level,
        needs="logger_levels",
        body="json",
    ),
    WriteRoute(
        "POST",
        f"{_C}/tasks",
        c.PublishTasks,
        nothing,
        command_requests.publish_tasks,
        body="bytes",
    ),
    WriteRoute(
        "PUT",
        f"{_C}/fence",
        c.FenceTasks,
        nothing,
        command_requests.fence_tasks,
        needs="fencing",
        body="bytes",
    ),
)

_RESPONSES: dict[Any, Callable[[CompletedCommand], Answer]] = {
    **{route.command: route.respond for route in ROUTES},
    c.RestoreConnector: restored,  # no release of Kafka has this command
}


def answer_to(done: CompletedCommand) -> Answer:
    """Return the answer to a completed command."""
    if done.outcome.refusal is not None:
        return refused(done.outcome.refusal).answer()
    return _RESPONSES[type(done.command)](done.in_first_release)
