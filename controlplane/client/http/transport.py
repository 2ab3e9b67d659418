"""httpx transport to an ASGI application in this process, with streamed answers.

The transport of httpx waits for the end of an answer, and `/watch` never ends.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable

import httpx
from starlette.types import ASGIApp, Message, Scope


class AppTransport(httpx.AsyncBaseTransport):
    """Sends requests to an application; `principal` is the caller."""

    def __init__(self, app: ASGIApp, principal: str) -> None:
        self._app = app
        self._principal = principal

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; return as soon as the head of the answer is complete."""
        exchange = _AppExchange(await request.aread())
        call = self._app(self._scope(request), exchange.receive, exchange.send)
        task = asyncio.ensure_future(_with_end(call, exchange))
        stream = _AnswerStream(exchange, task)
        try:
            head = await exchange.sent.get()
        except asyncio.CancelledError:  # the caller gets no stream that it could close
            await stream.aclose()
            raise
        if head is None:
            await task  # raises the application's error
            raise httpx.RemoteProtocolError("the application ended without an answer")
        return httpx.Response(head["status"], headers=head["headers"], stream=stream)

    def _scope(self, request: httpx.Request) -> Scope:
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": request.url.scheme,
            "path": request.url.path,
            "raw_path": request.url.raw_path.partition(b"?")[0],
            "query_string": request.url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "server": (request.url.host, request.url.port),
            "client": None,
            "state": {"principal": self._principal},
        }


class _AppExchange:
    """Messages between client and application for one request."""

    def __init__(self, body: bytes) -> None:
        self.sent: asyncio.Queue[Message | None] = asyncio.Queue()
        self.left = asyncio.Event()
        self._body: bytes | None = body

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await self.sent.put(message)


async def _with_end(call: Awaitable[None], exchange: _AppExchange) -> None:
    """Run the application, then mark the end of its messages with None."""
    try:
        await call
    finally:
        exchange.sent.put_nowait(None)


class _AnswerStream(httpx.AsyncByteStream):
    """Body of an answer, chunk by chunk."""

    def __init__(self, exchange: _AppExchange, task: "asyncio.Future[None]") -> None:
        self._exchange = exchange
        self._task = task

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (message := await self._exchange.sent.get()) is not None:
            yield message.get("body", b"")
            if not message.get("more_body", False):
                return
        await self._task  # raises the application's error
        raise httpx.RemoteProtocolError("the application ended within an answer")

    async def aclose(self) -> None:
        self._exchange.left.set()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
