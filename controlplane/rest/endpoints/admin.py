"""Endpoints about the worker itself: validation, health, loggers.

No log holds their data, so they have no past. A request for a past moment gets the present answer
with a notice.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any

from controlplane.core.commands import size_of_config
from controlplane.core.context import Context
from controlplane.core.plan import Plan
from controlplane.event_loop import apart
from controlplane.logger_levels import Loggers, UnknownLogger
from controlplane.logs.log import LogError
from controlplane.rest import bodies
from controlplane.rest.endpoints import connector_plugins, loggers, plan_json
from controlplane.rest.endpoints.health import health
from controlplane.rest.errors import OK, Answer, NoSuchPath, NotFound
from controlplane.rest.service import Call

NO_PAST = "as_of= changes nothing here: what lies in no log is told as it is now"

HEALTH_S = 10
"""Time limit of the health check."""


def of_now(answering: Callable[[Call], Awaitable[Answer]]) -> Callable[[Call], Awaitable[Answer]]:
    """Wrap a responder that has no past. A moment that the log lacks is refused here, too."""

    @wraps(answering)
    async def answer(call: Call) -> Answer:
        if call.request.as_of is None:
            return await answering(call)
        _, notices = await call.then()
        return (await answering(call)).noticed((NO_PAST, *notices))

    return answer


async def validate(call: Call) -> Answer:
    """`PUT /connector-plugins/{plugin}/config/validate`."""
    service = call.service
    context = Context(profile=call.profile, worker=service.worker, plugins=service.plugins)
    (name,) = call.names
    reading = partial(bodies.config, profile=call.profile)
    config = await service.bodies.read(reading, call.body)
    return await apart(
        partial(connector_plugins.validate, config, name, context), size_of_config(config)
    )


@of_now
async def show_health(call: Call) -> Answer:
    """`GET /health`: reports whether the log can be read, and written if this service writes."""
    follower, commands = call.service.follower, call.service.commands
    # The read continues after a timeout: a long log is not read anew for each request.
    reading = asyncio.ensure_future(follower.state(call.service.dialect))
    reading.add_done_callback(_heard)
    try:
        async with asyncio.timeout(HEALTH_S):
            await asyncio.shield(reading)
    except TimeoutError:
        return health(started=False)
    except LogError as error:
        return health(started=False, trouble=str(error))
    failure = follower.failure or (None if commands is None else await commands.trouble())
    return health(started=True, trouble=None if failure is None else str(failure))


def _heard(reading: "asyncio.Future[Any]") -> None:
    """Consume the error of an abandoned read; the next request reports it."""
    if not reading.cancelled():
        reading.exception()


@of_now
async def show_loggers(call: Call) -> Answer:
    """`GET /admin/loggers`."""
    return Answer(OK, _loggers(call).levels(call.profile))


@of_now
async def show_logger(call: Call) -> Answer:
    """`GET /admin/loggers/{l}`."""
    (name,) = call.names
    try:
        return Answer(OK, _loggers(call).level(name, call.profile))
    except UnknownLogger:
        raise NotFound(f"Logger {name} not found.") from None


async def change_logger(call: Call) -> Answer:
    """`PUT /admin/loggers/{l}` for this worker: no record is written."""
    call.check_present()
    (namespace,) = call.names
    known, level = _loggers(call), await _level(call)
    if call.flag("dry_run"):
        return Answer(OK, plan_json.shown(Plan(()), call.profile.release))
    return Answer(OK, known.change(namespace, level, call.profile))


async def _level(call: Call) -> str:
    reading = partial(loggers.wanted, profile=call.profile)
    return await call.service.bodies.read(reading, call.body)


def _loggers(call: Call) -> Loggers:
    """Return the loggers of this process, if they are served."""
    if call.service.loggers is None:
        raise NoSuchPath
    return call.service.loggers
