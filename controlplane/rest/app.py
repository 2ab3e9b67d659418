"""The ASGI application: Connect's REST API over a log that is followed, and commands if it may.

A plain function of scope, receive and send over one table (`routes`). A framework's router would
stand in the way of exact answers: Connect routes on the raw path (a connector's name may hold a
slash), writes errors without `Content-Type` before a route has matched, and its JSON is Jackson's.
Starlette lends what does not: headers and responses. It can be mounted beneath any path of another
ASGI application.

Beneath `/compat/{release}` the same is answered as that release of Kafka does. Each reading
endpoint takes two questions of ours, which Connect's clients cannot be asking: `as_of=` (a moment:
`config@57`, a time, a vector of end offsets) and `profile=` (a release). Where a release is too new
to be known, it is answered as the newest that is, and where a vector leaves something open, it is
taken as it is meant; the header `NOTICE` says so. It also says when the log is not followed just
now, so that an answer may be old.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from controlplane.core.moments import UnknownMoment
from controlplane.core.profiles import Profile, UnknownRelease, resolve
from controlplane.event_loop import LARGE, apart
from controlplane.logs.log import LogError
from controlplane.observe import Logger, silent
from controlplane.rest import routes
from controlplane.rest.calls import Call, Service
from controlplane.rest.errors import (
    NOTICE,
    Answer,
    BadQuestion,
    Failed,
    MissingMediaType,
    NotReady,
    RestError,
    allowed,
)
from controlplane.rest.leaving import ClientLeft, unless_left
from controlplane.rest.pages import Refused
from controlplane.rest.repeating import Repeat
from controlplane.rest.requests import Request, as_accepted, read_request
from controlplane.rest.wire import response

__all__ = ["NOTICE", "App"]

CLIENT_LEFT = 499
"""Status of a request in the log whose client left before the answer; it is sent to nobody."""

TEXT_IN_A_MEMBER = 100
"""Characters of a text that take as long to encode as a member, where many are escaped."""


class App:
    """Answers requests about one cluster."""

    def __init__(self, service: Service, logger: Logger | None = None) -> None:
        self._service = service
        self._logger = logger or silent()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http":
            raise NotImplementedError(f"no {scope['type']} here: only HTTP requests are answered")
        began, moves = perf_counter(), self._service.follower.moves
        request = read_request(scope)
        given = await self.answer(request, receive)
        given, sent = await apart(partial(self._made, given, request), _parts(given.body))
        tell = partial(
            self._logger.info,
            "request",
            method=request.method,
            target=request.target,
            dialect=request.profile,
            principal=request.principal,
            status=given.status,
            bytes=len(sent.body) if given.stream is None else None,
        )
        tell(peer=request.peer, duration_ms=round((perf_counter() - began) * 1_000, 1))
        repeat = Repeat.of(scope)
        if repeat is not None and given.pure and "principal" not in request.state:
            repeat.told.append(lambda peer: tell(peer=peer, duration_ms=0.0))
            repeat.holds = self._until(moves)
        await sent(scope, receive, send)

    def _made(self, given: Answer, request: Request) -> tuple[Answer, Response]:
        """The answer as it is sent; one that cannot be written is a defect of ours, too."""
        try:
            return given, response(given, request.method)
        except Exception as error:
            self._logger.exception("defect", target=request.target)
            told = _defect(error)
            return told, response(told, request.method)

    def _until(self, moves: int) -> Callable[[], bool] | None:
        """Tells whether all is as it was when so much was known; None where that is of no use."""
        follower, commands = self._service.follower, self._service.commands

        def followed() -> bool:
            fenced = commands is not None and commands.failure is not None
            return follower.failure is None and not fenced

        return (lambda: follower.moves == moves and followed()) if followed() else None

    async def answer(self, request: Request, receive: Receive | None = None) -> Answer:
        """The answer to a request. Never raises: a defect of ours is answered as Connect does."""
        given = await self._answer_or_error(request, receive)
        return given.noticed((*_on_release(request.profile), *self._on_log()))

    async def _answer_or_error(self, request: Request, receive: Receive | None) -> Answer:
        try:
            return await self._answer(request, receive)
        except Refused as error:
            return error.paged(request.method, request.base)
        except RestError as error:
            return error.answer()
        except LogError as error:
            return NotReady(str(error)).answer()
        except (UnknownMoment, UnknownRelease) as error:
            return BadQuestion(str(error)).answer()
        except ClientLeft:
            return Answer(CLIENT_LEFT, "", None)
        except Exception as error:
            self._logger.exception("defect", target=request.target)
            return _defect(error)

    async def _answer(self, request: Request, receive: Receive | None) -> Answer:
        profile = self._service.dialect
        if request.profile is not None:
            profile = Profile.of(request.profile)
        service = self._service
        found, endpoint, names, query, notice = routes.routed(
            request,
            profile,
            part=service.part,
            read_only=service.commands is None,
            plans=service.planner is not None,
        )
        if endpoint is None:
            return allowed(routes.methods_of(found), request.headers.get("accept", ""))
        body = None
        if endpoint.reads_body and receive is not None:
            body = await _body_of(receive)
            untold = endpoint.needs_type(profile) and "content-type" not in request.headers
            if body and untold:
                raise MissingMediaType
        work = endpoint.answer(Call(self._service, request, profile, names, query, body))
        if endpoint.reads_log and receive is not None:
            given = await unless_left(work, receive)
        else:
            given = await work
        given = given.noticed(() if notice is None else (notice,))
        return given._replace(content_type=as_accepted(given.content_type, request.headers))

    def _on_log(self) -> tuple[str, ...]:
        """What is to be said about the log: that it is not followed just now."""
        failure = self._service.follower.failure
        fenced = self._service.commands and self._service.commands.failure
        told = () if fenced is None else (f"no command is carried out here any more: {fenced}",)
        if failure is None:
            return told
        known = f"the log is not followed just now, this is what was known before: {failure}"
        return (*told, known)


def _parts(body: Any) -> int:
    """Number of members of an answer, as far as they are worth counting; long texts are several."""
    count, waiting = 0, [body]
    for value in waiting:
        if isinstance(value, Mapping):
            waiting += islice(value.values(), LARGE)
        elif isinstance(value, list | tuple):
            waiting += islice(value, LARGE)
        elif isinstance(value, str):
            count += len(value) // TEXT_IN_A_MEMBER
        count += 1
        if count > LARGE:
            break
    return count


def _defect(error: Exception) -> Answer:
    """A defect of ours is told as Connect tells its own."""
    return Failed(f"{type(error).__name__}: {error}").answer()


def _on_release(release: str | None) -> tuple[str, ...]:
    """What is to be said about a release that is asked for: that it is too new to be known."""
    try:
        warning = resolve(release).warning if release is not None else None
    except UnknownRelease:
        return ()  # the answer says so itself
    return () if warning is None else (warning,)


async def _body_of(receive: Receive) -> bytes | None:
    """All of a body; None where there is none."""
    parts: list[bytes] = []
    more = True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts) or None
