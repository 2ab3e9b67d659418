"""HTTP responses of `Answer` values: encoded bodies, headers, long bodies in pieces."""

from collections.abc import Mapping

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from controlplane.core.java import json_codec
from controlplane.rest.errors import UNAVAILABLE, Answer

RETRY_AFTER_S = 1
"""Seconds for `Retry-After` while the log cannot be read; `Follower` retries as often."""

PIECE_BYTES = 1 << 18
"""Maximum bytes of a body that are sent at once."""


def response(answer: Answer, method: str) -> Response:
    """Return the response for an answer; a `HEAD` request gets no body."""
    if answer.stream is not None and method != "HEAD":
        return StreamingResponse(answer.stream, answer.status, _headers(answer))
    sent = _InPieces(_body(answer), answer.status, _headers(answer), media_type=None)
    if method == "HEAD":
        sent.body = b""  # the length header is set by now
    return sent


class _InPieces(Response):
    """Sends a long body in pieces, as fast as the client reads it.

    The event loop would copy all bytes that the client has not read yet.
    """

    async def __call__(self, _: Scope, __: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        for at in range(0, len(self.body) or 1, PIECE_BYTES):
            piece, has_more = self.body[at : at + PIECE_BYTES], len(self.body) - at > PIECE_BYTES
            await send({"type": "http.response.body", "body": piece, "more_body": has_more})


def _body(answer: Answer) -> bytes:
    if isinstance(answer.body, str):
        return answer.body.encode("latin-1", "replace")
    if isinstance(answer.body, bytes):
        return answer.body
    return json_codec.encode(answer.body)


def _headers(answer: Answer) -> Mapping[str, str]:
    headers = {"server": "controlplane"}
    if answer.content_type is not None:
        headers["content-type"] = answer.content_type
    if answer.status == UNAVAILABLE:
        headers["retry-after"] = str(RETRY_AFTER_S)
    return {**headers, **answer.headers}
