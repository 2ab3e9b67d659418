"""Formats of audit streams: JSON lines, CloudEvents, access logs, log lines of `serve`.

Producers use different field names, so each fact is searched under its usual names. Requests that
wrote nothing (reads and refusals) are skipped. The sign of a refusal is a response code that begins
with 3 or 4, or an outcome in `_REFUSALS`. Events about no connector, such as a login, are skipped,
too. A line that names no principal is unreadable, except in an access log.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from controlplane.core.moments import KAFKA_IS_YOUNGER_MS, UnknownMoment, read_time_ms
from replay.audit.trail.request_trail import TrailRequest, TrailVerb

_TIME = ("time", "timestamp", "@timestamp", "ts", "at_ms", "at")
_WHO = (
    *("principal", "authenticationInfo.principal", "authid", "actor.name", "user.name"),
    *("actor", "user", "username", "remote_user"),
)
_CONNECTOR = ("connector", "connector_name", "connectorName")
_PATH = (
    *("path", "uri", "url", "request_uri", "requestURI", "target"),
    *("resourceName", "resource", "subject"),
)
_METHOD = ("method", "http_method", "request_method", "requestMethod", "verb")
_OUTCOME = ("status", "status_code", "outcome", "response.status")

_IN_PATH = re.compile(r"/connectors/([^/?#\s]+)(?:/([^?#\s]+))?")
_IN_NAME = re.compile(r"\bconnector=([^/?#\s]+)")
# Without `DOTALL`, `.*` would stop at a line break in the query. The search would then read the
# query again from each `/connectors` in it: quadratic time.
_ALL_CONNECTORS = re.compile(r"/connectors/?(?:[?#].*)?$", re.DOTALL)
# Clients choose parts of a line in an access log, possibly to slow down the search. So possessive
# parts (`++`, `(?>…)`) keep the time linear for any line. A path without a protocol after it ends
# before the quote.
_ACCESS = re.compile(
    r'(?P<host>\S+) \S+ (?P<user>.+?) \[(?P<time>[^\[\]]+)\] "(?P<method>[A-Z]+) '
    r'(?P<path>\S++|(?>\S+(?=" )))[^"]*+" (?P<outcome>\d{3}) '
)
_ACCESS_TIME = re.compile(
    r"(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)", re.ASCII
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_REFUSED = ("3", "4")
"""First digits of response codes of requests that changed nothing."""

_REFUSALS = ("refused", "rejected", "denied", "forbidden", "unauthorized")
"""Outcomes in words, in lower case, of requests that changed nothing. A failed request may have
written records before it failed."""

_VERBS: Mapping[tuple[str, str], TrailVerb] = {
    ("POST", ""): TrailVerb.CREATE,
    ("PUT", "config"): TrailVerb.CONFIG,
    ("PATCH", "config"): TrailVerb.CONFIG,
    ("DELETE", ""): TrailVerb.DELETE,
    ("PUT", "pause"): TrailVerb.PAUSE,
    ("PUT", "resume"): TrailVerb.RESUME,
    ("PUT", "stop"): TrailVerb.STOP,
    ("POST", "restart"): TrailVerb.RESTART,
    ("PATCH", "offsets"): TrailVerb.OFFSETS,
    ("DELETE", "offsets"): TrailVerb.OFFSETS,
}
"""Verb by method and last part of the path after the connector."""

_COMMANDS: Mapping[str, TrailVerb] = {
    "create": TrailVerb.CREATE,
    "put-config": TrailVerb.CONFIG,
    "patch-config": TrailVerb.CONFIG,
    "delete": TrailVerb.DELETE,
    "pause": TrailVerb.PAUSE,
    "resume": TrailVerb.RESUME,
    "stop": TrailVerb.STOP,
    "restart": TrailVerb.RESTART,
    "restart-task": TrailVerb.RESTART,
    "alter-offsets": TrailVerb.OFFSETS,
    "reset-offsets": TrailVerb.OFFSETS,
}
"""Verb by command of the control plane; any other command matches every verb."""

_WRITTEN = ("done", "unfinished", "unknown")
"""Outcomes of commands that may have written records.

