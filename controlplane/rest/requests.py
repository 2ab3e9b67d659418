"""HTTP request as the endpoints take it: raw and parsed target, release, moment, media types.

`http.messages` makes it from an ASGI scope. This module needs no web library: commands that
only look up endpoints start without one.

The prefix `/compat/{release}` selects the release that answers.
"""

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, unquote

from controlplane.core.releases.profiles import Profile
from controlplane.rest.errors import (
    JSON,
    InvalidParameter,
    MissingMediaType,
    NoSuchPath,
    NotAcceptable,
    UnsupportedMediaType,
)
from controlplane.rest.jetty_errors import (
    BAD_URI,
    BadAccept,
    BadMessage,
    BadTarget,
    UnreadableRequest,
)
from controlplane.rest.target_refusals import check_path

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from controlplane.projection.past_states import PastState
    from controlplane.rest.service import Service

ANONYMOUS = "anonymous"
"""Principal of an unauthenticated request."""

COMPAT = "/compat/"
"""Path prefix that is followed by a release and that release's path."""


class Request(NamedTuple):
    """An HTTP request. `target` is the raw path with its query, as received."""

    method: str
    target: str
    headers: "Headers"
    as_of: str | None = None
    """The moment to answer for; None is now."""
    profile: str | None = None
    """The release to answer as; None is the service's own."""
    compat: bool = False
    """True if the path began with `/compat/{release}`: only Connect's endpoints exist there."""
    base: str = ""
    """Prefix of a path in `Location`: scheme, host, mount, and `/compat/{release}` if requested."""
    origin: str | None = None
    """Scheme and authority of an absolute target."""
    principal: str = ANONYMOUS
    """Name of the caller, if a layer in front has authenticated it."""
    peer: str | None = None
    """IP address at the other end of the connection; a proxy's, if the request came through one."""


# --- the parsed target ----------------------------------------------------------------------------

Query = Mapping[str, Sequence[str]]
"""Values of each parameter of a query."""


class RequestTarget(NamedTuple):
    """A parsed path and query. `segments` are decoded, `query` keeps every value."""

    segments: tuple[str, ...]
    query: Query


def parse_target(raw: str, profile: Profile) -> RequestTarget:
    """Parse a raw request target.

    Raises:
        ServerRefusal: this release's server refuses the target.
        BadRequest: this project refuses it.
        NoSuchPath: it has an empty segment.
    """
    path, _, text = raw.partition("#")[0].partition("?")
    query = parse_query(text)
    if _PLAIN.fullmatch(path):
        return RequestTarget(tuple(path[1:].split("/")), query)
    check_path(path, profile)
    # Matrix parameters are dropped from any segment, a trailing slash is accepted everywhere.
    parts = [part.partition(";")[0] for part in path.removeprefix("/").split("/")]
    if parts[-1] == "":
        parts.pop()
    if "" in parts:
        raise NoSuchPath
    return RequestTarget(tuple(map(_decoded, parts)), query)


@lru_cache(maxsize=64)  # each request parses its query twice: for its release, and as its target
def parse_query(text: str) -> Query:
    """Return all values of each parameter of a query."""
    return parse_qs(text, keep_blank_values=True)


_PLAIN = re.compile(r"(?:/[A-Za-z0-9_-][A-Za-z0-9._~-]*+)++")
"""Paths without escapes, parameters or dot segments: every server reads them alike."""


_ENCODED_SURROGATE = re.compile(r"%ED%[AB][0-9A-F]%[89AB][0-9A-F]", re.IGNORECASE)


def _decoded(part: str) -> str:
    """Decode a segment; an encoded lone surrogate becomes one replacement character, as in Java."""
    return unquote(_ENCODED_SURROGATE.sub("%EF%BF%BD", part))


_ZONE = re.compile(r"(T[^ T]++) (\d\d:?\d\d)$")
"""Time whose zone lost its plus sign: in a URL, `+` means a space. A match attempt ends at the next
T, so the search takes linear time."""


