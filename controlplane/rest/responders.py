"""Responders: functions by which a running service answers each endpoint of the table.

Views and commands are pure (`reads`, `writes`). A responder connects them to the current state and
to the program that runs commands.
"""

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from functools import partial

from controlplane.controller.admission import TooMany
from controlplane.controller.controller import Closed, TimedOut
from controlplane.controller.external import ExternalActionFailed, OverridesForbidden
from controlplane.controller.messages import FENCED, fenced_text
from controlplane.core import views
from controlplane.core.commands import TEXT_IN_A_PART, AnyCommand, PatchConfig, size_of
from controlplane.core.context import Context
from controlplane.core.decide.offsets import reading_failure
from controlplane.core.plan import GroupOffsets, Rejected
from controlplane.core.releases.profiles import KIP
from controlplane.core.state import ClusterState
from controlplane.event_loop import in_thread_if_large
from controlplane.logs.log import Fenced, LogUnavailable
from controlplane.projection.past_states import PastState
from controlplane.rest import signatures, worker_endpoints
from controlplane.rest.endpoints import (
    command_requests,
    plan_json,
    reads,
    router,
    writes,
)
from controlplane.rest.endpoints.query_parameters import CONNECTOR, DRY_RUN, EndpointKey
from controlplane.rest.endpoints.router import ENDPOINTS, LOGGER, PLUGINS, Endpoint, key_of
from controlplane.rest.errors import (
    OK,
    Answer,
    NoSuchMethod,
    NotReady,
    ReadOnlyRefusal,
    RequestFailed,
    RestError,
    ShuttingDown,
    WorkerAnswer,
    refused,
)
from controlplane.rest.extensions import (
    audit_trail,
    diff,
    history,
    openapi,
    progress,
    target_states,
    watch,
)
from controlplane.rest.requests import Call
from controlplane.rest.service import Commands, HasRemoteStates, Planner
from controlplane.rest.signatures import Signature

Responder = Callable[[Call], Awaitable[Answer]]


# --- reads --------------------------------------------------------------------------------------


def _view_responder(route: reads.ReadRoute) -> Responder:
    """Return the responder of an endpoint that shows a part of the state."""

    async def answer(call: Call) -> Answer:
        if route.reads_log or call.request.as_of is not None:
            state, notices = await call.requested_state()
        else:
            state, notices = PastState(ClusterState(call.profile))
        service = call.service
        reading = reads.ReadInputs(
            state,
            service.plugins,
            service.cluster_id,
            call.query,
            tracks_topics=service.worker.topic_tracking_enable,
        )
        if route.reads_group:
            _check_readable(call, reading.state, *call.names)
            if reads.is_sink(reading, *call.names):
                reading = reading._replace(group=await _group(call, *call.names))
            else:
                reading = reading._replace(state=await _with_remote(call, reading, *call.names))
        viewing = partial(_view_answer, route.view, reading, call.names)
        answered = await in_thread_if_large(viewing, _visited(route, state, call.names))
        answered = answered.with_notices(notices)
        return answered._replace(pure=not route.reads_group and call.request.as_of is None)

    return answer


def _visited(route: reads.ReadRoute, state: ClusterState, names: Sequence[str]) -> int:
    """Count the offsets, connectors or tasks that a view visits; 0 for a small view."""
    if route.reads_group:
        return sum(len(topic.values) for topic in state.offsets.values())
    if route.template == ("connectors",):
        return len(state.config.connectors)
    # A record that another program wrote may commit millions of tasks: a view of them takes long.
    return max((state.config.task_counts.get(name, 0) for name in names[:1]), default=0)


def _view_answer(view: reads.View, reading: reads.ReadInputs, names: Sequence[str]) -> Answer:
    try:
        return Answer(OK, view(reading, *names))
    except views.ReadFailed as error:
        return RequestFailed(str(error)).answer()
    except RestError as error:
        return error.answer()


def _check_readable(call: Call, state: ClusterState, connector: str) -> None:
    """Raise Kafka's error if this worker cannot read the present offsets of a connector.

    A worker first creates an instance of the connector's class, and Kafka clients that read the
    offsets (`reading_failure`). Only a service that is a worker itself checks this. Other services
    do not know the classes and the policy of the workers.

    Raises:
        RequestFailed: the worker cannot create the instance or a client; with Kafka's message.
    """
    service = call.service
    is_worker = service.commands is not None and service.workers is None
    if not is_worker or call.request.as_of is not None or connector not in state.config.connectors:
        return
    context = Context(profile=call.profile, worker=service.worker, plugins=service.plugins)
    failure = reading_failure(state, connector, context)
    if failure is not None:
        raise RequestFailed(failure)


