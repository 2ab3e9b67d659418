"""Reader of requests: turns an ASGI scope into a `Request`."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers

from controlplane.rest.requests import COMPAT, Request

_ORIGIN = re.compile(rb"[a-z][a-z0-9+.-]*://([^/?#]*)", re.IGNORECASE)
"""Scheme and authority of an absolute target."""

_ZONE = re.compile(r"(T[^ ]+) (\d\d:?\d\d)$")
"""Time whose zone lost its plus sign: in a URL, `+` means a space."""


def read_request(scope: Mapping[str, Any]) -> Request:
    """Return the request of an ASGI `http` scope.

    The path stays raw, because a name may hold an encoded slash. The mount prefix is removed.
    """
    mount = scope.get("root_path", "")
    raw: bytes = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
    absolute = _ORIGIN.match(raw)
    path = raw[absolute.end() :] or b"/" if absolute else raw
    path = path.removeprefix(mount.encode()) or b"/"
    query = scope["query_string"].decode("latin-1")
    dialect, text = _dialect(path.decode("utf-8", "replace"))
    target = text + (f"?{query}" if query else "")
    parsed = parse_qs(query, keep_blank_values=True) if query else {}
    parameters = {name: values[0] for name, values in parsed.items()}
    as_of = _ZONE.sub(r"\1+\2", parameters["as_of"]) if "as_of" in parameters else None
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
        f"{scope.get('scheme', 'http')}://{host}{mount}{COMPAT if dialect else ''}{dialect or ''}",
        origin=absolute[0].decode("latin-1") if absolute else None,
        peer=client[0] if client else None,
    )


def _dialect(path: str) -> tuple[str | None, str]:
    """Split a path into its leading release, if any, and the rest."""
    if not path.startswith(COMPAT):
        return None, path
    release, slash, rest = path.removeprefix(COMPAT).partition("/")
    return release, slash + rest or "/"
