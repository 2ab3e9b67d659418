"""Limits of the load, per request and in total: head, body, time and concurrency.

The server (`controlplane.rest.http.server`) bounds what no application sees: connections that send
no request, and clients that read no answer.
"""

import asyncio
from contextlib import suppress
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controlplane.core.releases.profiles import Profile
from controlplane.rest.errors import (
    Answer,
    BodyCutOff,
    BodyTooLarge,
    BodyTooSlow,
    HeadTooLarge,
    TargetTooLong,
    TooBusy,
)
from controlplane.rest.http.limits import HttpLimits
from controlplane.rest.http.messages import Layer, RequestInfo, response
from controlplane.rest.jetty_errors import TooLongForServer

_SEPARATORS = (b",", b"[", b"{")
"""Bytes that precede each value of a JSON document, unless the value is the whole document."""

WATCH = ("watch",)
"""Path with endless answers: watchers have their own limit."""


class LoadLimiter(Layer):
    """Enforces the limits.

    A body over its limit raises a `RestError` where the application reads it, so the application
    words the refusal. A body that is never read breaks no limit.
    """

    def __init__(self, app: ASGIApp, limits: HttpLimits, dialect: Profile) -> None:
        super().__init__(app, dialect)
        self._limits = limits
        self._requests = _Quota(limits.requests_max, "concurrent requests")
        self._watches = _Quota(limits.watches_max, "concurrent watches")

    async def handle(
        self, request: RequestInfo, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Pass a request on with a bounded body, or refuse it."""
        too_large = _too_large(scope, self._limits.head_max_bytes)
        if too_large is not None:
            await _refuse(request, _head_answer(request, too_large), scope, receive, send)
            return
        is_watch = request.path == WATCH and not request.compat
        quota = self._watches if is_watch else self._requests
        if quota.taken >= quota.limit:
            refusal = TooBusy(
                f"The limit of {quota.limit} {quota.kind} is reached: try again later"
            )
            await _refuse(request, refusal.answer(), scope, receive, send)
            return
        body = _Body(scope, self._limits, receive)
        # No `await` lies between the check and this line, so the limit cannot be exceeded.
        quota.taken += 1
        try:
            await self._app(scope, body.receive, body.until_answered(send))
        finally:
            quota.taken -= 1


class _Quota:
    """Counter of concurrent requests of one kind, with its limit."""

    def __init__(self, limit: int, kind: str) -> None:
        self.limit = limit
        self.kind = kind
        self.taken = 0


class _Body:
    """Request body, until it is complete or the answer has begun."""

    def __init__(self, scope: Scope, limits: HttpLimits, receive: Receive) -> None:
        self._announced = _content_length(scope)
        self._is_coming = not any(name == b"expect" for name, _ in scope["headers"])
        """False if the client waits for `100 Continue` before it sends the body."""
        self._limits = limits
        self._receive = receive
        self._bytes = 0
        self._values = 1  # no separator precedes the document itself
        self._deadline: float | None = None
        self._over = False
        """True once the body is complete or the answer has begun: `receive` then counts nothing."""

    async def receive(self) -> Message:
        """Return the next part.

        Raises:
            BodyTooLarge, BodyTooSlow, BodyCutOff: the body broke a limit or ended early.
        """
        if self._over:
            return await self._receive()
        if self._announced > self._limits.body_max_bytes:
            if self._is_coming:
                await self._discard_rest()
            raise self._too_large()
        message = await self._next()
        if self._values <= self._limits.body_max_values:
            return message
        # Read the rest first: a client that still sends may not read the refusal.
        while message.get("more_body"):
            message = await self._next()
        most = self._limits.body_max_values
        raise BodyTooLarge(f"The body has more than {most} values: send them in several parts")

    async def _next(self) -> Message:
        """Return the next part, and count it."""
        message = await self._in_time()
        if message["type"] == "http.disconnect":
            raise BodyCutOff("The client disconnected before the end of the body")
        part = message.get("body", b"")
        self._bytes += len(part)
        if self._bytes > self._limits.body_max_bytes:
            if message.get("more_body"):
                await self._discard_rest()
            raise self._too_large()
        self._values += sum(map(part.count, _SEPARATORS))
        self._over = not message.get("more_body", False)
        return message

    async def _discard_rest(self) -> None:
        """Read and drop what the client still sends, within the limits of bytes and time."""
        left = self._limits.body_discarded_bytes
        with suppress(BodyTooSlow):
            while left > 0:
                message = await self._in_time()
                left -= len(message.get("body", b""))
                if not message.get("more_body"):
                    return

    def until_answered(self, send: Send) -> Send:
        """Wrap `send` to note the start of the answer; messages received later are not counted."""

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
                f"The body did not arrive within {self._limits.body_patience_ms} ms"
            ) from None

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"The body is larger than {self._limits.body_max_bytes} bytes")


def _too_large(scope: Scope, most: int) -> HeadTooLarge | None:
    """Return the error for a head over its limit; None if the head is short enough."""
    target = len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"])
    headers = sum(len(name) + len(value) for name, value in scope["headers"])
    if target > most:
        return TargetTooLong(f"The target is longer than {most} bytes")
    if target + headers > most:
        return HeadTooLarge(f"Target and headers are longer than {most} bytes")
    return None


def _head_answer(info: RequestInfo, refusal: HeadTooLarge) -> Answer:
    """Return the refusal in the words of the release's server, or in this project's."""
    if info.profile.rest_server == "ours":
        return refusal.answer()
    request = info.request
    path = request.target.partition("?")[0]
    error = TooLongForServer(info.profile, refusal.status, path)
    return error.paged(request.method, request.base)


def _content_length(scope: Scope) -> int:
    """Return the announced body length; 0 if there is none: the body is then counted on arrival."""
    length: Any = next(
        (value for name, value in scope["headers"] if name == b"content-length"), b""
    )
    return int(length) if length.isdigit() else 0


async def _refuse(
    request: RequestInfo, refusal: Answer, scope: Scope, receive: Receive, send: Send
) -> None:
    await response(refusal, request.request.method)(scope, receive, send)