def with_zone(moment: str) -> str:
    """Return a moment of a query with the plus sign of its zone, also if it was not escaped."""
    return _ZONE.sub(r"\1+\2", moment)


def matrix_names(raw: str) -> list[str]:
    """Return the names of a raw target's matrix parameters (`/stop;a=b`), which Connect ignores."""
    path = raw.partition("#")[0].partition("?")[0]
    matrix = [parameter for part in path.split("/") for parameter in part.split(";")[1:]]
    return [unquote(parameter.partition("=")[0]) for parameter in matrix if parameter]


# --- a routed request -----------------------------------------------------------------------------

PAST_STAYS = "as_of= asks for the past, which cannot be changed: leave as_of= out"

_FLAGS = {"true": True, "false": False}


class Call(NamedTuple):
    """A routed request with everything that its endpoint needs."""

    service: "Service"
    request: Request
    profile: Profile
    """The release that answers."""
    names: tuple[str, ...]
    """Decoded variable segments of the path."""
    query: Query
    body: bytes | None = None

    def parameter(self, name: str) -> str | None:
        """Return the first value of a query parameter."""
        return self.query[name][0] if name in self.query else None

    def moment(self, name: str) -> str | None:
        """Return the first value of a query parameter that is a moment or a time."""
        text = self.parameter(name)
        return None if text is None else with_zone(text)

    def flag(self, name: str) -> bool:
        """Return True if a boolean query parameter of this project is true.

        Raises:
            InvalidParameter: the value is not a boolean; the command is then not run.
        """
        value = self.parameter(name)
        if value is None:
            return False
        if value.lower() not in _FLAGS:
            raise InvalidParameter(
                f"{name}={value} is neither true nor false: nothing has been done"
            )
        return _FLAGS[value.lower()]

    def check_present(self, refusal: str = PAST_STAYS) -> None:
        """Refuse `as_of=`: the past cannot be changed, or it is not in this log.

        Raises:
            InvalidParameter: the request has `as_of=`.
        """
        if self.request.as_of is not None:
            raise InvalidParameter(refusal)

    async def requested_state(self) -> "PastState":
        """Return the state at the requested moment."""
        return await self.service.state_at(self.request.as_of, self.profile)

    @property
    def key(self) -> str | None:
        """Idempotency key of the command (`Idempotency-Key`).

        Raises:
            InvalidParameter: the key is empty; all clients without a key would share it.
        """
        key = self.request.headers.get("idempotency-key")
        if key == "":
            raise InvalidParameter("Idempotency-Key is empty: leave it out, or use a new key")
        return key


# --- media types ----------------------------------------------------------------------------------


def check_head(request: Request, profile: Profile) -> None:
    """Refuse an absolute target or a media type that a release's server refuses for every path.

    Raises:
        ServerRefusal: the target holds a user name or contradicts the header `Host`, or the server
            cannot read a media type.
    """
    if request.origin is not None:
        _check_origin(request, request.origin, profile)
    if profile.rest_server != "ours":
        _check_readable(request, profile)


def _check_origin(request: Request, origin: str, profile: Profile) -> None:
    scheme, _, authority = origin.partition("://")
    if profile.rest_server == "jetty 9":
        if "@" in authority and not profile.jetty.takes_user:
            raise BadMessage(profile, "User info in Authority")
    elif profile.rest_server == "jetty 12":
        if "@" in authority:
            raise BadTarget(profile, "Deprecated User Info", BAD_URI)
        if authority.lower() != request.headers.get("host", "").lower():
            uri = f"{scheme.lower()}://{authority}{request.target}"
            raise BadTarget(profile, "Authority!=Host", uri)


def _check_readable(request: Request, profile: Profile) -> None:
    types = request.headers.getlist("content-type")
    if types and not _is_readable(types):
        path = request.target.partition("?")[0]
        if profile.rest_server == "jetty 12":
            raise BadTarget(profile, uri=path, based=True)
        raise UnreadableRequest(profile, path)
    accept = request.headers.get("accept", "")
    if request.method != "OPTIONS" and not _is_accept(accept):
        raise BadAccept(profile)


