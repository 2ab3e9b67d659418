"""Request targets: the raw path split into decoded segments, as each release's server does it."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

from controlplane.core.releases.profiles import Profile
from controlplane.rest.errors import BadRequest, NoSuchPath
from controlplane.rest.jetty_errors import (
    BAD_MESSAGE,
    BAD_URI,
    BadMessage,
    BadTarget,
    ServerTarget,
    UnreadableRequest,
)

Query = Mapping[str, Sequence[str]]
"""Values of each parameter of a query."""


class RequestTarget(NamedTuple):
    """A parsed path and query. `segments` are decoded, `query` keeps every value."""

    segments: tuple[str, ...]
    query: Query


def parse_target(raw: str, profile: Profile) -> RequestTarget:
    """Parse a raw request target.

    Raises:
        BadTarget, BadMessage, UnreadableRequest: this release's server refuses the target.
        BadRequest: this project refuses it.
        NoSuchPath: it has an empty segment.
    """
    path, _, text = raw.partition("#")[0].partition("?")
    query = parse_query(text)
    if _PLAIN.fullmatch(path):
        return RequestTarget(tuple(path[1:].split("/")), query)
    _REFUSING[profile.rest_server](path, profile)
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


_OPEN = {
    "connectors": "connector",
    "tasks": "task",
    "loggers": "logger",
    "connector-plugins": "plugin",
}
"""Names of a template's variable segments, by the segment in front of each."""


def path_of(template: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return the path of a template with named variables, and these names."""
    names: list[str] = []
    parts: list[str] = []
    for before, part in zip(("", *template), template, strict=False):
        if part == "{}":
            names.append(_OPEN.get(before, "name"))
            parts.append(f"{{{names[-1]}}}")
        else:
            parts.append(part)
    return "/" + "/".join(parts), names


def matrix_names(raw: str) -> list[str]:
    """Return the names of a raw target's matrix parameters (`/stop;a=b`), which Connect ignores."""
    path = raw.partition("#")[0].partition("?")[0]
    matrix = [parameter for part in path.split("/") for parameter in part.split(";")[1:]]
    return [unquote(parameter.partition("=")[0]) for parameter in matrix if parameter]


_BEGINNINGS = ("/", "*")
"""First characters of a target: a path, or `*` for the whole server."""

_NO_ESCAPE = re.compile(r"%(?![0-9a-f]{2}).{0,2}", re.IGNORECASE)


def _refuse_unreadable(path: str, _: Profile) -> None:
    """Refuse malformed targets at the root."""
    if not path.startswith(_BEGINNINGS):
        raise BadRequest("The target of a request must be a path that begins with a slash")
    wrong = _NO_ESCAPE.search(path)
    if wrong is not None:
        raise BadRequest(
            f"The path holds {wrong[0]!a}, which is no escape: write a percent sign as %25"
        )


_MALFORMED = re.compile(r"%(?![0-9a-f]{2}|u[0-9a-f]{4})|\ufffd", re.IGNORECASE)
"""Malformed escapes, and bytes that are not UTF-8."""

_PATH_PARAMETERS = re.compile(r"/(\.|%2e){1,2};[^/]*(?=/)", re.IGNORECASE)
"""`.` or `..` with parameters."""


def _refuse_malformed(path: str, profile: Profile) -> None:
    """Refuse the paths that Jetty 9 and Jersey refuse."""
    jetty = profile.jetty
    if path == "*":
        raise ServerTarget(profile, uri=path)
    if not path.startswith("/"):
        raise BadMessage(profile, jetty.relative if path else "Bad URI")
    if _MALFORMED.search(path) or ("%00" in path and not jetty.takes_nul):
        raise BadMessage(profile)
    if jetty.path_parameters and _PATH_PARAMETERS.search(path):
        raise BadMessage(profile, jetty.path_parameters)
    if _leaves_root(path):
        raise BadMessage(profile, jetty.above_root)
    if "{" in path or "}" in path:
        raise UnreadableRequest(profile, path)


def _leaves_root(path: str) -> bool:
    """Return True if `..` segments lead above the root."""
    depth = 0
    for part in path.split("/")[1:]:
        name = unquote(part.partition(";")[0])
        depth += {"..": -1, ".": 0, "": 0}.get(name, 1)
        if depth < 0:
            return True
    return False


_UTF_16 = re.compile(r"%u[0-9a-f]{4}", re.IGNORECASE)

# The order matters: the server lists several reasons in this order.
_AMBIGUITIES: tuple[tuple[re.Pattern[str] | None, str], ...] = (
    (re.compile(r"/(?=\.*+%2e)(%2e|\.)*+(?=/|$)", re.IGNORECASE), "Ambiguous URI path segment"),
    (re.compile(r"//"), "Ambiguous URI empty segment"),
    (re.compile(r"%2f", re.IGNORECASE), "Ambiguous URI path separator"),
    (_PATH_PARAMETERS, "Ambiguous URI path parameter"),
    (re.compile(r"%25"), "Ambiguous URI path encoding"),
    (_UTF_16, "UTF-16 encoding"),
    (None, "Bad UTF-8 encoding"),
    (re.compile(r"\\|%5c|%[01][0-9a-f]|%7f", re.IGNORECASE), "Suspicious Path Character"),
    (re.compile(r"[^\x21-\x7e]|[`\"<>^|\\\[\]{}]"), "Illegal Path Character"),
)
"""Patterns of a path without the parameters of its segments, and the reasons to refuse it."""


def _refuse_ambiguous(path: str, profile: Profile) -> None:
    """Refuse the paths that Jetty 12 refuses."""
    if not path.startswith("/"):
        if path in ("", "*"):
            raise ServerTarget(profile, "Bad URI path", path, based=True)
        raise BadTarget(profile, uri=f"http:{path}")
    names = "/".join(part.partition(";")[0] for part in path.split("/"))
    if _NO_ESCAPE.search(_UTF_16.sub("", path)) or "%00" in names or _leaves_root(path):
        raise BadTarget(profile, uri=BAD_MESSAGE)
    reasons = [reason for pattern, reason in _AMBIGUITIES if _is_ambiguous(pattern, path, names)]
    if reasons:
        raise BadTarget(profile, ", ".join(reasons), BAD_URI)


def _is_ambiguous(pattern: re.Pattern[str] | None, path: str, names: str) -> bool:
    """Return True if a path matches; the pattern None finds escapes that are not UTF-8."""
    if pattern is None:
        return "\ufffd" in unquote(names.encode("ascii", "ignore").decode())
    return pattern.search(path if pattern is _PATH_PARAMETERS else names) is not None


_REFUSING: Mapping[str, Callable[[str, Profile], None]] = {
    "jetty 9": _refuse_malformed,
    "jetty 12": _refuse_ambiguous,
    "ours": _refuse_unreadable,
}
