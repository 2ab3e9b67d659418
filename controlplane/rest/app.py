"""ASGI application: Connect's REST API over a followed log, with commands if they are configured.

The application is a plain function of scope, receive and send over one table of endpoints. It uses
no framework's router, because exact answers need three things that a router prevents:

- Connect routes on the raw path: a connector's name may hold a slash.
- Connect writes errors without `Content-Type` until a route has matched.
- Its JSON is Jackson's.

Starlette provides headers and responses. Another ASGI application can mount this one at any path.

Beneath `/compat/{release}` the application answers as that release of Kafka does. Each read
endpoint takes two query parameters that Connect does not have. `as_of=` is a moment: `config@57`, a
time, or a vector of end offsets. `profile=` is a release (`3.9.1`) or a line (`3.9`). The newest
known line answers for a line that is too new to be known. The newest known patch answers for an
unknown patch of its line. If a vector leaves topics out, the application completes it. The header
`NOTICE` reports these cases. It also reports an outage of the log, because answers may then be old.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from controlplane.core.moments import UnknownMoment
from controlplane.core.releases.profiles import NEWEST, Profile, UnknownRelease, resolve
from controlplane.event_loop import LARGE, in_thread_if_large
from controlplane.logs.log import LogError
from controlplane.notices import info_check
from controlplane.observe import Logger, silent
from controlplane.rest.endpoints.router import ListenerEndpoints, find, key_of, methods_of, route
from controlplane.rest.errors import (
    NOTICE,
    Answer,
    BodyCutOff,
    InvalidParameter,
    MissingMediaType,
    NoSuchMethod,
    NoSuchPath,
    NotReady,
    RequestFailed,
    RestError,
    allowed,
)
from controlplane.rest.http.messages import RequestInfo, request_info, response
from controlplane.rest.jetty_errors import ServerRefusal
from controlplane.rest.requests import Call, ExpectedMedia, Request, RequestTarget, as_accepted
from controlplane.rest.responders import RESPONDERS
from controlplane.rest.service import Service

__all__ = ["NOTICE", "App"]

CLIENT_LEFT = 499
"""Status logged for a request whose client left before the answer; it is never sent."""

CHARACTERS_PER_MEMBER = 100
"""Characters of heavily escaped text that take as long to encode as one JSON member."""

_LISTS = (list, tuple)

T = TypeVar("T")


class _ClientLeft(Exception):
    """The client has closed its connection: its request was cancelled, or never complete."""


class App:
    """ASGI application that answers HTTP requests about one cluster."""

    def __init__(self, service: Service, logger: Logger | None = None) -> None:
        self._service = service
        self._offering = ListenerEndpoints(
            service.endpoint_set,
            read_only=service.commands is None,
            plans=service.planner is not None,
        )
        self._logger = logger or silent()
        self._logs_requests = info_check(self._logger)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI). Raises `NotImplementedError` for scopes other than `http`."""
        if scope["type"] != "http":
            raise NotImplementedError(f"ASGI scope {scope['type']} is not supported: only http is")
        began = perf_counter()
        info = request_info(scope, self._service.dialect)
        request, cacheability = info.request, info.cacheability
        # Made before answering: a record that arrives meanwhile makes the cached answer invalid.
        is_valid = None if cacheability is None else self._validity()
        # Set by the layer that authenticates the caller, if there is one.
        principal = (scope.get("state") or {}).get("principal")
        if isinstance(principal, str):
            request = request._replace(principal=principal)
        answer = await self.answer(request, info, receive)
        encode = partial(self._encoded, answer, request)
        answer, encoded = await in_thread_if_large(encode, _members(answer.body))
        log = partial(
            self._logger.info,
            "request",
            method=request.method,
            target=request.target,
            dialect=request.profile,
            principal=request.principal,
            status=answer.status,
            bytes=len(encoded.body) if answer.stream is None else None,
        )
        if self._logs_requests():
            log(peer=request.peer, duration_ms=round((perf_counter() - began) * 1_000, 1))
        if cacheability and is_valid and answer.pure and principal is None:
            # A cache hit does not pass through here, but is logged like this request.
            cacheability.listeners.append(lambda peer: log(peer=peer, duration_ms=0.0))
            cacheability.is_valid = is_valid
        await encoded(scope, receive, send)

    def _encoded(self, answer: Answer, request: Request) -> tuple[Answer, Response]:
        """Return the answer as an HTTP response; an encoding failure becomes a 500 answer."""
        try:
            return answer, response(answer, request.method)
        except Exception as error:
            self._logger.exception("defect", target=request.target)
            failure = _defect(error)
            return failure, response(failure, request.method)

    def _validity(self) -> Callable[[], bool]:
        """Return a check that an answer is valid: no record and no failure came since this call."""
        follower, commands = self._service.follower, self._service.commands
        moves = follower.moves

        def is_valid() -> bool:
            fenced = commands is not None and commands.failure is not None
            return follower.moves == moves and follower.failure is None and not fenced

        return is_valid

    async def answer(self, request: Request, info: RequestInfo, receive: Receive) -> Answer:
        """Answer a request. Never raises: an unexpected exception is answered as Connect does."""
        answer = await self._answer_or_error(request, info, receive)
        notices = *_release_notices(request.profile), *self._log_notices()
        return answer.with_notices(notices) if notices else answer

    async def _answer_or_error(
        self, request: Request, info: RequestInfo, receive: Receive
    ) -> Answer:
        try:
            return await self._answer(request, info, receive)
        except ServerRefusal as error:
            return error.paged(request.method, request.base)
        except RestError as error:
            return error.answer()
        except LogError as error:
            return NotReady(str(error)).answer()
        except (UnknownMoment, UnknownRelease) as error:
            return InvalidParameter(str(error)).answer()
        except _ClientLeft:
            return Answer(CLIENT_LEFT, "", None)
        except Exception as error:
            self._logger.exception("defect", target=request.target)
            return _defect(error)

    async def _answer(self, request: Request, info: RequestInfo, receive: Receive) -> Answer:
        if request.profile is not None:
            Profile.of(request.profile)  # refuses an unknown release
        service, profile, target = self._service, info.profile, info.target
        try:
            methods, endpoint, names, notice = route(request, target, profile, self._offering)
        except (NoSuchPath, NoSuchMethod) as error:
            return error.answer().with_notices(self._lacking_notices(request, target))
        if endpoint is None:
            return allowed(methods_of(methods), request.headers.get("accept", ""))
        body = None
        if endpoint.reads_body:
            body = await _body_of(receive)
            has_type = "content-type" in request.headers
            if body and endpoint.expected is ExpectedMedia.JSON and not has_type:
                raise MissingMediaType
        respond = RESPONDERS[key_of(endpoint)]
        work = respond(Call(service, request, profile, names, target.query, body))
        if endpoint.reads_log:
            answer = await _unless_left(work, receive)
        else:
            answer = await work
        if notice is not None:
            answer = answer.with_notices((notice,))
        media_type = as_accepted(answer.content_type, request.headers.get("accept", ""))
        same = media_type == answer.content_type
        return answer if same else answer._replace(content_type=media_type)

    def _lacking_notices(self, request: Request, target: RequestTarget) -> tuple[str, ...]:
        """Return a notice if only the root's release lacks a request, and that release may change.

        The answer itself is a worker's.
        """
        service = self._service
        if service.dialect_origin is None or request.profile is not None:
            return ()
        try:
            offered, _ = find(target.segments, request.target, Profile.of(NEWEST))
        except NoSuchPath:
            return ()
        if request.method not in offered:
            return ()
        release = service.dialect.release
        return (f"this service answers as Connect {release}, {service.dialect_origin}",)

    def _log_notices(self) -> tuple[str, ...]:
        """Return notices about the log: commands are fenced, or the log is not followed."""
        failure = self._service.follower.failure
        fenced = self._service.commands and self._service.commands.failure
        notices = () if fenced is None else (f"commands are refused from now on: {fenced}",)
        if failure is None:
            return notices
        outage = f"the log is not followed at present, this answer may be old: {failure}"
        return (*notices, outage)


