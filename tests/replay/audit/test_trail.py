"""Users of changes: from our headers, or from an audit stream's line near in time."""

import json
from time import process_time
from typing import Any

import pytest

from replay.audit import audit
from replay.audit.trail.line_formats import read_trail
from replay.audit.trail.request_trail import RequestTrail, TrailRequest, TrailVerb
from replay.findings import Finding
from tests.replay.audit.planted_log import HOUR, SECOND, START_MS, STOPPED, PlantedLog

AT = "2026-11-21T10:00:00Z"
AT_MS = 1_795_255_200_000

COMMON = '10.1.2.3 - ada [21/Nov/2026:11:00:00 +0100] "{}" {} 17'


def event(**facts: Any) -> str:
    """Event as one line of JSON."""
    return json.dumps(facts)


READ = {
    "names of our fields": (
        event(at_ms=AT_MS, principal="ada", method="PUT", path="/connectors/a/config"),
        TrailRequest(AT_MS, "ada", "a", TrailVerb.CONFIG),
    ),
    "seconds since 1970": (
        event(ts=AT_MS / 1_000, user="ada", method="DELETE", path="/connectors/a"),
        TrailRequest(AT_MS, "ada", "a", TrailVerb.DELETE),
    ),
    "time, user and connector alone": (
        event(timestamp=AT, actor={"name": "ada"}, connector="a"),
        TrailRequest(AT_MS, "ada", "a", None),
    ),
    "a creation with its body": (
        event(time=AT, user="ada", method="POST", url="/connectors", body={"name": "a"}),
        TrailRequest(AT_MS, "ada", "a", TrailVerb.CREATE),
    ),
    "a path with a prefix and an escaped name": (
        event(time=AT, user="ada", method="PUT", path="/compat/3.9/connectors/a%2Fb/stop?x=1"),
        TrailRequest(AT_MS, "ada", "a/b", TrailVerb.STOP),
    ),
    "CloudEvents, authorised": (
        event(
            specversion="1.0",
            id="1",
            source="/connect",
            type="org.example.request",
            time=AT,
            authid="ada",
            data={"method": "PATCH", "path": "/connectors/a/offsets", "status": 200},
        ),
        TrailRequest(AT_MS, "ada", "a", TrailVerb.OFFSETS),
    ),
    "CloudEvents of an audit log": (
        event(
            specversion="1.0",
            time=AT,
            subject="crn:///kafka=k/connect-cluster=c/connector=a",
            data={
                "authenticationInfo": {"principal": "User:ada"},
                "resourceName": "crn:///kafka=k/connect-cluster=c/connector=a",
            },
        ),
        TrailRequest(AT_MS, "User:ada", "a", None),
    ),
    "common log format": (
        COMMON.format("PUT /connectors/a/pause HTTP/1.1", 202),
        TrailRequest(AT_MS, "ada", "a", TrailVerb.PAUSE),
    ),
    "a request without a protocol": (
        COMMON.format("PUT /connectors/a/pause", 202),
        TrailRequest(AT_MS, "ada", "a", TrailVerb.PAUSE),
    ),
    "a user and a path with signs of the format": (
        COMMON.replace(" ada ", " ada [x ").format('PUT /connectors/a/pause?"x" H', 202),
        TrailRequest(AT_MS, "ada [x", "a", TrailVerb.PAUSE),
    ),
    "combined log format without a login": (
        '10.1.2.3 - - [21/Nov/2026:10:00:00 +0000] "POST /connectors HTTP/1.1" 201 17 "-" "curl"',
        TrailRequest(AT_MS, "an unknown user at 10.1.2.3", None, TrailVerb.CREATE),
    ),
    "a log line of a command of unknown outcome": (
        event(
            timestamp=AT,
            event="command",
            principal="ada",
            command="pause",
            connector="a",
            outcome="unknown",
        ),
        TrailRequest(AT_MS, "ada", "a", TrailVerb.PAUSE),
    ),
    "an error after the record was written": (
        COMMON.format("POST /connectors/a/restart HTTP/1.1", 500),
        TrailRequest(AT_MS, "ada", "a", TrailVerb.RESTART),
    ),
}


@pytest.mark.parametrize("which", READ)
def test_lines_of_changes_are_read(which: str) -> None:
    """Lines of changes are read with user, time and connector."""
    line, request = READ[which]
    read = read_trail([line])
    assert (read.requests, read.problems, read.lines) == ([request], [], 1)


NO_CHANGE = (
    "",
    COMMON.format("GET /connectors/a/config HTTP/1.1", 200),
    COMMON.format("PUT /connectors/a/config HTTP/1.1", 409),
    COMMON.format("PUT /connector-plugins/X/config/validate HTTP/1.1", 200),
    COMMON.format("POST /admin/loggers HTTP/1.1", 200),
    event(time=AT, user="ada", method="GET", path="/connectors"),
    event(time=AT, user="ada", method="DELETE", path="/connectors/a", status=404),
    event(at_ms=AT_MS, principal="ada", command="stop", connector="a", outcome="refused"),
    event(time=AT, user="ada", method="PUT", path="/connectors/a/stop", outcome="Denied"),
    event(time=AT, user="ada", type="login"),
    event(time=AT, user="ada", resourceName="crn:///kafka=k/topic=orders"),
)


