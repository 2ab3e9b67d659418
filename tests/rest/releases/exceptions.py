"""Requests that we answer differently from the recorded workers, with reasons."""

import re

from controlplane.core.releases.profiles import Profile
from tests.rest.probes.rows import ProbeRow

NOT_HTTP = (
    "the request is no valid HTTP/1.1: our server may accept it, or refuse it with its own message"
)
FOREIGN = "we refuse a change by a page of another host; no release does"
TOO_LONG = "we write no key that newer releases could not read"
REMEMBERED = "the message of a worker differs after an earlier failure to create the same class"

CHANGING = ("POST", "PUT", "DELETE", "PATCH")
FOREIGN_ORIGIN = ("Origin", "https://elsewhere.example")

_ODD_HEADERS = {"Bad Name", "Content-Length", "Expect", "Host"}
_NO_TARGET = re.compile(rb"[\x00-\x20\x7f]|^$|^\?")


def reason_of(row: ProbeRow, profile: Profile) -> str | None:
    """Reason why the answer to a request differs; None if it does not."""
    if _is_not_http(row):
        return NOT_HTTP
    if b"k" * 50_001 in (row.sent or b"") and not profile.json_limits:
        return TOO_LONG
    if row.method in CHANGING and FOREIGN_ORIGIN in row.headers:
        return FOREIGN
    if _is_second_look(row, profile):
        return REMEMBERED
    if row.target == b"/connectors?\xff" and profile.rest_server == "jetty 9":
        return NOT_HTTP
    return None


def _is_second_look(row: ProbeRow, profile: Profile) -> bool:
    """True if the worker wrapped the error of a class that had failed to load before."""
    return profile.versioned_plugins and "errors.ConnectException: Failed to find" in (
        row.answer or ""
    )


def _is_not_http(row: ProbeRow) -> bool:
    is_http_1 = row.version in ("HTTP/1.0", "HTTP/1.1")
    without_host = not row.host and row.version == "HTTP/1.1"
    odd = row.method == "GET" and not _ODD_HEADERS.isdisjoint(dict(row.headers))
    return not is_http_1 or without_host or odd or _NO_TARGET.search(row.target) is not None
