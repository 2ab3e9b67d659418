"""Every endpoint there is, in one table: by which method and path, in which releases, what answers.

What is read comes from `reads`, what is done from `writes`; both are tables of pure functions. Here
they meet the world: the state that is known now, and whoever carries commands out.
"""

from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from typing import NamedTuple

from controlplane.asof import Then
from controlplane.controller.controller import Closed, TimedOut
from controlplane.controller.outside import OutsideFailed
from controlplane.controller.turns import TooMany
from controlplane.core import views
from controlplane.core.commands import TEXT_IN_A_PART, AnyCommand, PatchConfig, size_of
from controlplane.core.java import hash_map_order
from controlplane.core.plan import GroupOffsets, Rejected
from controlplane.core.profiles import KIP, Profile
from controlplane.core.state import ClusterState
from controlplane.event_loop import apart
from controlplane.logs.log import Fenced, LogUnavailable
from controlplane.rest import (
    admin,
    asks,
    loggers,
    outcomes,
    plans,
    plugins,
    queries,
    reads,
    signatures,
    writes,
)
from controlplane.rest.calls import Call, Commands, Part, Planner
from controlplane.rest.errors import (
    OK,
    Answer,
    Failed,
    NoSuchMethod,
    NoSuchPath,
    NotReady,
    OnlyRead,
    RestError,
    ShuttingDown,
    refused,
)
from controlplane.rest.ours import differences, openapi, pasts, targets, trail, watch
from controlplane.rest.paths import matches, matrix_names, names_in, parse_target
from controlplane.rest.queries import DRY_RUN
from controlplane.rest.requests import (
    Request,
    Wanted,
    check_media,
    check_origin,
    check_readable,
    is_spelled_out,
)
from controlplane.rest.signatures import Signature

Answering = Callable[[Call], Awaitable[Answer]]


def _always(_: Profile) -> bool:
    return True


def _never(_: Profile) -> bool:
    return False


class Endpoint(NamedTuple):
    """A method and a path template (`{}` takes any one segment), who has it, and what answers."""

    method: str
    template: tuple[str, ...]
    known: Callable[[Profile], bool]
    answer: Answering
    reads_body: bool = False
    consumes_json: Callable[[Profile], bool] = _always
    """Who refuses a `Content-Type` that is no JSON."""
    takes_untold: Callable[[Profile], bool] = _never
    """Who takes a body without a `Content-Type`, though it refuses another than JSON."""
    changes: bool = False
    """Whether it is there only where commands are carried out."""
    takes: str = "application/json"
    """What it answers with, and so what an `Accept` must admit."""
    ours: bool = False
    """Connect has nothing like it."""
    reads_log: bool = False
    """Whether it reads the log, which may take long: it is given up when the client leaves."""

    def needs_type(self, profile: Profile) -> bool:
        """Whether a body without a `Content-Type` is refused."""
        return self.consumes_json(profile) and not self.takes_untold(profile)


def at(
    path: tuple[str, ...],
    target: str,
    profile: Profile,
    *,
    compat: bool = False,
    part: Part = Part.ALL,
) -> dict[str, Endpoint]:
    """What answers a path in a release, by method; `compat`: without what is ours.

    Raises:
        NoSuchPath: nothing does.
    """
    offered = _offered(profile, part, compat=compat).get(len(path), ())
    found = {one.method: one for one in offered if matches(one.template, path)}
    if not found or not any(is_spelled_out(target, one.template) for one in found.values()):
        raise NoSuchPath
    return found


@lru_cache(maxsize=256)  # a release of which nobody has heard is one of its own
def _offered(profile: Profile, part: Part, *, compat: bool) -> Mapping[int, Sequence[Endpoint]]:
    """What there is in a release, by the number of segments in its path."""
    return _by_length(
        one
        for one in ROUTES
        if one.known(profile) and part.has(one.template) and not (compat and one.ours)
    )


def _by_length(endpoints: Iterable[Endpoint]) -> Mapping[int, Sequence[Endpoint]]:
    found: dict[int, list[Endpoint]] = {}
    for one in endpoints:
        found.setdefault(len(one.template), []).append(one)
    return found


def template_of(path: tuple[str, ...]) -> tuple[str, ...] | None:
    """The template of a path, whoever has it; None: there is none."""
    some = _EVERY.get(len(path), ())
    return next((one.template for one in some if matches(one.template, path)), None)


def unchanging(
    found: dict[str, Endpoint], request: Request, query: Mapping[str, object], *, plans: bool
) -> dict[str, Endpoint]:
    """What is left where a log can only be read; for a dry run all of it, if somebody `plans`.

    Raises:
        OnlyRead: something else was asked for. Releases of Kafka's have no words for that.
        NoSuchMethod: nothing is left.
    """
    if request.method in found and found[request.method].changes:
        if plans and DRY_RUN in query:
            return found
        if not request.compat:
            raise OnlyRead(plans=plans)
    left = {method: one for method, one in found.items() if not one.changes}
    if not left:
        raise NoSuchMethod
    return left


