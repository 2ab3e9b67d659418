"""Responders: how a running service answers each endpoint of the table.

Views and commands are pure (`reads`, `writes`). A responder connects them to the current state and
to the program that runs commands.
"""

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from functools import partial

from controlplane.controller.admission import TooMany
from controlplane.controller.controller import Closed, TimedOut
from controlplane.controller.external import ExternalActionFailed
from controlplane.core import views
from controlplane.core.commands import TEXT_IN_A_PART, AnyCommand, PatchConfig, size_of
from controlplane.core.plan import GroupOffsets, Rejected
from controlplane.core.state import ClusterState
from controlplane.event_loop import apart
from controlplane.logs.log import Fenced, LogUnavailable
from controlplane.projection.as_of import PastState
from controlplane.rest import signatures
from controlplane.rest.endpoints import (
    admin,
    command_requests,
    command_responses,
    loggers,
    plan_json,
    reads,
    writes,
)
from controlplane.rest.endpoints.query_parameters import DRY_RUN, EndpointKey
from controlplane.rest.endpoints.table import ENDPOINTS, LOGGER, PLUGINS, Endpoint
from controlplane.rest.errors import (
    OK,
    Answer,
    Failed,
    NoSuchMethod,
    NotReady,
    OnlyRead,
    RestError,
    ShuttingDown,
    refused,
)
from controlplane.rest.extensions import audit, diff, history, openapi, target_states, watch
from controlplane.rest.service import Call, Commands, Planner
from controlplane.rest.signatures import Signature

Responder = Callable[[Call], Awaitable[Answer]]


# --- what is read -------------------------------------------------------------------------------


def _viewing(route: reads.ReadRoute) -> Responder:
    """Return the responder of an endpoint that shows a part of the state."""

    async def answer(call: Call) -> Answer:
        known = route.of_log or call.request.as_of is not None
        state, notices = await call.then() if known else PastState(ClusterState(call.profile))
        service = call.service
        reading = reads.Reading(
            state,
            service.plugins,
            service.cluster_id,
            call.query,
            tracks_topics=service.worker.topic_tracking_enable,
        )
        if route.of_group and reads.is_sink(reading, *call.names):
            reading = reading._replace(group=await _group(call, *call.names))
        viewing = partial(_viewed, route.view, reading, call.names)
        given = (await apart(viewing, _parts(route, state))).noticed(notices)
        return given._replace(pure=not route.of_group and call.request.as_of is None)

    return answer


def _parts(route: reads.ReadRoute, state: ClusterState) -> int:
    """Number of connectors or offsets that a view visits; 0 for a small view."""
    if route.of_group:
        return sum(len(topic.values) for topic in state.offsets.values())
    return len(state.config.connectors) if route.template == ("connectors",) else 0


def _viewed(view: reads.View, reading: reads.Reading, names: Sequence[str]) -> Answer:
    try:
        return Answer(OK, view(reading, *names))
    except views.ReadFailed as error:
        return Failed(str(error)).answer()
    except RestError as error:
        return error.answer()


async def _group(call: Call, connector: str) -> GroupOffsets | None:
    """Return a sink's committed offsets; None for the past, which the broker does not keep."""
    commands = call.service.commands
    if commands is None or call.request.as_of is not None:
        return None
    try:
        return await commands.group_offsets(connector)
    except ExternalActionFailed as error:
        raise Failed(str(error)) from error


# --- what is done -------------------------------------------------------------------------------