The outcome `unknown` occurs only if `serve` is attached to a Connect cluster. `serve` then sends
commands to its workers, and a worker may not answer (docs/attached.md, "When workers fail").
"""


class UnreadableLine(ValueError):
    """A line that is no event of an audit stream. The message gives the reason."""


class TrailContent(NamedTuple):
    """Requests read from an audit stream, and the lines without a readable request."""

    requests: list[TrailRequest]
    problems: list[str]
    """Number and problem of each unreadable line."""
    lines: int
    """Number of lines that are not empty."""


def read_trail(lines: Iterable[str]) -> TrailContent:
    """Read the requests of an audit stream that may have written records."""
    requests: list[TrailRequest] = []
    problems: list[str] = []
    count = 0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        count += bool(text)
        try:
            requests += _requests(text)
        except UnreadableLine as error:
            problems.append(f"line {number} {error}")
    return TrailContent(requests, problems, count)


def _requests(text: str) -> Iterator[TrailRequest]:
    if not text:
        return
    if text.startswith("{"):
        request = _event(text)
    else:
        request = _log_line(text) if is_logfmt(text) else _access(text)
    if request is not None:
        yield request


# --- JSON ------------------------------------------------------------------------------------


def _event(text: str) -> TrailRequest | None:
    """Read a JSON object; fields in `data` precede those of a CloudEvent's envelope."""
    try:
        event = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise UnreadableLine("is no JSON object") from None
    inner = event.get("data")
    facts = {**event, **inner} if isinstance(inner, dict) else event
    return _request_in(event, facts)


# --- log lines of `serve` ---------------------------------------------------------------------


def _log_line(text: str) -> TrailRequest | None:
    facts = read_logfmt(text)
    if facts is None:
        raise UnreadableLine("is no line of key=value pairs")
    return _request_in(facts, facts)


# --- facts ------------------------------------------------------------------------------------


def _request_in(event: Mapping[str, Any], facts: Mapping[str, Any]) -> TrailRequest | None:
    """Request in an event; None if nothing was changed, or if the event is about no connector."""
    who = _first(facts, _WHO)
    if not isinstance(who, str) or not who:
        raise UnreadableLine(f"names no principal: give it in {_WHO[0]!r}")
    time = _time_ms(event, facts)
    if facts.get("event") == "command":
        return _command_request(time, who, facts)
    method, path = (str(_first(facts, names) or "") for names in (_METHOD, _PATH))
    named = _first(facts, _CONNECTOR) or _name_in(facts.get("body"))
    request = _change_in(method.upper(), path, _first(facts, _OUTCOME))
    if request is None:
        return None
    connector = named if isinstance(named, str) else request[0]
    if connector is None and not _ALL_CONNECTORS.search(path):
        return None
    return TrailRequest(time, who, connector, request[1])


def _command_request(time_ms: int, who: str, facts: Mapping[str, Any]) -> TrailRequest | None:
    """Request in a log line of a command of the control plane."""
    connector, command = facts.get("connector"), facts.get("command")
    if facts.get("outcome") not in _WRITTEN or not isinstance(connector, str):
        return None
    return TrailRequest(time_ms, who, connector, _COMMANDS.get(str(command)))


def _time_ms(event: Mapping[str, Any], facts: Mapping[str, Any]) -> int:
    time = _first(facts, _TIME) or _first(event, _TIME)
    if isinstance(time, str):
        try:
            return read_time_ms(time)
        except UnknownMoment as error:
            raise UnreadableLine(f"has no time: {error}") from None
    if isinstance(time, int | float) and not isinstance(time, bool):
        with suppress(OverflowError):
            return int(time if time >= KAFKA_IS_YOUNGER_MS else time * 1_000)
    raise UnreadableLine(f"has no time: give it in {_TIME[0]!r}")


def _name_in(body: Any) -> Any:
    """Connector name in the body of a POST to `/connectors`."""
    return body.get("name") if isinstance(body, dict) else None