class ExpectedMedia(Enum):
    """Rule for the `Content-Type` of a body at an endpoint."""

    JSON = "json"
    JSON_IF_SENT = "json, if a type is sent at all"
    ANYTHING = "anything"


def check_media(request: Request, answer_type: str, *, expected: ExpectedMedia) -> None:
    """Refuse a request by its media types before any lookup, as Connect's servers do.

    Raises:
        UnsupportedMediaType: the body is not JSON.
        NotAcceptable: the client does not accept the type of the answer.
    """
    if expected is not ExpectedMedia.ANYTHING:
        _check_sent(request, expected)
    if request.method != "OPTIONS" and not _admits(request.headers.get("accept", ""), answer_type):
        raise NotAcceptable


@lru_cache(maxsize=64)  # clients send few different headers
def as_accepted(media_type: str | None, accept: str) -> str | None:
    """Return the type of an answer; JSON gets the parameters from the client's `Accept` header."""
    if media_type != JSON:
        return media_type
    for accepted in accept.split(","):
        kind, *parameters = (part.strip() for part in accepted.split(";"))
        if kind.lower() == JSON:
            return ";".join([JSON, *(text for text in parameters if not text.startswith("q="))])
    return media_type


def is_literal(target: str, template: tuple[str, ...]) -> bool:
    """Return True if a path writes the template's fixed segments literally.

    The server does not decode them: `/%63onnectors` is another path.
    """
    path = target.partition("#")[0].partition("?")[0]
    if "%" not in path:
        return True
    pairs = zip(template, path.removeprefix("/").split("/"), strict=False)
    return all(part in ("{}", segment.partition(";")[0]) for part, segment in pairs)


_WILD = ("*/*", "application/*")


_ACCEPTED = re.compile(
    r"\s*+(?:\*|[^\s/;,]++(?:/[^\s/;,]++)?)\s*+"
    r"(?:;\s*+(?:q\s*+=\s*+[01](?:\.[0-9]*+)?+\s*+|(?!q\s*+=)[^\s/;,=]++\s*+=[^;,]*+))*+"
)
"""One type of an `Accept` header, as Jersey reads it. The quantifiers are possessive, so that
untrusted input causes no backtracking."""

_MEDIA_TYPE = re.compile(r"\s*[^\s/;,]+/[^\s/;,]+\s*(;[^,]*)?")


def _check_sent(request: Request, expected: ExpectedMedia) -> None:
    """Check the `Content-Type`, if any. A wildcard is refused only for a body that needs a type."""
    types = request.headers.getlist("content-type")
    if not types:
        return
    if not _is_readable(types):
        raise UnsupportedMediaType
    sent = _media_type(types[0])
    if sent in _WILD:
        length = request.headers.get("content-length", "0")
        has_body = length != "0" or "transfer-encoding" in request.headers
        if has_body and expected is ExpectedMedia.JSON:
            raise MissingMediaType
    elif sent != JSON:
        raise UnsupportedMediaType


def _is_readable(types: Sequence[str]) -> bool:
    """Return True if there is exactly one `Content-Type` and it is a media type."""
    return len(types) == 1 and _MEDIA_TYPE.fullmatch(types[0]) is not None


@lru_cache(maxsize=64)
def _admits(accept: str, media_type: str) -> bool:
    """Return True if an `Accept` header admits a type. Weights are ignored, even zero."""
    kind, _, subtype = media_type.partition("/")
    patterns = {media_type, f"*/{subtype}", f"{kind}/*", "*/*", "*"}
    accepted = {_media_type(text) for text in accept.split(",")}
    return accepted == {""} or not accepted.isdisjoint(patterns)


@lru_cache(maxsize=64)
def _is_accept(accept: str) -> bool:
    """Return True if Jersey can read an `Accept` header."""
    return all(map(_ACCEPTED.fullmatch, _listed(accept)))


def _listed(accept: str) -> list[str]:
    """Split an `Accept` header into types; an empty header gives none."""
    return accept.split(",") if accept.strip() else []


def _media_type(text: str) -> str:
    return text.partition(";")[0].strip().lower()
