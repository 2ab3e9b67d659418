"""An HTTP request as the endpoints take it: raw path, dialect, our own two questions, media types.

`/compat/{release}` in front of a path asks as which release to answer it.
"""

import re
from collections.abc import Mapping, MutableMapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from starlette.datastructures import Headers

from controlplane.core.profiles import Profile
from controlplane.rest.errors import (
    JSON,
    MissingMediaType,
    NotAcceptable,
    UnsupportedMediaType,
)
from controlplane.rest.pages import BAD_URI, BadAccept, BadMessage, BadTarget, Unreadable

COMPAT = "/compat/"
"""In front of a release and the path that is meant for it."""

_ORIGIN = re.compile(rb"[a-z][a-z0-9+.-]*://([^/?#]*)", re.IGNORECASE)
"""Scheme and authority of an absolute target."""

_ZONE = re.compile(r"(T[^ ]+) (\d\d:?\d\d)$")
"""A plus sign that somebody typed into a URL, where it means a space."""


class Request(NamedTuple):
    """What is asked. `target` is the raw path with its query, as it came over the wire."""

    method: str
    target: str
    headers: Headers
    as_of: str | None = None
    """The moment to answer for; None is now."""
    profile: str | None = None
    """The release to answer as; None is the one that the service was started with."""
    compat: bool = False
    """Whether it is meant for a release of Kafka's, and for nothing of ours."""
    base: str = ""
    """What stands in front of every path in a `Location`: scheme, host, mount, dialect."""
    origin: str | None = None
    """Scheme and authority of an absolute target."""
    state: Mapping[str, Any] = MappingProxyType({})
    """What those who passed the request on have found out: its `principal` (ASGI's `state`)."""
    peer: str | None = None
    """IP address at the other end of the connection; a proxy's, if the request came through one."""

    @property
    def principal(self) -> str:
        """Name of the caller, if a layer in front has authenticated it."""
        known = self.state.get("principal")
        return known if isinstance(known, str) else ANONYMOUS


ANONYMOUS = "anonymous"
"""Principal of a request that nobody has authenticated."""

_READ = "controlplane.request"
"""Where a scope keeps the request that was read in it, and beneath which mount: several look."""


def read_request(scope: MutableMapping[str, Any]) -> Request:
    """The request in an ASGI scope (`http`).

    The path is taken raw, because a name may hold an encoded slash; what the application is mounted
    under is cut off.
    """
    mount = scope.get("root_path", "")
    if _READ not in scope or scope[_READ][0] != mount:
        scope[_READ] = mount, _read(scope)
    request: Request = scope[_READ][1]
    return request._replace(state=scope.get("state") or {})


def _read(scope: Mapping[str, Any]) -> Request:
    raw: bytes = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
    absolute = _ORIGIN.match(raw)
    path = raw[absolute.end() :] or b"/" if absolute else raw
    path = path.removeprefix(scope.get("root_path", "").encode()) or b"/"
    query = scope["query_string"].decode("latin-1")
    dialect, text = _dialect(path.decode("utf-8", "replace"))
    target = text + (f"?{query}" if query else "")
    asked = {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}
    as_of = _ZONE.sub(r"\1+\2", asked["as_of"]) if "as_of" in asked else None
    headers = Headers(scope=dict(scope))
    host = headers.get("host", "localhost")
    client = scope.get("client")
    mount = scope.get("root_path", "")
    return Request(
        scope["method"],
        target,
        headers,
        as_of,
        asked.get("profile", dialect),
        dialect is not None,
        f"{scope.get('scheme', 'http')}://{host}{mount}{COMPAT if dialect else ''}{dialect or ''}",
        origin=absolute[0].decode("latin-1") if absolute else None,
        peer=client[0] if client else None,
    )


def _dialect(path: str) -> tuple[str | None, str]:
    """The release that a path names in front, and the rest of it."""
    if not path.startswith(COMPAT):
        return None, path
    release, slash, rest = path.removeprefix(COMPAT).partition("/")
    return release, slash + rest or "/"


def check_origin(request: Request, profile: Profile) -> None:
    """Refuse an absolute target as the server of a release does.

    Raises:
        BadMessage, BadTarget: it holds a user name, or another host than the header `Host`.
    """
    if request.origin is None:
        return
    scheme, _, authority = request.origin.partition("://")
    if profile.rest_server == "jetty 9":
        if "@" in authority and not profile.jetty.takes_user:
            raise BadMessage(profile, "User info in Authority")
    elif profile.rest_server == "jetty 12":
        if "@" in authority:
            raise BadTarget(profile, "Deprecated User Info", BAD_URI)
        if authority.lower() != request.headers.get("host", "").lower():
            asked = f"{scheme.lower()}://{authority}{request.target}"
            raise BadTarget(profile, "Authority!=Host", asked)