def _first(facts: Mapping[str, Any], names: Iterable[str]) -> Any:
    """First fact under one of these names; `a.b` is one level deeper."""
    for name in names:
        fact: Any = facts.get(name)
        if fact is None and "." in name:
            outer, _, inner = name.partition(".")
            below = facts.get(outer)
            fact = below.get(inner) if isinstance(below, dict) else None
        if isinstance(fact, str | int | float):
            return fact
    return None


# --- access logs ------------------------------------------------------------------------------


def _access(text: str) -> TrailRequest | None:
    match = _ACCESS.match(text)
    if match is None:
        raise UnreadableLine(
            "is neither JSON nor a log line of `serve` nor a line of an access log"
        )
    time_ms = _access_time_ms(match["time"])
    request = _change_in(match["method"], match["path"], match["outcome"])
    if request is None:
        return None
    user = match["user"]
    return TrailRequest(
        time_ms, f"an unknown user at {match['host']}" if user == "-" else user, *request
    )


def _access_time_ms(text: str) -> int:
    """Time of `21/Nov/2026:10:00:00 +0000`, independent of the locale."""
    match = _ACCESS_TIME.fullmatch(text)
    if match is None or match[2] not in _MONTHS:
        raise UnreadableLine(f"has no time of an access log: {text!r}")
    day, year, hour, minute, second = (int(match[place]) for place in (1, 3, 4, 5, 6))
    ahead = timedelta(hours=int(match[8]), minutes=int(match[9]))
    try:
        zone = timezone(-ahead if match[7] == "-" else ahead)
        month = _MONTHS.index(match[2]) + 1
        moment = datetime(year, month, day, hour, minute, second, tzinfo=zone)
        return int(moment.astimezone(UTC).timestamp()) * 1_000
    except (ValueError, OverflowError) as error:
        raise UnreadableLine(f"has no time of an access log: {error}") from None


# --- changes ------------------------------------------------------------------------------------


def _change_in(method: str, path: str, outcome: Any) -> tuple[str | None, TrailVerb | None] | None:
    """Connector and verb, if known; None if nothing was changed."""
    result = str(outcome or "").lower()
    if result.startswith(_REFUSED) or result in _REFUSALS:
        return None
    match = _IN_PATH.search(path) or _IN_NAME.search(path)
    if match is None and method and not (method == "POST" and _ALL_CONNECTORS.search(path)):
        return None
    connector = unquote(match[1]) if match else None
    subpath = (match[2] or "") if match and match.re is _IN_PATH else ""
    if not method or not path.startswith(("/", "http")):
        return connector, None
    verb = _VERBS.get((method, subpath.rstrip("/").rpartition("/")[2]))
    return None if verb is None else (connector, verb)


# --- lines of `serve` ----------------------------------------------------------------------------
# `controlplane.observe` writes `key=value` pairs on one line. A value with a space, `=` or a quote
# stands in double quotes. Within them, a quote and a backslash are escaped. A key without `=` is
# true.

_PAIR: Final = re.compile(
    r'(?P<key>[^ ="]+)(?:=(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<plain>[^ "]*+)))?(?: |\Z)'
)
_FIRST_KEY: Final = re.compile(r'[^ ="{\[]+=')
_ESCAPED: Final = re.compile(r"\\(.)")


def is_logfmt(line: str) -> bool:
    """True if a line begins with a key and `=`."""
    return _FIRST_KEY.match(line) is not None


def read_logfmt(line: str) -> dict[str, str] | None:
    """Read the pairs of a line; None if it is not made of pairs."""
    facts: dict[str, str] = {}
    at = 0
    while at < len(line):
        match = _PAIR.match(line, at)
        if match is None:
            return None
        facts[match["key"]] = _value(match)
        at = match.end()
    return facts


def _value(match: re.Match[str]) -> str:
    if match["quoted"] is not None:
        return _ESCAPED.sub(r"\1", match["quoted"])
    return "true" if match["plain"] is None else match["plain"]
