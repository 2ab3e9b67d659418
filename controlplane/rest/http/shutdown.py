"""Shutdown of a server: requests that are cut short get an answer, and the log no traceback."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controlplane.rest.errors import ShuttingDown
from controlplane.rest.http.request_reader import read_request
from controlplane.rest.http.wire import response


class Ending:
    """Answers cancelled requests in Connect's words; the server cancels them at its timeout."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        started = ended = False

        async def sending(message: Message) -> None:
            nonlocal started, ended
            started = True
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:
            if not started:
                refusal = ShuttingDown(compat=read_request(scope).compat)
                await response(refusal.answer(), scope["method"])(scope, receive, send)
            elif not ended:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