def of_method(found: dict[str, Endpoint], method: str) -> Endpoint:
    """What answers a method. Raises `NoSuchMethod`."""
    wanted = "GET" if method == "HEAD" else method
    if wanted not in found:
        raise NoSuchMethod
    return found[wanted]


class Routed(NamedTuple):
    """Where a request goes."""

    found: dict[str, Endpoint]
    """What answers its path, by method."""
    endpoint: Endpoint | None
    """What answers it; None: it asks which methods there are (`OPTIONS`)."""
    names: tuple[str, ...]
    query: dict[str, list[str]]
    notice: str | None = None
    """What is to be noticed about its query."""


def routed(
    request: Request,
    profile: Profile,
    *,
    part: Part = Part.ALL,
    read_only: bool = False,
    plans: bool = False,
) -> Routed:
    """Path, method, `Content-Type`, `Accept`: in this order a worker looks at a request.

    Where the log is `read_only` dry runs may be left (`plans`).

    Raises:
        RestError: with what it says to one that nothing answers.
    """
    path, query = parse_target(request.target, profile)
    check_origin(request, profile)
    check_readable(request, profile)
    found = at(path, request.target, profile, compat=request.compat, part=part)
    if read_only:
        found = unchanging(found, request, query, plans=plans)
    if request.method == "OPTIONS":
        return Routed(found, None, (), query)
    endpoint = of_method(found, request.method)
    check_media(request, endpoint.takes, wanted=_wanted(endpoint, profile))
    notice = _checked(request, endpoint, query, profile)
    return Routed(found, endpoint, tuple(names_in(endpoint.template, path)), query, notice)


def _checked(
    request: Request, endpoint: Endpoint, query: Mapping[str, list[str]], profile: Profile
) -> str | None:
    """Check the parameters; what is to be noticed about them."""
    place, matrix = (endpoint.method, endpoint.template), matrix_names(request.target)
    if endpoint.ours or not _expects_kafka(request, profile):
        return queries.check(place, query, matrix, ours=endpoint.ours)
    queries.check_as_kafka(place, query, matrix)
    return None


def _expects_kafka(request: Request, profile: Profile) -> bool:
    """Whether a tool may ask that knows nothing of ours.

    It asks beneath `/compat`, or the root of a service that was started with a release.
    """
    return request.compat or (request.profile is None and profile.release != KIP)


def _wanted(endpoint: Endpoint, profile: Profile) -> Wanted:
    """The `Content-Type` that an endpoint wants."""
    if not endpoint.consumes_json(profile):
        return Wanted.ANYTHING
    return Wanted.JSON if endpoint.needs_type(profile) else Wanted.JSON_IF_TOLD


def methods_of(found: dict[str, Endpoint]) -> Sequence[str]:
    """By which methods an endpoint can be asked, as Connect lists them."""
    heads = ["HEAD"] if "GET" in found else []
    return list(hash_map_order([*heads, *found, "OPTIONS"]))


# --- what is read -------------------------------------------------------------------------------


def _viewing(route: reads.Route) -> Answering:
    """An endpoint that shows a part of the state."""

    async def answer(call: Call) -> Answer:
        known = route.of_log or call.request.as_of is not None
        state, notices = await call.then() if known else Then(ClusterState(call.profile))
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


def _parts(route: reads.Route, state: ClusterState) -> int:
    """Number of connectors or offsets that a view looks at, where it looks at many."""
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
    """What a sink's consumer group has committed by now; nobody knows what it had in the past."""
    commands = call.service.commands
    if commands is None or call.request.as_of is not None:
        return None
    try:
        return await commands.group_offsets(connector)
    except OutsideFailed as error:
        raise Failed(str(error)) from error


# --- what is done -------------------------------------------------------------------------------


