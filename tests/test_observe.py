"""Log lines: one per event, for people and machines, safe against foreign text."""

import errno
import io
import json
import logging
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TextIO

import pytest

from controlplane.notices import info_check
from controlplane.observe import (
    MOST_WARNINGS,
    RepeatedWarnings,
    StdlibLogBridge,
    connector_context,
    logger,
    silent,
)


def hierarchy(level: int) -> logging.Manager:
    """Loggers that no other test uses."""
    return logging.Manager(logging.RootLogger(level))


def test_time_level_and_event_come_first() -> None:
    """Time, level and event come first, then the facts in the order in which they were given."""
    stream = io.StringIO()
    logger(stream).info("request", status=200, target="/a b")
    head, _, rest = stream.getvalue().partition(" ")
    assert head.startswith("timestamp=")
    assert head.endswith("Z")
    assert rest == 'level=info event=request status=200 target="/a b"\n'


def test_facts_are_made_only_for_a_logger_that_writes_them() -> None:
    """The check follows the level as it changes; a foreign logger gets every event."""
    level = hierarchy(logging.WARNING).getLogger("ours")
    takes_info = info_check(logger(io.StringIO(), level))
    assert not takes_info()
    level.setLevel(logging.INFO)
    assert takes_info()
    assert info_check(logger(io.StringIO()))()
    assert info_check(object())()
    assert not info_check(silent())()


def test_strangers_cannot_write_lines_of_their_own() -> None:
    """Control characters, bidirectional marks and lone surrogates are escaped."""
    stream = io.StringIO()
    logger(stream).info("request", target="\r\n\x1b[2J\u202e\ud800")
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().isascii()
    assert r"\r\n\x1b[2J\u202e\ud800" in stream.getvalue()


def test_each_json_line_is_one_object() -> None:
    """Each line is one object: time, level and event first. Foreign text cannot begin a line."""
    stream = io.StringIO()
    tell = logger(stream, log_format="json")
    tell.info("request", status=200, target="/a\nb\u202e\ud800", peer=None)
    try:
        int("password=s3cret")
    except ValueError:
        tell.exception("defect")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert [*first] == ["timestamp", "level", "event", "status", "target", "peer"]
    assert (first["event"], first["status"], first["peer"]) == ("request", 200, None)
    assert first["target"] == "/a\nb\u202e\ud800"
    assert stream.getvalue().isascii()
    assert "ValueError" in second["exception"]
    assert "s3cret" not in stream.getvalue()


def test_log_lines_contain_no_secrets() -> None:
    """A log line contains no secret of a request, nor of an error that repeats it."""
    stream = io.StringIO()
    tell = logger(stream)
    tell.info("request", target="/connectors?password=s3cret&as_of=config@57")
    tell.warning("refused", reason="Invalid value {db.password=s3cret, name=x}")
    try:
        int("Authorization: Bearer s3cret")
    except ValueError:
        tell.exception("defect", target="https://ann:s3cret@host/")
    for text in ("<password>s3cret</password>", "password%3Ds3cret", "password&equals;s3cret"):
        tell.info("answer", text=text)
    tell.info("command", differences=["password=s3cret", {"a": "token:s3cret"}])
    assert "s3cret" not in stream.getvalue()
    assert "as_of=config@57" in stream.getvalue()


def test_logged_events_follow_a_level() -> None:
    """The logger follows the level of a Python logger, also after a change."""
    stream = io.StringIO()
    level = hierarchy(logging.WARNING).getLogger("any")
    quiet = logger(stream, level)
    quiet.info("first")
    quiet.warning("log_not_followed", reason="gone")
    assert " level=warning event=log_not_followed reason=gone\n" in stream.getvalue()
    level.setLevel(logging.INFO)
    quiet.info("second")
    level.setLevel(logging.CRITICAL)
    quiet.warning("third")
    quiet.exception("fourth")
    events = [line.partition("event=")[2].split()[0] for line in stream.getvalue().splitlines()]
    assert events == ["log_not_followed", "second"]


def test_log_lines_of_libraries_are_passed_on() -> None:
    """A line has the name of the library's logger, and the traceback if there is one."""
    stream = io.StringIO()
    library = hierarchy(logging.INFO).getLogger("some.library")
    library.addHandler(StdlibLogBridge(logger(stream)))
    library.info("%d things", 3)
    try:
        int("oops")
    except ValueError:
        library.exception("failed")
    first, second = stream.getvalue().splitlines()
    assert first.endswith('level=info event="3 things" logger=some.library')
    assert " level=warning event=failed logger=some.library " in second
    assert "ValueError: invalid literal" in second


def test_a_malformed_log_call_of_a_library_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    """Python reports the malformed call, and the program goes on."""
    library = hierarchy(logging.INFO).getLogger("some.library")
    library.addHandler(StdlibLogBridge(logger(io.StringIO())))
    library.info("%d things", "three")
    assert "%d format" in capsys.readouterr().err


def warn(library: logging.Logger, at_s: float, message: str, *args: object) -> None:
    """Log a warning at a time."""
    record = library.makeRecord(library.name, logging.WARNING, "", 0, message, args, None)
    record.created = at_s
    library.handle(record)


