"""HTTP messages in ASGI: a scope read as a `RequestInfo`, an `Answer` sent as a response.

All layers of the application share the request that the first of them has read.
"""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.core.java import json_codec
from controlplane.core.releases.profiles import Profile, UnknownRelease
from controlplane.rest.errors import UNAVAILABLE, Answer, RestError
from controlplane.rest.http.response_cache import EXTENSION, Cacheability
from controlplane.rest.requests import (
    COMPAT,
    Request,
    RequestTarget,
    parse_query,
    parse_target,
    with_zone,
)

_ORIGIN = re.compile(rb"[a-z][a-z0-9+.-]*://([^/?#]*)", re.IGNORECASE)
"""Scheme and authority of an absolute target."""


def read_request(scope: Mapping[str, Any]) -> Request:
    """Return the request of an ASGI `http` scope.

    The path stays raw, because a name may hold an encoded slash. The mount prefix is removed.
    """
    mount = scope.get("root_path", "")
    raw: bytes = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
    absolute = _ORIGIN.match(raw)
    path = raw[absolute.end() :] or b"/" if absolute else raw
    path = _below(mount, path) or b"/"
    query = scope["query_string"].decode("latin-1")
    dialect, text = _dialect(path.decode("utf-8", "replace"))
    target = text + (f"?{query}" if query else "")
    parameters = {name: values[0] for name, values in parse_query(query).items()}
    as_of = with_zone(parameters["as_of"]) if "as_of" in parameters else None
    headers = Headers(raw=list(scope["headers"]))
    host = headers.get("host", "localhost")
    client = scope.get("client")
    return Request(
        scope["method"],
        target,
        headers,
        as_of,
        parameters.get("profile", dialect),
        dialect is not None,
        f"{scope.get('scheme', 'http')}://{host}{quote(mount.rstrip('/'))}"
        f"{COMPAT if dialect else ''}{dialect or ''}",
        origin=absolute[0].decode("latin-1") if absolute else None,
        peer=client[0] if client else None,
    )


def _below(mount: str, path: bytes) -> bytes:
    """Remove the mount prefix, which ASGI decodes, from a raw path.

    The path stays whole if it does not begin with the segments of the prefix. A proxy may have
    removed them, and `/connectors` is not below `/connect`.
    """
    end = 0
    for byte in mount.rstrip("/").encode():
        width = 3 if path[end : end + 1] == b"%" else 1
        if unquote_to_bytes(path[end : end + width]) != bytes((byte,)):
            return path
        end += width
    return path[end:] if path[end : end + 1] in (b"", b"/") else path


def _dialect(path: str) -> tuple[str | None, str]:
    """Split a path into its leading release, if any, and the rest."""
    if not path.startswith(COMPAT):
        return None, path
    release, slash, rest = path.removeprefix(COMPAT).partition("/")
    return release, slash + rest or "/"


class RequestInfo(NamedTuple):
    """A request, its parsed target, and the release that answers it."""

    request: Request
    parsed: RequestTarget | RestError
    """The target, or the error by which the release's server refuses it."""
    profile: Profile
    compat: bool
    """True if the path began with `/compat/{release}`: only Connect's endpoints exist there."""
    cacheability: Cacheability | None = None
    """Permission to cache the answer, which the application may give; None: it cannot be cached."""

    @property
    def path(self) -> tuple[str, ...]:
        """Decoded path below mount and `/compat/{release}`; a refused path matches no endpoint."""
        return _NOWHERE if isinstance(self.parsed, RestError) else self.parsed.segments

    @property
    def target(self) -> RequestTarget:
        """The parsed target.

        Raises:
            RestError: the release's server refuses the target.
        """
        if isinstance(self.parsed, RestError):
            raise self.parsed
        return self.parsed


_NOWHERE = ("",)

_CACHED = "controlplane.request_info"
"""Scope key under which the parsed request is cached for all layers."""


def request_info(scope: Scope, dialect: Profile) -> RequestInfo:
    """Parse the request of a scope once. `dialect` is the default release."""
    context = scope.get("root_path", ""), dialect.release
    if _CACHED not in scope or scope[_CACHED][0] != context:
        request = read_request(scope)
        profile = _profile(request.profile, dialect)
        parsed = _parsed(request.target, profile)
        cacheability = (scope.get("extensions") or {}).get(EXTENSION)
        info = RequestInfo(request, parsed, profile, request.compat, cacheability)
        scope[_CACHED] = context, info
        return info
    cached: RequestInfo = scope[_CACHED][1]
    return cached


def _parsed(target: str, profile: Profile) -> RequestTarget | RestError:
    try:
        return parse_target(target, profile)
    except RestError as refusal:
        return refusal


def _profile(release: str | None, dialect: Profile) -> Profile:
    try:
        return dialect if release is None else Profile.of(release)
    except UnknownRelease:
        return dialect


class Layer(ABC):
    """Handles the HTTP requests to an application; other scopes pass untouched.

    `dialect` is the release that the service speaks at the root.
    """

    def __init__(self, app: ASGIApp, dialect: Profile) -> None:
        self._app = app
        self._dialect = dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an HTTP request; pass other scopes on to the application (ASGI)."""
        if scope["type"] == "http":
            await self.handle(request_info(scope, self._dialect), scope, receive, send)
        else:
            await self._app(scope, receive, send)

    @abstractmethod
    async def handle(
        self, request: RequestInfo, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer an HTTP request, or pass it on to the application."""


# --- responses ------------------------------------------------------------------------------------

RETRY_AFTER_S = 1
"""Seconds for `Retry-After` in answers with 503. At `http.connections.max` uvicorn sends its own
503, which lacks the header."""

PIECE_BYTES = 1 << 18
"""Maximum bytes of a body that are sent at once."""


def response(answer: Answer, method: str) -> Response:
    """Return the response for an answer; a `HEAD` request gets no body."""
    if answer.stream is not None and method != "HEAD":
        return _Stream(answer.stream, answer.status, _headers(answer))
    sent = _InPieces(_body(answer), answer.status, _headers(answer), media_type=None)
    if method == "HEAD":
        sent.body = b""  # the length header is set by now
    return sent


class _Stream(StreamingResponse):
    """Sends a stream until it ends or the client has left; it reads no body of the request."""

    async def listen_for_disconnect(self, receive: Receive) -> None:
        """Return once the client has left.

        Until the answer begins, `receive` raises `RestError` for an unread body over a limit. The
        loop then receives again. Once the answer has begun, `receive` is not limited.
        """
        while True:
            try:
                return await super().listen_for_disconnect(receive)
            except RestError:
                await asyncio.sleep(0)


class _InPieces(Response):
    """Sends a long body in pieces, as fast as the client reads it.

    After one large write, the event loop would copy all bytes that the client has not read yet.
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
