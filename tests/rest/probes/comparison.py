"""Comparison of two answers: status, the headers in `HEADERS`, and the body.

Bodies are compared as JSON, including the order of lists and of members. Lists and members that
come from a Java set or map are compared without their order. Parts that differ between runs of one
worker are masked. Recordings hold digests of Kafka's documentation: it is compared as digests, or
left out.
"""

import json
import re
from typing import Any
from urllib.parse import urlsplit

from tests.documentation_digests import with_digests, without_sentences
from tests.rest.probes.raw_requests import Response
from tests.rest.probes.rows import ProbeRow

HEADERS = (
    "content-type", "location", "allow", "cache-control", "vary", "x-frame-options",
    "access-control-allow-origin", "access-control-allow-credentials", "access-control-max-age",
    "access-control-allow-methods", "access-control-allow-headers",
)  # fmt: skip
"""Headers that clients use; `Server`, `Date` and `Content-Length` are not compared."""

LISTS = ("allow", "access-control-allow-methods")
"""Headers with a list whose order means nothing."""

MAPS = ("config", "partition", "offset", "by name", "tasks-config")
"""Members that hold a Java map: its order means nothing."""

SETS = ("names", "offsets", "topics")
"""Members that hold a Java set; `names` is the list of all connectors."""

ROOTS = {
    "config": "config",
    "tasks-config": "tasks-config",
    "connectors": "names",
}
"""Kind of an answer, by the last part of its path."""

VOLATILE = ("kafka_cluster_id", "commit")

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_HASH = re.compile(r"(@|ServletContainer-)[0-9a-f]+\b")


def differences(row: ProbeRow, response: Response, *, documentation: bool = True) -> list[str]:
    """Differences from the recording, a line each; `documentation` of keys may be left out."""
    lines = []
    if response.status != row.status:
        lines.append(f"status {response.status}, not {row.status}")
    recorded = {name.lower(): value for name, value in row.response_headers.items()}
    for name in HEADERS:
        theirs, ours = (
            _header(name, headers.get(name)) for headers in (recorded, response.headers)
        )
        if theirs != ours:
            lines.append(f"{name} {ours!r}, not {theirs!r}")
    theirs, ours = row.answer or "", response.body.decode("utf-8", "replace")
    plain = with_digests if documentation else without_sentences
    if _comparable(row, plain(theirs)) != _comparable(row, plain(ours)):
        lines.append(f"body {ours[:2_000]!r}, not {theirs[:2_000]!r}")
    return lines


def _header(name: str, value: str | None) -> Any:
    if value is None:
        return None
    if name == "location":
        # The base URL differs between services; the path from `/connectors` on must not.
        return urlsplit(value).path.partition("/connectors/")[2]
    return sorted(value.split(",")) if name in LISTS else value


def _comparable(row: ProbeRow, text: str) -> Any:
    """A body in the form in which it is compared."""
    try:
        value = json.loads(text)
    except ValueError:
        return sorted(text.split(", ")) if row.method == "OPTIONS" else _masked(text)
    segments = [part.partition(";")[0] for part in re.split("[?#]", row.path)[0].split("/")]
    root = ROOTS.get(next(filter(None, reversed(segments)), ""), "")
    if root == "names" and isinstance(value, dict) and "error_code" not in value:
        root = "by name"
    return _canonical(value, root)


def _canonical(value: Any, member: str) -> Any:
    """Comparable form of a value: sorted where its order means nothing. `member`: its name."""
    match value:
        case _ if member in VOLATILE:
            return "something"
        case int() if member == "last_modified":
            return "an instant"
        case dict():
            configs = member == "tasks-config"
            members = [
                (n, _canonical(item, "config" if configs else n)) for n, item in value.items()
            ]
            return {"object": sorted(members, key=repr) if member in MAPS else members}
        case list():
            elements = [_canonical(element, "") for element in value]
            return sorted(elements, key=repr) if member in SETS else elements
        case str():
            return _masked(value)
    return type(value).__name__, value  # Python takes 1, 1.0 and True for equal


def _masked(text: str) -> str:
    return _HASH.sub("@hash", _INSTANT.sub("an instant", text))
