"""Request targets: the raw path split into decoded segments, as each release's server does it."""

import re
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

from controlplane.core.profiles import Profile
from controlplane.rest.errors import BadTarget, NoSuchPath
from controlplane.rest.pages import BadMessage, Unreadable


class Target(NamedTuple):
    """A path and query, taken apart. `segments` are decoded, `query` keeps every value."""

    segments: tuple[str, ...]
    query: dict[str, list[str]]


def parse_target(raw: str, profile: Profile) -> Target:
    """Take a raw request target apart.

    Raises:
        BadTarget, BadMessage, Unreadable: this release's server refuses such a target.
        NoSuchPath: it has an empty segment.
    """
    path, _, query = raw.partition("#")[0].partition("?")
    if not path.startswith(("/", "*")):
        raise BadMessage
    if profile.rest_strict_paths:
        _refuse_ambiguous(path)
    else:
        _refuse_malformed(path)
    # Matrix parameters are dropped from any segment, a trailing slash is accepted everywhere.
    parts = [part.partition(";")[0] for part in path.removeprefix("/").split("/")]
    if parts[-1] == "":
        parts.pop()
    if "" in parts:
        raise NoSuchPath
    return Target(tuple(map(unquote, parts)), parse_qs(query, keep_blank_values=True))


def matches(template: tuple[str, ...], segments: tuple[str, ...]) -> bool:
    """Whether a path is one of a template, in which `{}` takes any one segment."""
    return len(template) == len(segments) and all(
        part in ("{}", segment) for part, segment in zip(template, segments, strict=True)
    )


def names_in(template: tuple[str, ...], segments: tuple[str, ...]) -> list[str]:
    """The segments that a template leaves open."""
    pairs = zip(template, segments, strict=True)
    return [segment for part, segment in pairs if part == "{}"]


_MALFORMED = re.compile(r"%(?![0-9a-f]{2}|u[0-9a-f]{4})|%00|\ufffd", re.IGNORECASE)
"""Escapes that are none, NUL, and bytes that were no UTF-8."""


def _refuse_malformed(path: str) -> None:
    if _MALFORMED.search(path):
        raise BadMessage
    if "{" in path or "}" in path:
        raise Unreadable(path)


# In the order in which the server lists them when there are several.
_AMBIGUITIES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"/(%2e|\.)*%2e(%2e|\.)*(?=[/;]|$)", re.IGNORECASE), "Ambiguous URI path segment"),
    (re.compile(r"//"), "Ambiguous URI empty segment"),
    (re.compile(r"%2f", re.IGNORECASE), "Ambiguous URI path separator"),
    (re.compile(r"%25"), "Ambiguous URI path encoding"),
    (re.compile(r"%u[0-9a-f]{4}", re.IGNORECASE), "UTF-16 encoding"),
    (re.compile(r"%5c|%[01][0-9a-f]|%7f", re.IGNORECASE), "Suspicious Path Character"),
    (re.compile(r"[^\x21-\x7e]|[`\"<>^|\\\[\]{}]"), "Illegal Path Character"),
)


def _refuse_ambiguous(path: str) -> None:
    found = [reason for pattern, reason in _AMBIGUITIES if pattern.search(path)]
    if found:
        raise BadTarget(", ".join(found))