class Wanted(Enum):
    """The `Content-Type` that an endpoint wants of a body."""

    JSON = "json"
    JSON_IF_TOLD = "json, if a type is told at all"
    ANYTHING = "anything"


def check_readable(request: Request, profile: Profile) -> None:
    """Refuse media types that the server of a release cannot read, whatever the path.

    Raises:
        Refused: the server writes a page.
    """
    if profile.rest_server == "ours":
        return
    told = request.headers.getlist("content-type")
    if told and not _is_readable(told):
        path = request.target.partition("?")[0]
        if profile.rest_server == "jetty 12":
            raise BadTarget(profile, uri=path, based=True)
        raise Unreadable(profile, path)
    accept = request.headers.get("accept", "")
    if request.method != "OPTIONS" and not all(map(_ACCEPTED.fullmatch, _listed(accept))):
        raise BadAccept(profile)


def check_media(request: Request, gives: str, *, wanted: Wanted) -> None:
    """Refuse what Connect's servers refuse by its headers, before anything is looked up.

    Raises:
        UnsupportedMediaType: it comes with something that is no JSON.
        NotAcceptable: it wants an answer of another type than `gives`.
    """
    if wanted is not Wanted.ANYTHING:
        _check_sent(request, wanted)
    if request.method != "OPTIONS" and not _takes(gives, request.headers.get("accept", "")):
        raise NotAcceptable


def as_accepted(given: str | None, headers: Mapping[str, str]) -> str | None:
    """The type of an answer in JSON, with the parameters with which the asker accepts it."""
    if given != JSON:
        return given
    for accepted in headers.get("accept", "").split(","):
        kind, *parameters = (part.strip() for part in accepted.split(";"))
        if kind.lower() == JSON:
            return ";".join([JSON, *(one for one in parameters if not one.startswith("q="))])
    return given


def is_spelled_out(target: str, template: tuple[str, ...]) -> bool:
    """Whether the fixed parts of a path are written as such: `/%63onnectors` is another path."""
    path = target.partition("#")[0].partition("?")[0].removeprefix("/").split("/")
    pairs = zip(template, path, strict=False)
    return all(part in ("{}", given.partition(";")[0]) for part, given in pairs)


_WILD = ("*/*", "application/*")


_ACCEPTED = re.compile(
    r"\s*+(?:\*|[^\s/;,]++(?:/[^\s/;,]++)?)\s*+"
    r"(?:;\s*+(?:q\s*+=\s*+[01](?:\.[0-9]*+)?+\s*+|(?!q\s*+=)[^\s/;,=]++\s*+=[^;,]*+))*+"
)
"""One type of an `Accept` header, as Jersey reads it. Nothing is tried twice: strangers send it."""

_MEDIA_TYPE = re.compile(r"\s*[^\s/;,]+/[^\s/;,]+\s*(;[^,]*)?")


def _check_sent(request: Request, wanted: Wanted) -> None:
    """Look at the `Content-Type`, if any; a wildcard will do where nothing is sent."""
    told = request.headers.getlist("content-type")
    if not told:
        return
    if not _is_readable(told):
        raise UnsupportedMediaType
    sent = _media_type(told[0])
    if sent in _WILD:
        length = request.headers.get("content-length", "0")
        comes = length != "0" or "transfer-encoding" in request.headers
        if comes and wanted is Wanted.JSON:
            raise MissingMediaType
    elif sent != JSON:
        raise UnsupportedMediaType


def _is_readable(told: Sequence[str]) -> bool:
    """Whether `Content-Type` is told once, and as a media type."""
    return len(told) == 1 and _MEDIA_TYPE.fullmatch(told[0]) is not None


def _takes(gives: str, accept: str) -> bool:
    """Whether an `Accept` header admits a type. Weights are not looked at, not even zero."""
    kind, _, own = gives.partition("/")
    admitted = {gives, f"*/{own}", f"{kind}/*", "*/*", "*"}
    wanted = {_media_type(one) for one in accept.split(",")}
    return wanted == {""} or not wanted.isdisjoint(admitted)


def _listed(accept: str) -> list[str]:
    """The types of an `Accept` header; none where it is empty."""
    return accept.split(",") if accept.strip() else []


def _media_type(text: str) -> str:
    return text.partition(";")[0].strip().lower()
