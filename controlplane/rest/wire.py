"""An `Answer` as it goes over the wire."""

from collections.abc import Mapping

from starlette.responses import Response, StreamingResponse

from controlplane.core import javajson
from controlplane.rest.errors import UNAVAILABLE, Answer

RETRY_AFTER_S = 1
"""When to ask again while the log cannot be read: it is tried again as often (`Follower`)."""


def response(given: Answer, method: str) -> Response:
    """What is sent for an answer; without its body where only the head was asked for."""
    if given.stream is not None and method != "HEAD":
        return StreamingResponse(given.stream, given.status, _headers(given))
    made = Response(_body(given), given.status, _headers(given), media_type=None)
    if method == "HEAD":
        made.body = b""  # after the length has been said
    return made


def _body(given: Answer) -> bytes:
    if isinstance(given.body, str):
        return given.body.encode("latin-1", "replace")
    return javajson.encode(given.body)


def _headers(given: Answer) -> Mapping[str, str]:
    headers = {"server": "controlplane"}
    if given.content_type is not None:
        headers["content-type"] = given.content_type
    if given.status == UNAVAILABLE:
        headers["retry-after"] = str(RETRY_AFTER_S)
    return {**headers, **given.headers}