def _doing(route: writes.Route) -> Answering:
    """An endpoint that carries a command out, or tells what that would be (`dry_run=true`)."""

    async def answer(call: Call) -> Answer:
        call.check_present()
        signature = await _signature(call) if route.body == "bytes" else None
        known = await _known(call) if route.command is PatchConfig else ()
        known = frozenset(name for name in call.names if name in known)
        asking = asks.Asking(call.profile, call.query, signature=signature, known=known)
        if route.body == "bytes":
            checking = partial(asks.checked_first, asking, call.body)
            asking = await apart(checking, len(call.body or b"") // TEXT_IN_A_PART)
        reading = partial(writes.meant, writes.ROUTES.index(route), asking, call.names)
        return await _obeyed(call, await call.service.bodies.read(reading, call.body))

    return answer


async def _undo(call: Call) -> Answer:
    """Put a connector back as it was."""
    call.check_present()
    return await _obeyed(call, await pasts.meant_by_undo(call))


async def _obeyed(call: Call, command: AnyCommand) -> Answer:
    commands = call.service.commands
    planner: Planner | None = commands or call.service.planner
    if call.flag(DRY_RUN) and planner is not None:
        return await _planned(call, planner, command)
    if commands is None:
        raise NoSuchMethod if call.request.compat else OnlyRead(plans=planner is not None)
    return await _done(call, commands, command)


async def _signature(call: Call) -> Signature | None:
    """What tells that another worker asks, and the newest key that it can be checked with."""
    state = await call.service.follower.state(call.profile)
    return signatures.signature(call.request.headers, state.config.session_key)


async def _known(call: Call) -> Container[str]:
    """Names of the connectors that exist."""
    state = await call.service.follower.state(call.profile)
    return state.config.connectors


async def _planned(call: Call, planner: Planner, command: AnyCommand) -> Answer:
    decided = await planner.plan(command, profile=call.profile, believe_hooks=True)
    if isinstance(decided, Rejected):
        raise refused(decided)
    showing = partial(plans.shown, decided, call.profile.release)
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
        raise Failed(f"{error}; this one carries out nothing more") from error
    except Closed as error:
        raise ShuttingDown(compat=call.request.compat) from error
    except LogUnavailable as error:
        raise Failed(str(error)) from error
    if isinstance(ended, Rejected):
        raise refused(ended)
    state = await call.service.follower.state(call.profile)
    done = outcomes.Done(command, ended, state, call.profile, call.service.plugins)
    return _located(writes.shown(done), call.request.base)


def _located(given: Answer, base: str) -> Answer:
    """Where something new is found, as the asker has to ask for it."""
    if "location" not in given.headers:
        return given
    location = base + given.headers["location"]
    return given._replace(headers={**given.headers, "location": location})


def _refuses_bytes(profile: Profile) -> bool:
    return not profile.rest_internal_any_type


def _rows() -> Iterator[Endpoint]:
    for row in reads.ROUTES:
        consumes = _always if row.template else _never
        yield Endpoint("GET", row.template, row.known, _viewing(row), consumes_json=consumes)
    for todo in writes.ROUTES:
        yield Endpoint(
            todo.method,
            todo.template,
            todo.known,
            _doing(todo),
            reads_body=todo.body is not None,
            consumes_json=_refuses_bytes if todo.body == "bytes" else _always,
            takes_untold=attrgetter("session_keys") if todo.body == "bytes" else _never,
            changes=True,
        )


@admin.of_now
async def _describe(call: Call) -> Answer:
    """The endpoints that are there, as OpenAPI tells of them."""
    read_only = call.service.commands is None
    there = (one for one in ROUTES if one.known(call.profile) and not (read_only and one.changes))
    return Answer(OK, openapi.described(there, metrics=call.service.metrics))


_LEVEL = ("admin", "loggers", "{}")


def _changing_loggers() -> Answering:
    """A level for this worker; for all of them it is a command as any other."""
    for_all = next(_doing(one) for one in writes.ROUTES if one.template == _LEVEL)

    async def answer(call: Call) -> Answer:
        if not loggers.for_cluster(call.query, call.profile):
            return await admin.change_logger(call)
        return await for_all(call)

    return answer


_PLUGINS = (
    reads.Route(("connector-plugins",), _always, plugins.listed),
    reads.Route(
        ("connector-plugins", "{}", "config"),
        attrgetter("rest_all_plugins"),
        plugins.definitions,
    ),
)


def _of_the_worker() -> Iterator[Endpoint]:
    """What asks a worker about itself."""
    for row in _PLUGINS:
        yield Endpoint("GET", row.template, row.known, admin.of_now(_viewing(row)))
    checked = ("connector-plugins", "{}", "config", "validate")
    yield Endpoint("PUT", checked, _always, admin.validate, reads_body=True)
    has_health, has_loggers = attrgetter("rest_health"), attrgetter("rest_loggers")
    yield Endpoint("GET", ("health",), has_health, admin.show_health, consumes_json=_never)
    yield Endpoint("GET", _LEVEL[:2], has_loggers, admin.show_loggers)
    yield Endpoint("GET", _LEVEL, has_loggers, admin.show_logger)
    yield Endpoint("PUT", _LEVEL, has_loggers, _changing_loggers(), reads_body=True)


_HISTORY = ("connectors", "{}", "history")

_OURS = (
    Endpoint("GET", _HISTORY, _always, pasts.show_history, reads_log=True),
    Endpoint("POST", ("connectors", "{}", "undo"), _always, _undo, changes=True),
    Endpoint("GET", ("diff",), _always, differences.show_differences, reads_log=True),
    Endpoint("GET", ("targets",), _always, targets.show_targets),
    Endpoint("GET", ("commands",), _always, trail.show_trail, reads_log=True),
    Endpoint("GET", ("watch",), _always, watch.watch, takes="text/event-stream"),
    Endpoint("GET", ("openapi.json",), _always, _describe),
)

ROUTES: tuple[Endpoint, ...] = (
    *_rows(),
    *_of_the_worker(),
    *(one._replace(ours=True) for one in _OURS),
)

_EVERY = _by_length(ROUTES)
