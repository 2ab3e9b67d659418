"""An HTTP request as the read endpoints take it: raw path, our own two questions, media types.

What Connect's servers check before a resource is asked lies here, in their order: path, method,
`Content-Type`, `Accept`.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from starlette.datastructures import Headers

from controlplane.core.profiles import Profile
from controlplane.rest.errors import NoSuchMethod, NoSuchPath, NotAcceptable, UnsupportedMediaType
from controlplane.rest.paths import parse_target
from controlplane.rest.reads import Route, find
from controlplane.rest.writes import methods

METHODS = ("HEAD", "GET", "OPTIONS")
"""What a read endpoint can be asked by."""

_ORIGIN = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)

_ZONE = re.compile(r"(T[^ ]+) (\d\d:?\d\d)$")
"""A plus sign that somebody typed into a URL, where it means a space."""


class Request(NamedTuple):
    """What is asked. `target` is the raw path with its query, as it came over the wire."""

    method: str
    target: str
    headers: Mapping[str, str]
    as_of: str | None = None
    """The moment to answer for; None is now."""
    profile: str | None = None
    """The release to answer as; None is the one that the service was started with."""


def read_request(scope: Mapping[str, Any]) -> Request:
    """The request in an ASGI scope (`http`).

    The path is taken raw, because a name may hold an encoded slash; what the application is mounted
    under is cut off.
    """
    raw: bytes = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
    path = _ORIGIN.sub(b"", raw, count=1) if not raw.startswith(b"/") else raw
    path = path.removeprefix(scope.get("root_path", "").encode()) or b"/"
    query = scope["query_string"].decode("latin-1")
    target = path.decode("utf-8", "replace") + (f"?{query}" if query else "")
    asked = {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}
    as_of = _ZONE.sub(r"\1+\2", asked["as_of"]) if "as_of" in asked else None
    return Request(scope["method"], target, Headers(scope=dict(scope)), as_of, asked.get("profile"))


def check(request: Request, profile: Profile) -> None:
    """Refuse what this release's server refuses before anything is looked up.

    Raises:
        BadTarget: it has no such paths.
        NoSuchPath: it has no such endpoint.
        NoSuchMethod: the endpoint cannot be asked so.
        UnsupportedMediaType: it comes with something that is no JSON.
        NotAcceptable: it wants an answer that is no JSON.
    """
    route = _route(parse_target(request.target, profile).segments, profile)
    if not _is_spelled_out(request.target, route):
        raise NoSuchPath
    if request.method not in METHODS:
        raise NoSuchMethod
    if route.template and not _sends_json(request.headers):
        raise UnsupportedMediaType
    if request.method != "OPTIONS" and not _takes_json(request.headers.get("accept", "")):
        raise NotAcceptable


def _route(path: tuple[str, ...], profile: Profile) -> Route:
    """What reads a path. One by which something can only be changed is a path all the same."""
    try:
        return find(path, profile)
    except NoSuchPath:
        if methods(path, profile):
            raise NoSuchMethod from None
        raise


def _is_spelled_out(target: str, route: Route) -> bool:
    """Whether the fixed parts of a path are written as such: `/%63onnectors` is another path."""
    path = target.partition("?")[0].removeprefix("/").split("/")
    pairs = zip(route.template, path, strict=False)
    return all(part in ("{}", given.partition(";")[0]) for part, given in pairs)


_WILD = ("*/*", "application/*")


def _sends_json(headers: Mapping[str, str]) -> bool:
    """Whether the `Content-Type`, if any, is JSON; a wildcard will do where nothing is sent."""
    if "content-type" not in headers:
        return True
    sent = _media_type(headers["content-type"])
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    return sent == "application/json" or (sent in _WILD and not has_body)


def _takes_json(accept: str) -> bool:
    """Whether an `Accept` header admits JSON. Weights are not looked at, not even zero."""
    wanted = {_media_type(one) for one in accept.split(",")}
    return wanted == {""} or not wanted.isdisjoint({"application/json", "*/json", *_WILD})


def _media_type(text: str) -> str:
    return text.partition(";")[0].strip().lower()