async def _group(call: Call, connector: str) -> GroupOffsets | None:
    """Return a sink's committed offsets; None without groups, or for the past."""
    groups = call.service.commands or call.service.groups
    if groups is None or call.request.as_of is not None:
        return None
    try:
        return await groups.group_offsets(connector)
    except OverridesForbidden as error:
        raise RequestFailed(str(error)) from error
    except ExternalActionFailed as error:
        words = reads.no_group_offsets(connector)
        # The workers of every Kafka release answer only these words, and log the reason. The
        # profile `KIP` is no release: its answer has the reason, too.
        raise RequestFailed(
            words if call.profile.release != KIP else f"{words}: {error}"
        ) from error


async def _with_remote(call: Call, reading: reads.ReadInputs, connector: str) -> ClusterState:
    """Return the state with a source's present offsets on the cluster of its producer."""
    plane: object = call.service.commands
    if not isinstance(plane, HasRemoteStates) or call.request.as_of is not None:
        return reading.state
    try:
        return await plane.with_remote_offsets(reading.state, connector)
    except ExternalActionFailed as error:
        words = f"Failed to retrieve offsets for source connector {connector}"
        raise RequestFailed(f"{words}: {error}") from error


# --- commands -----------------------------------------------------------------------------------


def _command_responder(route: writes.WriteRoute) -> Responder:
    """Return the responder of a command; it plans the command instead with `dry_run=true`."""

    async def answer(call: Call) -> Answer:
        call.check_present()
        signature = await _signature(call) if route.body == "bytes" else None
        connectors = await _connectors(call) if route.command is PatchConfig else ()
        # `existing` holds only the name in the path. The input may be pickled for a process that
        # reads the body, and a cluster may have many connectors.
        present = frozenset(name for name in call.names if name in connectors)
        request = command_requests.CommandInput(
            call.profile, call.query, signature=signature, existing=present
        )
        if route.body is None:
            return await _run_or_plan(call, route.command_for(request, *call.names))
        if route.body == "bytes":
            checking = partial(command_requests.with_checked_signature, request, call.body)
            request = await in_thread_if_large(checking, len(call.body or b"") // TEXT_IN_A_PART)
        reading = partial(writes.read_command, route, request, call.names)
        return await _run_or_plan(call, await call.service.bodies.read(reading, call.body))

    return answer


async def _undo(call: Call) -> Answer:
    call.check_present()
    return await _run_or_plan(call, await history.undo_command(call))


async def _run_or_plan(call: Call, command: AnyCommand) -> Answer:
    commands = call.service.commands
    planner: Planner | None = commands or call.service.planner
    if call.flag(DRY_RUN) and planner is not None:
        return await _plan(call, planner, command)
    if commands is None:
        raise NoSuchMethod if call.request.compat else ReadOnlyRefusal(plans=planner is not None)
    return await _run(call, commands, command)


async def _signature(call: Call) -> Signature | None:
    """Return the signature of a worker's request, with the newest session key.

    The caller has not logged in, so the request must not make the service fold another release.
    """
    dialect = call.service.dialect
    profile = dialect if dialect.session_keys else call.profile
    state = await call.service.follower.state(profile)
    return signatures.signature(call.request.headers, state.config.session_key)


async def _connectors(call: Call) -> Container[str]:
    """Return the names of the existing connectors."""
    state = await call.service.follower.state(call.profile)
    return state.config.connectors


async def _plan(call: Call, planner: Planner, command: AnyCommand) -> Answer:
    decided = await planner.plan(command, profile=call.profile, believe_hooks=True)
    if isinstance(decided, Rejected):
        raise refused(decided, with_cause=call.profile.release == KIP)
    showing = partial(plan_json.document, decided, call.profile.release)
    return Answer(OK, await in_thread_if_large(showing, size_of(command)))


async def _run(call: Call, commands: Commands, command: AnyCommand) -> Answer:
    try:
        ended = await commands.carry_out(
            command,
            principal=call.request.principal,
            key=call.key,
            profile=call.profile,
        )
    except TimedOut as error:
        raise RequestFailed(str(error)) from error
    except TooMany as error:
        raise NotReady(str(error)) from error
    except Fenced as error:
        message = FENCED if call.request.compat else fenced_text(error)
        raise RequestFailed(message) from error
    except Closed as error:
        raise ShuttingDown(compat=call.request.compat) from error
    except LogUnavailable as error:
        raise RequestFailed(str(error)) from error
    if isinstance(ended, WorkerAnswer):
        return ended.passed_on(call.request.base)
    if isinstance(ended, Rejected):
        raise refused(ended, with_cause=call.profile.release == KIP)
    is_whole = ended.release is not None
    state = None if is_whole else await call.service.follower.state(call.profile)
    completed = writes.CompletedCommand(command, ended, state, call.profile, call.service.plugins)
    return _with_location(writes.answer_to(completed), call.request.base)


def _with_location(answer: Answer, base: str) -> Answer:
    """Complete the `Location` header with the client's base address."""
    if "location" not in answer.headers:
        return answer
    location = base + answer.headers["location"]
    return answer._replace(headers={**answer.headers, "location": location})


def _by_workers(responder: Responder) -> Responder:
    """Wrap a responder about plugins: the workers of an attached cluster answer instead of it."""

    async def answer(call: Call) -> Answer:
        workers, request = call.service.workers, call.request
        if workers is None:
            return await responder(call)
        return (await workers.pass_on(request.method, request.target, call.body)).passed_on("")

    return answer


@worker_endpoints.without_past
async def _describe(call: Call) -> Answer:
    """Describe the endpoints that this listener answers, as OpenAPI."""
    service = call.service
    read_only = service.commands is None
    lists_changes = not read_only or service.planner is not None
    offered = router.offered(call.profile, service.endpoint_set, compat=call.request.compat)
    endpoints = (
        endpoint
        for methods in offered.values()
        for endpoint in methods.values()
        if lists_changes or not endpoint.changes
    )
    path = call.request.base.partition("://")[2].partition("/")[2]
    mount = f"/{path}" if path else ""
    return Answer(
        OK,
        openapi.document(endpoints, mount=mount, metrics=service.metrics, read_only=read_only),
    )


def _changing_logger(command: writes.WriteRoute) -> Responder:
    """Return the responder that sets a logger's level; a level for all workers is a command."""
    for_all = _command_responder(command)

    async def answer(call: Call) -> Answer:
        if not worker_endpoints.is_for_cluster(call.query, call.profile):
            return await worker_endpoints.change_logger(call)
        return await for_all(call)

    return answer


_OWN: Mapping[EndpointKey, Responder] = {
    ("PUT", ("connector-plugins", "{}", "config", "validate")): worker_endpoints.without_past(
        _by_workers(worker_endpoints.validate)
    ),
    ("GET", ("health",)): worker_endpoints.show_health,
    ("GET", LOGGER[:2]): worker_endpoints.show_loggers,
    ("GET", LOGGER): worker_endpoints.show_logger,
    ("GET", (*CONNECTOR, "history")): history.show_history,
    ("GET", (*CONNECTOR, "progress")): progress.show_progress,
    ("POST", (*CONNECTOR, "undo")): _undo,
    ("GET", ("diff",)): diff.show_differences,
    ("GET", ("targets",)): target_states.show_targets,
    ("GET", ("commands",)): audit_trail.show_trail,
    ("GET", ("watch",)): watch.watch,
    ("GET", ("openapi.json",)): _describe,
}
"""Responders of the endpoints that are neither a view of the state nor a command."""


def _responder(endpoint: Endpoint) -> Responder:
    if endpoint.view is not None:
        responder = _view_responder(endpoint.view)
        if endpoint.view in PLUGINS:
            return worker_endpoints.without_past(_by_workers(responder))
        return responder
    if endpoint.command is not None:
        changes_logger = endpoint.template == LOGGER
        return (_changing_logger if changes_logger else _command_responder)(endpoint.command)
    return _OWN[key_of(endpoint)]


RESPONDERS: Mapping[EndpointKey, Responder] = {
    key_of(endpoint): _responder(endpoint) for endpoint in ENDPOINTS
}
"""The responder of every endpoint in the table."""
