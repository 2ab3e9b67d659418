"""Requests for workers of every minor release and for our service, byte for byte."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tests.rest.jackson.corpus import BODIES, LIMITS
from tests.rest.probes.rows import ProbeRow, rows

JSON = ("Content-Type", "application/json")
SIGNED = (
    ("X-Connect-Authorization", "AAAA"),
    ("X-Connect-Request-Signature-Algorithm", "HmacSHA256"),
)
"""Headers of an internal request whose signature is wrong."""

CLASS = "org.apache.kafka.connect.file.FileStreamSourceConnector"
CONFIG = {"connector.class": CLASS, "topic": "lines", "file": "/nowhere/lines"}

ORIGIN = "https://pages.example"
CROSS_ORIGIN: Mapping[str, str] = {
    "access.control.allow.origin": ORIGIN,
    "access.control.allow.methods": "GET,PUT",
}
"""CORS settings of the workers that get the requests of browsers."""

LAST_STATELESS = 735
"""Last row of the probe's world `main` before it changes connectors."""

LONG = 9_000
"""Length above the limit for the head of a request."""


def request(
    method: str,
    target: str | bytes,
    body: bytes | None = None,
    *headers: tuple[str, str],
    **fields: Any,
) -> ProbeRow:
    """A request as the probe would list it."""
    raw = target.encode() if isinstance(target, str) else target
    row = ProbeRow(
        n=0,
        method=method,
        path=raw.decode("utf-8", "replace"),
        headers=list(headers),
        target_base64=msgspec.to_builtins(raw),
        body_base64=None if body is None else msgspec.to_builtins(body),
    )
    return msgspec.structs.replace(row, **fields)


# --- the probe ----------------------------------------------------------------------------------


def probed() -> Iterator[ProbeRow]:
    """Requests of the probe whose answers need no connector."""
    main = [row for row in rows() if row.kind == "request" and row.n <= LAST_STATELESS]
    keys_seen = set()
    for row in main:
        key = (row.method, row.target, row.version, row.host, tuple(row.headers), row.sent)
        if _is_stateless(row) and key not in keys_seen:
            keys_seen.add(key)
            yield row


def _is_stateless(row: ProbeRow) -> bool:
    """True if the answer depends on the request only, not on connectors, plugins or loggers."""
    changes = row.method not in ("GET", "HEAD", "OPTIONS") and row.status < 400
    told_elsewhere = row.path.startswith(("/connector-plugins", "/admin/loggers"))
    shown = told_elsewhere and row.method == "GET" and row.status < 400
    of_plugins = b"lab." in (row.sent or b"") or row.path.endswith("/validate")
    return not (changes or shown or of_plugins or row.unstable)


# --- bodies -------------------------------------------------------------------------------------

TASKS = (
    *(b"", b" ", b"null", b"{", b"{}", b"[", b"[]", b"[1]", b'[{"a":1}]', b'[{"a":{}}]'),
    *(b'[{"a":tru}]', b'["x"]', b'[""]', b'""', b'"x"', b"[] x", b"[null]", b"\xff", b"1", b"tru"),
    *(b'[{"a":"' + b"x" * 600 + b'"]', b"x" * 600, b'{"a":\n\n1', b"[\xc3\xa4]", b'[{"\\q":1}]'),
)
"""Bodies of the internal request by which a worker publishes the tasks of a connector."""

TYPES = ("text/plain", "application/json", "application/json;charset=utf-8", "*/*", "nonsense")


def bodies() -> Iterator[ProbeRow]:
    """Bodies that no worker can read, or that only some releases' workers can read."""
    for body in (*BODIES["create"], *LIMITS):
        yield request("POST", "/connectors", body, JSON)
    for body in BODIES["config"]:
        yield request("PUT", "/connectors/nobody/config", body, JSON)
        yield request("PATCH", "/connectors/nobody/config", body, JSON)
    for body in BODIES["offsets"]:
        yield request("PATCH", "/connectors/nobody/offsets", body, JSON)
    yield from limits_of_jackson()
    for body in TASKS:
        yield request("POST", "/connectors/nobody/tasks", body, JSON, *SIGNED)
        yield request("POST", "/connectors/nobody/tasks", body, JSON)
    for content_type in TYPES:
        for headers in (SIGNED, ()):
            for body in (b"[]", b"{"):
                yield request(
                    "POST",
                    "/connectors/nobody/tasks",
                    body,
                    ("Content-Type", content_type),
                    *headers,
                )
            yield request(
                "PUT", "/connectors/nobody/fence", b"", ("Content-Type", content_type), *headers
            )
    for headers in (SIGNED, ()):
        yield request("POST", "/connectors/nobody/tasks", b"[]", *headers)
        yield request("POST", "/connectors/nobody/tasks", None, *headers)
        yield request("PUT", "/connectors/nobody/fence", None, *headers)