def _members(body: Any) -> int:
    """Count the members of an answer, up to `LARGE`; a long text counts as several."""
    count, waiting = 0, [body]
    for value in waiting:  # the loop also visits the values that it appends
        if isinstance(value, str):
            count += len(value) // CHARACTERS_PER_MEMBER
        elif isinstance(value, _LISTS):
            waiting += islice(value, LARGE)
        elif isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101 - dict is quick
            waiting += islice(value.values(), LARGE)
        count += 1
        if count > LARGE:
            break
    return count


def _defect(error: Exception) -> Answer:
    """Return the 500 answer for an unexpected exception, in Connect's words."""
    return RequestFailed(f"{type(error).__name__}: {error}").answer()


def _release_notices(release: str | None) -> tuple[str, ...]:
    """Return a notice if the requested release is too new to be known."""
    try:
        warning = resolve(release).warning if release is not None else None
    except UnknownRelease:
        return ()  # the answer itself reports it
    return () if warning is None else (warning,)


async def _unless_left(work: Awaitable[T], receive: Receive) -> T:
    """Await work while the client is connected; cancel it when the client leaves.

    Raises:
        _ClientLeft: the client closed its connection first.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not working.done() and leaving.result():
            raise _ClientLeft
        return await working
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(receive: Receive) -> bool:
    """Wait until the client leaves, and return True.

    Return False if the body breaks a limit first. The client is then no longer observed, and the
    request continues, because its endpoint does not read the body.
    """
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    except BodyCutOff:
        pass
    except RestError:  # the body breaks a limit
        return False
    return True


async def _body_of(receive: Receive) -> bytes | None:
    """Read a whole body; None if it is empty.

    Raises:
        _ClientLeft: the client closed its connection in the middle of the body.
    """
    parts: list[bytes] = []
    has_more = True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientLeft
        parts.append(message.get("body", b""))
        has_more = message.get("more_body", False)
    return b"".join(parts) or None