@pytest.mark.parametrize("line", NO_CHANGE)
def test_lines_without_changes_are_ignored(line: str) -> None:
    """Reads, refusals, and requests and other events about no connector are ignored."""
    read = read_trail([line])
    assert (read.requests, read.problems) == ([], [])


UNREADABLE = {
    "{": "line 1 is no JSON object",
    event(time=AT, connector="a"): "names no principal",
    event(principal="ada", connector="a"): "has no time: give it",
    event(principal="ada", time="yesterday", connector="a"): "has no time: 'yesterday'",
    event(principal="ada", time=True, connector="a"): "has no time: give it",
    event(principal="ada", time=-1e308, connector="a"): "has no time: give it",
    "hello": "is neither JSON nor a log line of `serve` nor a line of an access log",
    COMMON.format("PUT /connectors/a/stop H", 200).replace("Nov", "Brumaire"): "has no time",
    COMMON.format("PUT /connectors/a/stop H", 200).replace("21/Nov", "31/Nov"): "has no time",
}


@pytest.mark.parametrize("line", UNREADABLE)
def test_unreadable_lines_are_reported(line: str) -> None:
    """An unreadable line is reported with its number and the reason; all other lines are read."""
    good = COMMON.format("PUT /connectors/a/stop HTTP/1.1", 202)
    read = read_trail([line, good])
    assert len(read.requests) == 1
    (problem,) = read.problems
    assert problem.startswith("line 1 ")
    assert UNREADABLE[line] in problem


@pytest.mark.parametrize(
    "line",
    [
        COMMON.format("\\x16\\x03", 400) + ' "-" "' + 100_000 * " [x" + '"',
        COMMON.format("GET /" + 300_000 * "a", 400).replace("400 ", "x"),
        COMMON.replace(" ada ", 100_000 * ' [x] "GET y').format("GET /", "x"),
    ],
    ids=["agent", "path", "user"],
)
def test_long_lines_take_linear_time(line: str) -> None:
    """Clients write agents, paths and users; a line of 300 KB takes milliseconds, not minutes."""
    begun_s = process_time()
    assert len(read_trail([line]).problems) == 1
    assert process_time() - begun_s < 5


def test_a_long_query_with_a_line_break_takes_linear_time() -> None:
    """A query may repeat the path, and hold a line break that its sender has escaped."""
    path = 10_000 * "/connectors?" + "\nx"
    begun_s = process_time()
    read = read_trail([event(time=AT, user="ada", method="POST", path=path)])
    assert read.requests == [TrailRequest(AT_MS, "ada", None, TrailVerb.CREATE)]
    assert process_time() - begun_s < 5


# --- users -------------------------------------------------------------------------------------


def stopped(log: PlantedLog, *requests: TrailRequest) -> Finding:
    """Finding about connector `a`, stopped in a log whose audit stream has these requests."""
    cluster = log.target("a", STOPPED).cluster("lab")._replace(trail=RequestTrail(requests))
    (finding,) = (finding for finding in audit([cluster]) if finding.kind == "target-changed")
    return finding


def trail_request(
    who: str, after_ms: int = 0, connector: str | None = "a", verb: TrailVerb = TrailVerb.STOP
) -> Any:
    """Request of an audit stream; its time is `after_ms` after the record of the stop."""
    return TrailRequest(START_MS + 2 * SECOND + after_ms, who, connector, verb)


def test_headers_win_over_the_audit_stream() -> None:
    """Headers of our control plane name the user, whatever the audit stream says."""
    sentence = stopped(PlantedLog().config("a").by("ada", "17"), trail_request("bob")).sentence
    assert "by ada (command 17) at" in sentence
    assert "bob" not in sentence


NAMED = {
    "before the record": ([trail_request("bob", -5 * SECOND)], " by bob (audit stream) at"),
    "soon after the record": ([trail_request("bob", 5 * SECOND)], " by bob (audit stream) at"),
    "too early": ([trail_request("bob", -HOUR)], "STOPPED at"),
    "too late": ([trail_request("bob", HOUR)], "STOPPED at"),
    "another connector": ([trail_request("bob", connector="b")], "STOPPED at"),
    "another change": ([trail_request("bob", verb=TrailVerb.PAUSE)], "STOPPED at"),
    "no connector in the request": ([trail_request("bob", connector=None)], "most likely by bob"),
    "one of two requests with a connector": (
        [trail_request("eve", connector=None), trail_request("bob")],
        " by bob (audit",
    ),
    "two users": (
        [trail_request("bob", -3 * SECOND), trail_request("eve", SECOND)],
        "by one of eve, bob (all of them",
    ),
    "two requests of one user": (
        [trail_request("bob", -3 * SECOND), trail_request("bob", SECOND)],
        " by bob (audit",
    ),
    "no request": ([], "STOPPED at"),
}


@pytest.mark.parametrize("which", NAMED)
def test_a_request_is_matched_by_time_connector_and_change(which: str) -> None:
    """A request near in time matches, unless it names another connector or another change."""
    requests, words = NAMED[which]
    assert words in stopped(PlantedLog().config("a"), *requests).sentence