def limits_of_jackson() -> Iterator[ProbeRow]:
    """Numbers, names and nesting around the limits of Jackson 2.15."""
    for size in (1_000, 1_001, 5_000):
        nines = b"9" * size
        for text in (nines, b"-" + nines, b"0." + nines, nines + b"e1", b"1e" + nines):
            yield request("POST", "/connectors", b'{"name":"x","config":{"a":' + text + b"}}", JSON)
    for size in (50_000, 50_001):
        name = b"k" * size
        yield request("POST", "/connectors", b'{"name":"x","config":{"' + name + b'":1}}', JSON)
    for depth in (1_000, 1_001, 1_100):
        nested = b"[" * depth + b"]" * depth
        yield request("POST", "/connectors", b'{"name":"x","foo":' + nested + b"}", JSON)
        yield request("PATCH", "/connectors/nobody/config", nested, JSON)


# --- targets and heads --------------------------------------------------------------------------

TARGETS = (
    *(b"/connectors/a%00b", b"/connectors/a\\b", b"/connectors/\xff", b"/connectors/%FF"),
    *(b"/connectors/%C3", b"/connectors/%C3%28", b"/connectors/%E4%B8", b"/connectors/a%80"),
    *(b"/connectors/%ED%A0%80", b"/connectors/%C0%AF", b"/connectors/%F5%80%80%80", b"/%FF"),
    *(b"/connectors/\xc3\xa4", b"/connectors/\xc3", b"/connectors?\xff", b"/connectors?a=%FF"),
    *(b"/connectors?expand=%C3%28", b"/connectors/nobody/status?x=\xc3\xa4"),
    *(b"/;x=1/connectors", b"/;x=1", b"/;/connectors", b"/connectors/;x=1", b"//connectors"),
    *(b"/connectors//", b"/connectors;x=1/nobody", b"/connectors/nobody;x=%2F/status"),
    *(b"http://elsewhere/connectors", b"http://elsewhere/"),
    *(b"http://elsewhere/connectors/nobody?x=1", b"HTTP://elsewhere/connectors"),
    *(b"https://elsewhere/connectors", b"ftp://elsewhere/connectors", b"http:///connectors"),
    *(b"http://elsewhere:99999/connectors", b"http://user@elsewhere/connectors"),
    *(b"*", b"connectors", b"/connectors#x", b"?x", b"/?x", b"/%63onnectors", b"/connectors/%"),
    *(b"/connectors/%zz", b"/connectors/%u00e4", b"/connectors/%u00", b"/connectors/.."),
    *(b"/connectors/../connectors", b"/connectors/.", b"/connectors/%2e%2e", b"/connectors/..;/x"),
    *(b"/connectors/%2e", b"/connectors/.%2e/x", b"/../connectors", b"/./connectors"),
    *(b"/connectors/a%2Fb", b"/connectors/a%25b", b"/connectors/a%5Cb", b"/connectors/a%5cb"),
    *(b"/connectors/a%0Ab", b"/connectors/a%7Fb", b"/connectors/a%1Fb", b"/connectors/a%3Bb"),
    *(b"/connectors/a|b", b'/connectors/a"b', b"/connectors/a<b", b"/connectors/a>b"),
    *(b"/connectors/a^b", b"/connectors/a`b", b"/connectors/a{b}", b"/connectors/a[b]"),
    *(b"/connectors/a%2F%25b", b"/connectors//a%2F", b"/connectors/a\\%2Fb", b"/connectors/\x7f"),
    *(b"/connectors/a%20b", b"/connectors/a+b", b"/connectors/a:b", b"/connectors/a@b"),
)

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW")
"""Methods for targets that a server refuses before it looks at the method."""

REFUSED = (b"*", b"/connectors/a%2Fb", b"/connectors/%", b"/connectors/\xff", b"/;x=1/connectors")


def targets() -> Iterator[ProbeRow]:
    """Targets that some servers cannot read."""
    for target in TARGETS:
        yield request("GET", target)
    for target in REFUSED:
        for method in METHODS:
            yield request(method, target)
    for method in ("TRACE", "BREW", "get", "PROPFIND"):
        yield request(method, "/connectors")


