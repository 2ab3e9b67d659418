"""Endpoints about the worker itself: validation, health (KIP-1017), loggers (KIP-495, KIP-976).

No log holds their data, so an earlier moment cannot be shown. A GET or a validation with `as_of=`
gets the present answer with a notice. A change of a logger with `as_of=` is refused.

A Kafka worker is unhealthy if its herder does not answer in time. This service depends on its log
instead: without the log it answers from old state.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial, wraps

from controlplane.controller.messages import fenced_text
from controlplane.core.commands import size_of_config
from controlplane.core.context import Context
from controlplane.core.decide.topics import level_named
from controlplane.core.plan import Plan, Rejected
from controlplane.core.releases.profiles import Profile
from controlplane.event_loop import in_thread_if_large
from controlplane.logger_levels import LoggerRefused, Loggers, UnknownLogger
from controlplane.logs.log import Fenced, LogError
from controlplane.rest import bodies
from controlplane.rest.endpoints import connector_plugins, plan_json
from controlplane.rest.errors import (
    INTERNAL_ERROR,
    OK,
    UNAVAILABLE,
    Answer,
    BadRequest,
    NoSuchPath,
    NotFound,
    refused,
)
from controlplane.rest.requests import Call, Query

NO_PAST = "as_of= is ignored: no log holds this, so the answer is the present one"
"""Notice of an answer that shows the present, although the request has `as_of=`."""

HEALTH_S = 10
"""Seconds after which `/health` answers that the worker is still starting."""


def without_past(
    responder: Callable[[Call], Awaitable[Answer]],
) -> Callable[[Call], Awaitable[Answer]]:
    """Wrap a responder that can show only the present: with `as_of=`, its answer gets a notice.

    A moment that the log lacks is refused, as by other endpoints.
    """

    @wraps(responder)
    async def answer(call: Call) -> Answer:
        if call.request.as_of is None:
            return await responder(call)
        _, notices = await call.requested_state()
        return (await responder(call)).with_notices((NO_PAST, *notices))

    return answer


async def validate(call: Call) -> Answer:
    """`PUT /connector-plugins/{plugin}/config/validate`; a long config is validated in a thread."""
    service = call.service
    context = Context(profile=call.profile, worker=service.worker, plugins=service.plugins)
    (name,) = call.names
    reading = partial(bodies.config, profile=call.profile)
    config = await service.bodies.read(reading, call.body)
    return await in_thread_if_large(
        partial(connector_plugins.validate, config, name, context), size_of_config(config)
    )


@without_past
async def show_health(call: Call) -> Answer:
    """`GET /health`: reports whether the log can be read, and written if this service writes."""
    follower, commands = call.service.follower, call.service.commands
    try:
        async with asyncio.timeout(HEALTH_S):
            await call.service.state_read.wait()
    except TimeoutError:
        return health(started=False)
    except LogError as error:
        return health(started=False, trouble=str(error))
    failure = follower.failure or (None if commands is None else await commands.trouble())
    if isinstance(failure, Fenced):
        return health(started=True, trouble=fenced_text(failure))
    return health(started=True, trouble=None if failure is None else str(failure))


_STARTING = "Worker is still starting up."
_HEALTHY = "Worker has completed startup and is ready to handle requests."
_UNHEALTHY = "Worker was unable to handle this request and may be unable to handle other requests."


def health(*, started: bool, trouble: str | None = None) -> Answer:
    """Return the health answer; `started` is True once the log was read to its end.

    `trouble` is a sentence about the current failure.
    """
    if not started:
        return _worker_status(UNAVAILABLE, "starting", _STARTING, trouble)
    if trouble is not None:
        return _worker_status(INTERNAL_ERROR, "unhealthy", _UNHEALTHY, trouble)
    return _worker_status(OK, "healthy", _HEALTHY)


def _worker_status(code: int, status: str, message: str, trouble: str | None = None) -> Answer:
    """Return `WorkerStatus`; the message ends with the current failure."""
    message = message if trouble is None else f"{message} {trouble}"
    return Answer(code, {"status": status, "message": message})


@without_past
async def show_loggers(call: Call) -> Answer:
    """`GET /admin/loggers`: the loggers of this process; 404 if they are not served."""
    return Answer(OK, _loggers(call).levels(call.profile))


@without_past
async def show_logger(call: Call) -> Answer:
    """`GET /admin/loggers/{l}`; 404 for an unknown logger, or if loggers are not served."""
    (name,) = call.names
    try:
        return Answer(OK, _loggers(call).level(name, call.profile))
    except UnknownLogger:
        raise NotFound(f"Logger {name} not found.") from None


async def change_logger(call: Call) -> Answer:
    """`PUT /admin/loggers/{l}` for this worker: no record is written."""
    call.check_present()
    (namespace,) = call.names
    loggers = _loggers(call)
    reading = partial(_requested_level, profile=call.profile)
    level = await call.service.bodies.read(reading, call.body)
    try:
        loggers.check(namespace)
    except LoggerRefused as refusal:
        raise BadRequest(str(refusal)) from None
    if call.flag("dry_run"):
        return Answer(OK, plan_json.document(Plan(()), call.profile.release))
    return Answer(OK, loggers.change(namespace, level, call.profile))


def _requested_level(body: bytes | None, profile: Profile) -> str:
    """Return the level in the body of a request, one of `logger_levels.LEVELS`.

    Raises:
        RestError: the body names no level.
    """
    level = level_named(bodies.level(body, profile), profile)
    if isinstance(level, Rejected):
        raise refused(level)
    return level


def is_for_cluster(query: Query, profile: Profile) -> bool:
    """Return True if `?scope=cluster` selects the loggers of all workers; then it is a command."""
    return profile.logger_levels and query.get("scope", [""])[0].lower() == "cluster"


def _loggers(call: Call) -> Loggers:
    """Return the loggers of this process, if they are served."""
    if call.service.loggers is None:
        raise NoSuchPath
    return call.service.loggers
