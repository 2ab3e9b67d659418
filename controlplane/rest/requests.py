"""HTTP request as the endpoints take it: raw path, dialect, `as_of`, `profile`, media types.

`http.request_reader` makes it from an ASGI scope. This module needs no web library: commands that
only look up endpoints start without one.

The prefix `/compat/{release}` selects the release that answers.
"""

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from controlplane.core.releases.profiles import Profile
from controlplane.rest.errors import (
    JSON,
    MissingMediaType,
    NotAcceptable,
    UnsupportedMediaType,
)
from controlplane.rest.http.jetty_errors import (
    BAD_URI,
    BadAccept,
    BadMessage,
    BadTarget,
    Unreadable,
)

if TYPE_CHECKING:
    from starlette.datastructures import Headers

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
    """True if the request addresses a Kafka release and no endpoint of this project."""
    base: str = ""
    """Prefix of every path in a `Location` header: scheme, host, mount, dialect."""
    origin: str | None = None
    """Scheme and authority of an absolute target."""
    state: Mapping[str, Any] = MappingProxyType({})
    """Facts from outer ASGI layers, such as the `principal` (ASGI's `state`)."""
    peer: str | None = None
    """IP address at the other end of the connection; a proxy's, if the request came through one."""

    @property
    def principal(self) -> str:
        """Name of the caller, if a layer in front has authenticated it."""
        known = self.state.get("principal")
        return known if isinstance(known, str) else ANONYMOUS


ANONYMOUS = "anonymous"
"""Principal of an unauthenticated request."""


def check_origin(request: Request, profile: Profile) -> None:
    """Refuse an absolute target as the server of a release does.

    Raises:
        BadMessage, BadTarget: the target holds a user name or contradicts the header `Host`.
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


class ExpectedMedia(Enum):
    """Rule for the `Content-Type` of a body at an endpoint."""

    JSON = "json"
    JSON_IF_TOLD = "json, if a type is told at all"
    ANYTHING = "anything"


def check_readable(request: Request, profile: Profile) -> None:
    """Refuse media types that the server of a release cannot read, whatever the path.

    Raises:
        Refused: the server answers with an error page.
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
    if request.method != "OPTIONS" and not _is_accept(accept):
        raise BadAccept(profile)


def check_media(request: Request, gives: str, *, wanted: ExpectedMedia) -> None:
    """Refuse a request by its media types before any lookup, as Connect's servers do.

    Raises:
        UnsupportedMediaType: the body is not JSON.
        NotAcceptable: the client does not accept the type `gives`.
    """
    if wanted is not ExpectedMedia.ANYTHING:
        _check_sent(request, wanted)
    if request.method != "OPTIONS" and not _takes(gives, request.headers.get("accept", "")):
        raise NotAcceptable


def as_accepted(given: str | None, headers: Mapping[str, str]) -> str | None:
    """Return the JSON type of an answer with the parameters from the client's `Accept` header."""
    if given != JSON:
        return given
    for accepted in headers.get("accept", "").split(","):
        kind, *parameters = (part.strip() for part in accepted.split(";"))
        if kind.lower() == JSON:
            return ";".join([JSON, *(one for one in parameters if not one.startswith("q="))])
    return given


def is_spelled_out(target: str, template: tuple[str, ...]) -> bool:
    """Return True if a path writes the template's fixed segments literally.

    The server does not decode them: `/%63onnectors` is another path.
    """
    path = target.partition("#")[0].partition("?")[0].removeprefix("/").split("/")
    pairs = zip(template, path, strict=False)
    return all(part in ("{}", given.partition(";")[0]) for part, given in pairs)


_WILD = ("*/*", "application/*")


_ACCEPTED = re.compile(
    r"\s*+(?:\*|[^\s/;,]++(?:/[^\s/;,]++)?)\s*+"
    r"(?:;\s*+(?:q\s*+=\s*+[01](?:\.[0-9]*+)?+\s*+|(?!q\s*+=)[^\s/;,=]++\s*+=[^;,]*+))*+"
)
"""One type of an `Accept` header, as Jersey reads it. Possessive: untrusted input cannot
backtrack."""

_MEDIA_TYPE = re.compile(r"\s*[^\s/;,]+/[^\s/;,]+\s*(;[^,]*)?")


def _check_sent(request: Request, wanted: ExpectedMedia) -> None:
    """Check the `Content-Type`, if any; a wildcard is accepted for an empty body."""
    told = request.headers.getlist("content-type")
    if not told:
        return
    if not _is_readable(told):
        raise UnsupportedMediaType
    sent = _media_type(told[0])
    if sent in _WILD:
        length = request.headers.get("content-length", "0")
        comes = length != "0" or "transfer-encoding" in request.headers
        if comes and wanted is ExpectedMedia.JSON:
            raise MissingMediaType
    elif sent != JSON:
        raise UnsupportedMediaType


def _is_readable(told: Sequence[str]) -> bool:
    """Return True if there is exactly one `Content-Type` and it is a media type."""
    return len(told) == 1 and _MEDIA_TYPE.fullmatch(told[0]) is not None


@lru_cache(maxsize=64)  # clients send few different headers
def _takes(gives: str, accept: str) -> bool:
    """Return True if an `Accept` header admits a type. Weights are ignored, even zero."""
    kind, _, own = gives.partition("/")
    admitted = {gives, f"*/{own}", f"{kind}/*", "*/*", "*"}
    wanted = {_media_type(one) for one in accept.split(",")}
    return wanted == {""} or not wanted.isdisjoint(admitted)


@lru_cache(maxsize=64)
def _is_accept(accept: str) -> bool:
    """Return True if Jersey can read an `Accept` header."""
    return all(map(_ACCEPTED.fullmatch, _listed(accept)))


def _listed(accept: str) -> list[str]:
    """Split an `Accept` header into types; an empty header gives none."""
    return accept.split(",") if accept.strip() else []


def _media_type(text: str) -> str:
    return text.partition(";")[0].strip().lower()