def heads() -> Iterator[ProbeRow]:
    """Request lines and headers that a server refuses."""
    for size in (LONG, 70_000):
        for method in ("GET", "POST", "PUT"):
            yield request(method, "/connectors?" + "x" * size)
        yield request("GET", "/connectors/" + "x" * size)
        yield request("GET", "/connectors", None, ("X-Long", "x" * size))
    yield request("PUT", "/connectors/nobody/pause", None, ("X-Long", "x" * LONG))
    yield request("GET", "/connectors", host=False)
    yield request("GET", "/connectors", host=False, version="HTTP/1.0")
    yield request("GET", "/connectors", version="HTTP/1.0")
    for version in ("HTTP/1.2", "HTTP/2.0", "HTTP/3", "http/1.1", "FTP/1.0", "HTTP/0.9", ""):
        yield request("GET", "/connectors", version=version)
    for target in (b"/a b", b"/a\tb", b"", b"/\x01", b"/a\x80"):
        yield request("GET", target)
    for name in ("Accept", "Content-Type"):
        for value in ("", "x", "a/b/c", "application/json, text/plain", ";", "*", "text/*;q=x"):
            yield request("GET", "/connectors", None, (name, value))
    yield request("GET", "/connectors", None, ("Host", "elsewhere"))
    yield request("GET", "/connectors", None, ("Bad Name", "x"))
    yield request("GET", "/connectors", None, ("Content-Length", "x"))
    yield request("GET", "/connectors", None, ("Expect", "banana"))


# --- differences between releases ---------------------------------------------------------------


def creations() -> Iterator[ProbeRow]:
    """Requests that create a connector in some releases and are refused in others."""
    empty = CONFIG | {"offsets.storage.topic": ""}
    blank = CONFIG | {"offsets.storage.topic": " "}
    for config in (empty, blank):
        yield _creation("emptied", config)
        yield request("PUT", "/connectors/emptied/config", msgspec.json.encode(config), JSON)


NAMES = (
    *("plain", "a b", "a+b", "a&b", "a=b", "a:b@c", "a,b", "a!b$c'd(e)*", "a~b_c-d.e"),
    *("a%b", "a%20b", "a%2Fb", "a/b", "a//b", "a?b", "a#b", "a;b", "a|b", "a^b`c", 'a"b', "a<b>c"),
    *("a[b]", "ä", "💎", "\u2028", "a{b}", "a}b", "a{b", "{a}/{b}", "..", ".", "a\\b"),
)
"""Names that a `Location` escapes, or does not."""


def locations() -> Iterator[ProbeRow]:
    """Creations of connectors whose names have characters with a meaning in URLs."""
    for name in NAMES:
        yield _creation(name, CONFIG)


def _creation(name: str, config: Mapping[str, str]) -> ProbeRow:
    return request(
        "POST", "/connectors", msgspec.json.encode({"name": name, "config": config}), JSON
    )


def cors_requests() -> Iterator[ProbeRow]:
    """CORS requests: preflights and the requests themselves."""
    for origin in (ORIGIN, "https://elsewhere.example", f"{ORIGIN} https://elsewhere.example"):
        origin_header = ("Origin", origin)
        for method in ("GET", "PUT", "DELETE", "POST", "HEAD", "BREW", ""):
            before = ("Access-Control-Request-Method", method)
            for path in ("/connectors", "/nowhere"):
                yield request("OPTIONS", path, None, origin_header, before)
            for header_names in ("Content-Type", "X-Strange", "content-type, accept"):
                request_headers = ("Access-Control-Request-Headers", header_names)
                yield request(
                    "OPTIONS", "/connectors", None, origin_header, before, request_headers
                )
        for method in ("GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS"):
            yield request(method, "/connectors/nobody", None, origin_header)
        yield request("GET", "/connectors/%", None, origin_header)
        yield request("GET", "/connectors/a%2Fb", None, origin_header)
    yield request("GET", "/connectors")
    yield request("OPTIONS", "/connectors")


def cases() -> list[ProbeRow]:
    """All requests for a worker with default settings, in the order in which they are sent."""
    made = (probed(), targets(), heads(), bodies(), creations(), locations())
    return _numbered(row for group in made for row in group)


def cross_origin_cases() -> list[ProbeRow]:
    """All requests for a worker with CORS settings."""
    return _numbered(cors_requests())


def _numbered(made: Iterator[ProbeRow]) -> list[ProbeRow]:
    return [msgspec.structs.replace(row, n=number) for number, row in enumerate(made)]
