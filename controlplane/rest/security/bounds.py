"""How much one request, and all together, may take: head, body, time, and how many at once.

What no application sees – connections that send no request, or take no answer – is bounded by the
server (`controlplane.rest.server`).
"""

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controlplane.core.profiles import Profile
from controlplane.rest.errors import (
    Answer,
    BodyCutOff,
    BodyTooLarge,
    BodyTooSlow,
    HeadTooLarge,
    TargetTooLong,
    TooBusy,
)
from controlplane.rest.pages import TooLongForServer
from controlplane.rest.security.asked import Asked
from controlplane.rest.security.layer import Layer
from controlplane.rest.security.settings import HttpLimits
from controlplane.rest.wire import response

_SEPARATORS = (b",", b"[", b"{")
"""A value of a JSON document stands behind one of these, or is the whole."""

WATCH = ("watch",)
"""The path that is answered without end: those who watch are counted apart."""


class Bounds(Layer):
    """Keeps requests within the limits.

    A body that breaks one raises a `RestError` where the application reads it, so that it is
    refused in the application's own words; one that nobody reads breaks none.
    """

    def __init__(self, app: ASGIApp, limits: HttpLimits, dialect: Profile) -> None:
        super().__init__(app, dialect)
        self._limits = limits
        self._requests = _Room(limits.requests_max, "requests are answered")
        self._watches = _Room(limits.watches_max, "watch")

    async def handle(self, request: Asked, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with a body that is bounded, or refuse it."""
        too_large = _too_large(scope, self._limits.head_max_bytes)
        if too_large is not None:
            await _refuse(request, _as_worded(request, too_large), scope, receive, send)
            return
        room = self._watches if request.path == WATCH and not request.compat else self._requests
        if room.taken >= room.places:
            refusal = TooBusy(f"As many {room.whose} at once as may be ({room.places}): ask again")
            await _refuse(request, refusal.answer(), scope, receive, send)
            return
        body = _Body(_content_length(scope), self._limits, receive)
        room.taken += 1
        try:
            await self._app(scope, body.receive, body.noticing(send))
        finally:
            room.taken -= 1


class _Room:
    """How many of one kind there may be at once."""

    def __init__(self, places: int, whose: str) -> None:
        self.places = places
        self.whose = whose
        self.taken = 0


class _Body:
    """What a client sends, until it has come or been answered."""

    def __init__(self, announced: int, limits: HttpLimits, receive: Receive) -> None:
        self._announced = announced
        self._limits = limits
        self._receive = receive
        self._bytes = 0
        self._values = 1
        self._deadline: float | None = None
        self._over = False

    async def receive(self) -> Message:
        """The next part.

        Raises:
            BodyTooLarge, BodyTooSlow, BodyCutOff: there is none.
        """
        if self._over:
            return await self._receive()
        if self._announced > self._limits.body_max_bytes:
            raise self._too_large()
        message = await self._next()
        if self._values <= self._limits.body_max_values:
            return message
        while message.get("more_body"):  # a client that still sends may not hear of a refusal
            message = await self._next()
        most = self._limits.body_max_values
        raise BodyTooLarge(f"The body has more than {most} values: send them in several parts")

    async def _next(self) -> Message:
        """The next part, counted."""
        message = await self._in_time()
        if message["type"] == "http.disconnect":
            raise BodyCutOff("The body ended before its end")
        part = message.get("body", b"")
        self._bytes += len(part)
        if self._bytes > self._limits.body_max_bytes:
            raise self._too_large()
        self._values += sum(map(part.count, _SEPARATORS))
        self._over = not message.get("more_body", False)
        return message

    def noticing(self, send: Send) -> Send:
        """The same, noticing when the answer begins: what comes from then on is no body."""

        async def sending(message: Message) -> None:
            self._over = True
            await send(message)

        return sending

    async def _in_time(self) -> Message:
        if self._deadline is None:
            patience_s = self._limits.body_patience_ms / 1_000
            self._deadline = asyncio.get_running_loop().time() + patience_s
        try:
            async with asyncio.timeout_at(self._deadline):
                return await self._receive()
        except TimeoutError:
            raise BodyTooSlow(
                f"The body has not come within {self._limits.body_patience_ms} ms"
            ) from None

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"The body is larger than {self._limits.body_max_bytes} bytes")


def _too_large(scope: Scope, most: int) -> HeadTooLarge | None:
    """Why a head is refused; None: it is short enough."""
    target = len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"])
    headers = sum(len(name) + len(value) for name, value in scope["headers"])
    if target > most:
        return TargetTooLong(f"The target is longer than {most} bytes")
    if target + headers > most:
        return HeadTooLarge(f"Target and headers are longer than {most} bytes")
    return None


def _as_worded(asked_of: Asked, refusal: HeadTooLarge) -> Answer:
    """The refusal in the words of the release's server, or in ours."""
    if asked_of.profile.rest_server == "ours":
        return refusal.answer()
    request = asked_of.request
    path = request.target.partition("?")[0]
    error = TooLongForServer(asked_of.profile, refusal.status, path)
    return error.paged(request.method, request.base)


def _content_length(scope: Scope) -> int:
    """What the client says; 0 where it says nothing, and then the body is counted as it comes."""
    told: Any = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(told) if told.isdigit() else 0


async def _refuse(
    request: Asked, refusal: Answer, scope: Scope, receive: Receive, send: Send
) -> None:
    await response(refusal, request.request.method)(scope, receive, send)