def _doing(route: writes.WriteRoute) -> Responder:
    """Return the responder of a command; it plans the command instead with `dry_run=true`."""

    async def answer(call: Call) -> Answer:
        call.check_present()
        signature = await _signature(call) if route.body == "bytes" else None
        known = await _known(call) if route.command is PatchConfig else ()
        known = frozenset(name for name in call.names if name in known)
        asking = command_requests.Asking(call.profile, call.query, signature=signature, known=known)
        if route.body == "bytes":
            checking = partial(command_requests.checked_first, asking, call.body)
            asking = await apart(checking, len(call.body or b"") // TEXT_IN_A_PART)
        reading = partial(writes.meant, writes.ROUTES.index(route), asking, call.names)
        return await _obeyed(call, await call.service.bodies.read(reading, call.body))

    return answer


async def _undo(call: Call) -> Answer:
    """Restore a connector's earlier state."""
    call.check_present()
    return await _obeyed(call, await history.meant_by_undo(call))


async def _obeyed(call: Call, command: AnyCommand) -> Answer:
    commands = call.service.commands
    planner: Planner | None = commands or call.service.planner
    if call.flag(DRY_RUN) and planner is not None:
        return await _planned(call, planner, command)
    if commands is None:
        raise NoSuchMethod if call.request.compat else OnlyRead(plans=planner is not None)
    return await _done(call, commands, command)


async def _signature(call: Call) -> Signature | None:
    """Return the signature of a worker's request, with the newest session key."""
    state = await call.service.follower.state(call.profile)
    return signatures.signature(call.request.headers, state.config.session_key)


async def _known(call: Call) -> Container[str]:
    """Return the names of the existing connectors."""
    state = await call.service.follower.state(call.profile)
    return state.config.connectors


async def _planned(call: Call, planner: Planner, command: AnyCommand) -> Answer:
    decided = await planner.plan(command, profile=call.profile, believe_hooks=True)
    if isinstance(decided, Rejected):
        raise refused(decided)
    showing = partial(plan_json.shown, decided, call.profile.release)
    return Answer(OK, await apart(showing, size_of(command)))


async def _done(call: Call, commands: Commands, command: AnyCommand) -> Answer:
    try:
        ended = await commands.carry_out(
            command,
            principal=call.principal,
            key=call.key,
            profile=call.profile,
        )
    except TimedOut as error:
        raise Failed(str(error)) from error
    except TooMany as error:
        raise NotReady(str(error)) from error
    except Fenced as error:
        raise Failed(f"{error}; this one only reads now") from error
    except Closed as error:
        raise ShuttingDown(compat=call.request.compat) from error
    except LogUnavailable as error:
        raise Failed(str(error)) from error
    if isinstance(ended, Rejected):
        raise refused(ended)
    state = await call.service.follower.state(call.profile)
    done = command_responses.CompletedCommand(
        command, ended, state, call.profile, call.service.plugins
    )
    return _located(writes.shown(done), call.request.base)


def _located(given: Answer, base: str) -> Answer:
    """Complete the `Location` header with the client's base address."""
    if "location" not in given.headers:
        return given
    location = base + given.headers["location"]
    return given._replace(headers={**given.headers, "location": location})


@admin.of_now
async def _describe(call: Call) -> Answer:
    """Describe the available endpoints as OpenAPI."""
    read_only = call.service.commands is None
    there = (
        endpoint
        for endpoint in ENDPOINTS
        if endpoint.known(call.profile) and not (read_only and endpoint.changes)
    )
    return Answer(OK, openapi.described(there, metrics=call.service.metrics))


def _changing_logger(command: writes.WriteRoute) -> Responder:
    """Return the responder of a logger's level: a command if it is for all workers."""
    for_all = _doing(command)

    async def answer(call: Call) -> Answer:
        if not loggers.for_cluster(call.query, call.profile):
            return await admin.change_logger(call)
        return await for_all(call)

    return answer


_OWN: Mapping[EndpointKey, Responder] = {
    ("PUT", ("connector-plugins", "{}", "config", "validate")): admin.validate,
    ("GET", ("health",)): admin.show_health,
    ("GET", LOGGER[:2]): admin.show_loggers,
    ("GET", LOGGER): admin.show_logger,
    ("GET", ("connectors", "{}", "history")): history.show_history,
    ("POST", ("connectors", "{}", "undo")): _undo,
    ("GET", ("diff",)): diff.show_differences,
    ("GET", ("targets",)): target_states.show_targets,
    ("GET", ("commands",)): audit.show_trail,
    ("GET", ("watch",)): watch.watch,
    ("GET", ("openapi.json",)): _describe,
}
"""Responders of the endpoints that are neither a view of the state nor a command."""


def _responder(endpoint: Endpoint) -> Responder:
    if endpoint.view is not None:
        viewing = _viewing(endpoint.view)
        return admin.of_now(viewing) if endpoint.view in PLUGINS else viewing
    if endpoint.command is not None:
        changes_logger = endpoint.template == LOGGER
        return (_changing_logger if changes_logger else _doing)(endpoint.command)
    return _OWN[endpoint.place]


RESPONDERS: Mapping[EndpointKey, Responder] = {
    endpoint.place: _responder(endpoint) for endpoint in ENDPOINTS
}
"""The responder of every endpoint in the table."""
