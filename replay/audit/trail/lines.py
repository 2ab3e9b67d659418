"""Lines of audit streams: JSON of any make, CloudEvents, access logs, log lines of `serve`.

The makers of such streams do not agree on names, so each fact is looked for under the names that
are usual for it. A request that wrote nothing (it only read, or was refused) is none.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from controlplane.core.moments import KAFKA_IS_YOUNGER_MS, UnknownMoment, read_time_ms
from replay.audit.trail.logfmt import is_logfmt, read_logfmt
from replay.audit.trail.trail import Request, Verb

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
_ALL_CONNECTORS = re.compile(r"/connectors/?(?:[?#].*)?$")
_ACCESS = re.compile(
    r'(?P<host>\S+) \S+ (?P<user>.+?) \[(?P<time>[^\]]+)\] "(?P<method>[A-Z]+) (?P<path>\S+)'
    r'[^"]*" (?P<outcome>\d{3}) '
)
_ACCESS_TIME = re.compile(
    r"(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)", re.ASCII
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_REFUSED = ("3", "4")
"""How the number of an answer begins that changed nothing."""

_VERBS: Mapping[tuple[str, str], Verb] = {
    ("POST", ""): Verb.CREATE,
    ("PUT", "config"): Verb.CONFIG,
    ("PATCH", "config"): Verb.CONFIG,
    ("DELETE", ""): Verb.DELETE,
    ("PUT", "pause"): Verb.PAUSE,
    ("PUT", "resume"): Verb.RESUME,
    ("PUT", "stop"): Verb.STOP,
    ("POST", "restart"): Verb.RESTART,
    ("PATCH", "offsets"): Verb.OFFSETS,
    ("DELETE", "offsets"): Verb.OFFSETS,
}
"""What a request wants, by its method and the last part of its path behind the connector."""

_COMMANDS: Mapping[str, Verb] = {
    "create": Verb.CREATE,
    "put-config": Verb.CONFIG,
    "patch-config": Verb.CONFIG,
    "delete": Verb.DELETE,
    "pause": Verb.PAUSE,
    "resume": Verb.RESUME,
    "stop": Verb.STOP,
    "restart": Verb.RESTART,
    "restart-task": Verb.RESTART,
    "alter-offsets": Verb.OFFSETS,
    "reset-offsets": Verb.OFFSETS,
}
"""What a command of the control plane wants, by its name. Any other command may want anything."""

_WRITTEN = ("done", "unfinished")
"""Outcomes of commands that may have written a record."""


class Unreadable(ValueError):
    """A line that is no event of an audit stream. The message says why."""


class Read(NamedTuple):
    """What came of the lines of an audit stream."""

    requests: list[Request]
    problems: list[str]
    """Of each line that cannot be read: which, and why."""
    lines: int
    """Those that are not empty."""


def read_trail(lines: Iterable[str]) -> Read:
    """The requests in an audit stream that may have written something."""
    requests: list[Request] = []
    problems: list[str] = []
    count = 0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        count += bool(text)
        try:
            requests += _requests(text)
        except Unreadable as error:
            problems.append(f"line {number} {error}")
    return Read(requests, problems, count)


def _requests(text: str) -> Iterator[Request]:
    if not text:
        return
    if text.startswith("{"):
        found = _event(text)
    else:
        found = _log_line(text) if is_logfmt(text) else _access(text)
    if found is not None:
        yield found


# --- JSON ------------------------------------------------------------------------------------


def _event(text: str) -> Request | None:
    """A JSON object; what a CloudEvent has in its envelope counts as much as its `data`."""
    try:
        event = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Unreadable("is no JSON object") from None
    inner = event.get("data")
    facts = {**event, **inner} if isinstance(inner, dict) else event
    return _told(event, facts)


# --- log lines of `serve` ---------------------------------------------------------------------


def _log_line(text: str) -> Request | None:
    facts = read_logfmt(text)
    if facts is None:
        raise Unreadable("is no line of key=value pairs")
    return _told(facts, facts)


# --- facts ------------------------------------------------------------------------------------


def _told(event: Mapping[str, Any], facts: Mapping[str, Any]) -> Request | None:
    """The request that the facts of an event tell; None: nothing was changed."""
    who = _first(facts, _WHO)
    if not isinstance(who, str) or not who:
        raise Unreadable(f"does not tell who: name them in {_WHO[0]!r}")
    time = _time_ms(event, facts)
    if facts.get("event") == "command":
        return _commanded(time, who, facts)
    method, path = _first(facts, _METHOD), _first(facts, _PATH)
    named = _first(facts, _CONNECTOR) or _name_in(facts.get("body"))
    request = _asked(str(method or "").upper(), str(path or ""), _first(facts, _OUTCOME))
    if request is None:
        return None
    connector, verb = request
    return Request(time, who, named if isinstance(named, str) else connector, verb)


def _commanded(time_ms: int, who: str, facts: Mapping[str, Any]) -> Request | None:
    """The request behind the line that a command of the control plane leaves in its log."""
    connector, command = facts.get("connector"), facts.get("command")
    if facts.get("outcome") not in _WRITTEN or not isinstance(connector, str):
        return None
    return Request(time_ms, who, connector, _COMMANDS.get(str(command)))


def _time_ms(event: Mapping[str, Any], facts: Mapping[str, Any]) -> int:
    found = _first(facts, _TIME) or _first(event, _TIME)
    if isinstance(found, str):
        try:
            return read_time_ms(found)
        except UnknownMoment as error:
            raise Unreadable(f"has no time: {error}") from None
    if isinstance(found, int | float) and not isinstance(found, bool):
        return int(found if found >= KAFKA_IS_YOUNGER_MS else found * 1_000)
    raise Unreadable(f"does not tell when: give the time in {_TIME[0]!r}")


def _name_in(body: Any) -> Any:
    """The name of the connector that a POST to `/connectors` asks for."""
    return body.get("name") if isinstance(body, dict) else None


def _first(facts: Mapping[str, Any], names: Iterable[str]) -> Any:
    """The first fact that is there under one of these names; `a.b` lies one level deeper."""
    for name in names:
        found: Any = facts.get(name)
        if found is None and "." in name:
            outer, _, inner = name.partition(".")
            below = facts.get(outer)
            found = below.get(inner) if isinstance(below, dict) else None
        if isinstance(found, str | int | float):
            return found
    return None


# --- access logs ------------------------------------------------------------------------------


def _access(text: str) -> Request | None:
    found = _ACCESS.match(text)
    if found is None:
        raise Unreadable("is no JSON object, no log line of `serve`, no line of an access log")
    time_ms = _access_time_ms(found["time"])
    request = _asked(found["method"], found["path"], found["outcome"])
    if request is None:
        return None
    user = found["user"]
    return Request(time_ms, f"somebody at {found['host']}" if user == "-" else user, *request)


def _access_time_ms(text: str) -> int:
    """`21/Nov/2026:10:00:00 +0000`; the months' names do not depend on where this runs."""
    found = _ACCESS_TIME.fullmatch(text)
    if found is None or found[2] not in _MONTHS:
        raise Unreadable(f"has no time of an access log: {text!r}")
    day, year, hour, minute, second = (int(found[place]) for place in (1, 3, 4, 5, 6))
    ahead = timedelta(hours=int(found[8]), minutes=int(found[9]))
    try:
        zone = timezone(-ahead if found[7] == "-" else ahead)
        month = _MONTHS.index(found[2]) + 1
        moment = datetime(year, month, day, hour, minute, second, tzinfo=zone)
        return int(moment.astimezone(UTC).timestamp()) * 1_000
    except (ValueError, OverflowError) as error:
        raise Unreadable(f"has no time of an access log: {error}") from None


# --- what was asked ---------------------------------------------------------------------------


def _asked(method: str, path: str, outcome: Any) -> tuple[str | None, Verb | None] | None:
    """The connector and what is wanted of it, as far as is told; None: nothing was changed."""
    if outcome is not None and str(outcome).startswith(_REFUSED):
        return None
    found = _IN_PATH.search(path) or _IN_NAME.search(path)
    if found is None and method and not (method == "POST" and _ALL_CONNECTORS.search(path)):
        return None
    connector = unquote(found[1]) if found else None
    rest = (found[2] or "") if found and found.re is _IN_PATH else ""
    if not method or not path.startswith(("/", "http")):
        return connector, None
    verb = _VERBS.get((method, rest.rstrip("/").rpartition("/")[2]))
    return None if verb is None else (connector, verb)