def test_a_repeated_warning_is_printed_every_ten_seconds() -> None:
    """The next line says how many were omitted; tasks and messages are counted separately."""
    stream = io.StringIO()
    bridge = StdlibLogBridge(logger(stream))
    bridge.addFilter(RepeatedWarnings("library"))
    loggers = hierarchy(logging.DEBUG)
    library, other = loggers.getLogger("library.part"), loggers.getLogger("other")
    library.parent = other.parent = None
    library.addHandler(bridge)
    other.addHandler(bridge)
    for at_s in (100.0, 100.1, 109.9, 110.0):
        warn(library, at_s, "no node %d", 1)
    warn(library, 110.1, "no node %d", 2)
    warn(library, 110.1, "%d format", "none")
    with connector_context("pages", "task-0"):
        warn(library, 110.2, "no node %d", 1)
    warn(other, 110.3, "mine")
    warn(other, 110.4, "mine")
    library.debug("asked for")
    library.debug("asked for")
    lines = [line.partition("event=")[2] for line in stream.getvalue().splitlines()]
    assert lines == [
        '"no node 1" logger=library.part',
        '"no node 1" logger=library.part left_out=2',
        '"no node 2" logger=library.part',
        '"no node 1" connector.context=[pages|task-0] logger=library.part',
        "mine logger=other",
        "mine logger=other",
        '"asked for" logger=library.part',
        '"asked for" logger=library.part',
    ]


def test_warnings_are_printed_after_the_clock_was_set_back() -> None:
    """A clock that is an hour behind its former time omits no warning for an hour."""
    repeated = RepeatedWarnings("")
    record = logging.makeLogRecord({"levelno": logging.WARNING, "msg": "no node"})
    printed = []
    for record.created in (3_700.0, 100.0, 101.0, 110.0):
        printed.append(repeated.filter(record))
    assert printed == [True, True, False, True]


def test_a_warning_without_a_text_raises_nothing() -> None:
    """A warning whose arguments have no text passes: its handler reports the mistake."""

    class Wordless:
        def __repr__(self) -> str:
            raise RuntimeError

    record = logging.LogRecord("kafka", logging.WARNING, "", 0, "%s", (Wordless(),), None)
    assert RepeatedWarnings("kafka").filter(record)


def test_the_oldest_warning_is_forgotten_first() -> None:
    """Beyond the limit, the warning that occurred longest ago is printed again at once."""
    repeated = RepeatedWarnings("")
    record = logging.makeLogRecord({"levelno": logging.WARNING, "created": 1.0})
    for number in range(MOST_WARNINGS + 1):
        record.msg = f"warning {number}"
        assert repeated.filter(record)
    assert not repeated.filter(record)
    record.msg = "warning 0"
    assert repeated.filter(record)


def test_threads_share_the_filter_of_warnings() -> None:
    """Threads that log many different warnings at once get no error."""
    repeated = RepeatedWarnings("")

    def warn_often(thread: int) -> None:
        for number in range(5 * MOST_WARNINGS):
            fields = {"levelno": logging.WARNING, "created": 1.0, "msg": f"{thread}: {number}"}
            assert repeated.filter(logging.makeLogRecord(fields))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor() as threads:
            list(threads.map(warn_often, range(8)))
    finally:
        sys.setswitchinterval(interval)


def test_a_defect_is_one_line_too() -> None:
    """The line contains the traceback, with escaped line ends."""
    stream = io.StringIO()
    try:
        int("oops")
    except ValueError:
        logger(stream).exception("defect")
    assert stream.getvalue().count("\n") == 1
    assert "ValueError: invalid literal" in stream.getvalue()


def test_the_silent_logger_has_all_methods() -> None:
    """The silent logger takes an event with facts at every level."""
    nobody = silent()
    for tell in (nobody.info, nobody.warning, nobody.exception):
        tell("event", fact=1)


def closed_stream() -> TextIO:
    """Stream that a connector has closed."""
    stream = io.StringIO()
    stream.close()
    return stream


def full_stream() -> TextIO:
    """Stream to a full disk."""

    class Full(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    return Full()


@pytest.mark.parametrize("stream", [closed_stream, full_stream])
@pytest.mark.parametrize("level", [None, logging.INFO])
def test_lines_that_cannot_be_written_are_dropped(
    stream: Callable[[], TextIO], level: int | None
) -> None:
    """The logger drops them; no caller gets an exception."""
    levels = None if level is None else hierarchy(level).getLogger("any")
    unwritten = logger(stream(), levels)
    unwritten.info("request", status=200)
    unwritten.warning("refused")
    try:
        int("x")
    except ValueError:
        unwritten.exception("defect")


def test_facts_without_a_text_lose_their_line() -> None:
    """A fact without a text loses its line, and raises nothing."""

    class Unshowable:
        def __repr__(self) -> str:
            raise RuntimeError

        __str__ = __repr__

    stream = io.StringIO()
    logger(stream).info("first", fact=Unshowable())
    logger(stream).info("second")
    assert "second" in stream.getvalue()


def test_a_wrong_record_of_a_library_raises_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A malformed record raises nothing into the library, even while standard error is closed."""
    monkeypatch.setattr(sys, "stderr", closed_stream())
    wrong = logging.LogRecord("kafka", logging.WARNING, "", 0, "%d", ("x",), None)
    StdlibLogBridge(silent()).handle(wrong)
