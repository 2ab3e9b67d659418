"""Stand-in for a worker: it serves prepared answers over a socket."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from controlplane.rest.http.server import listen, serving, url_of

ROOT = {"version": "3.9.1", "commit": "x"}

JETTY = "Jetty(9.4.57)"
"""Value of the header by which a worker's server names itself."""


class PreparedAnswer(msgspec.Struct, frozen=True):
    """Answer of the stand-in to a path."""

    status: int
    body: Any
    is_page: bool = False
    """True for an HTML page, as Jetty or a proxy sends it."""
    server: str = JETTY


class StandIn:
    """Answers each path with its prepared answers, one after the other; the last one stays."""

    def __init__(self, answers: Mapping[str, list[PreparedAnswer]]) -> None:
        self.requested_paths: list[str] = []
        self._answers = {"/": [PreparedAnswer(200, ROOT)], **answers}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the next answer for the path; unknown paths get 404."""
        del receive
        path = scope["raw_path"].decode()
        self.requested_paths.append(path)
        prepared = self._answers.get(path, [PreparedAnswer(404, {"error_code": 404})])
        answer = prepared.pop(0) if len(prepared) > 1 else prepared[0]
        kind = b"text/html" if answer.is_page else b"application/json"
        body = answer.body.encode() if answer.is_page else msgspec.json.encode(answer.body)
        headers = [(b"content-type", kind), (b"server", answer.server.encode())]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def standing_in(answers: Mapping[str, list[PreparedAnswer]]) -> AsyncIterator[str]:
    """Run a stand-in within the block; yield its URL."""
    async with serving(StandIn(answers), listening := listen("127.0.0.1", 0)):
        yield url_of(listening)
