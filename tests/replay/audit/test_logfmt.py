"""Log lines of `controlplane serve` as an audit stream, above all in the format `logfmt`."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.observe import LogFormat, logger
from replay.audit.trail.line_formats import is_logfmt, read_logfmt, read_trail
from replay.audit.trail.request_trail import TrailRequest, TrailVerb

FORMATS: tuple[LogFormat, ...] = ("logfmt", "json")


def line(event: str, log_format: LogFormat = "logfmt", /, **facts: Any) -> str:
    """Log line as our logger writes it."""
    stream = io.StringIO()
    logger(stream, log_format=log_format).info(event, **facts)
    return stream.getvalue().rstrip("\n")


def readable_fact(fact: Any) -> str:
    """Text of a fact as the reader returns it: unprintable characters are escaped."""
    if fact is None or isinstance(fact, bool):
        return {None: "", True: "true", False: "false"}[fact]
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(fact)
    )


TEXTS = st.text() | st.text(alphabet=" =\"\\\n'{}[]:aé😀", max_size=12)
FACTS = st.dictionaries(
    st.sampled_from(["target", "principal", "peer", "status", "reason", "duration_ms"]),
    TEXTS | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False),
)


@given(FACTS)
def test_every_line_of_our_logger_is_read_back(facts: dict[str, Any]) -> None:
    """The reader restores quotes, backslashes and spaces.

    Line breaks and other unprintable characters stay escaped.
    """
    written = line("request", **facts)
    as_json = json.loads(line("request", "json", **facts))
    assert is_logfmt(written)
    read = read_logfmt(written)
    assert read is not None
    assert [*read] == [*as_json]
    same = {**as_json, "timestamp": read["timestamp"]}
    assert read == {name: readable_fact(fact) for name, fact in same.items()}


REQUEST = {"dialect": None, "principal": "ada", "bytes": 0, "peer": "10.1.2.3"}
COMMAND = {"principal": "ada", "reason": None, "records": 2, "command_id": "17", "took_ms": 1}


@pytest.mark.parametrize("log_format", FORMATS)
def test_requests_and_commands_of_our_log_lines_are_read(log_format: LogFormat) -> None:
    """Both values of `--log-format` give the same events; GET requests and refusals give none."""
    stopped = {"method": "PUT", "target": "/compat/3.9/connectors/a%20b/stop", "status": 204}
    lines = [
        line("request", log_format, **REQUEST, **stopped),
        line("request", log_format, **REQUEST, method="GET", target="/connectors/a", status=200),
        line("request", log_format, **REQUEST, **(stopped | {"status": 404})),
        line("command", log_format, **COMMAND, command="stop", connector="a b", outcome="done"),
        line("command", log_format, **COMMAND, command="restore", connector="a", outcome="done"),
        line(
            *("command", log_format),
            **(COMMAND | {"reason": "Unknown connector a"}),
            command="pause",
            connector="a",
            outcome="no such connector",
        ),
    ]
    read = read_trail(lines)
    assert not read.problems
    assert [request._replace(time_ms=0) for request in read.requests] == [
        TrailRequest(0, "ada", "a b", TrailVerb.STOP),
        TrailRequest(0, "ada", "a b", TrailVerb.STOP),
        TrailRequest(0, "ada", "a", None),
    ]


def test_other_log_lines_of_serve_are_not_of_the_trail() -> None:
    """An event without a principal, broken pairs and plain text are reported; none is a request."""
    read = read_trail([line("defect", target="/x"), 'a=b "c', "hello world"])
    assert read.requests == []
    assert [problem.partition(" ")[2].partition(" ")[2] for problem in read.problems] == [
        "names no principal: give it in 'principal'",
        "is no line of key=value pairs",
        "is neither JSON nor a log line of `serve` nor a line of an access log",
    ]
