"""Log lines: one per event on standard error, as `key=value` pairs or as JSON objects.

Loggers are created here and passed as arguments. Nothing global is set, so an embedding program
keeps its own logging. The level follows a Python logger, which may change at run time
(`/admin/loggers`).
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from threading import RLock
from typing import Any, Literal, Protocol, TextIO, get_args

import msgspec
import structlog
from structlog.typing import EventDict, Processor

from controlplane.core.moments import time_text
from controlplane.core.text.redaction import redacted_text, redacted_value
from controlplane.event_loop import now_ms
from controlplane.notices import LeveledNotices, always

LogFormat = Literal["logfmt", "json"]
LOG_FORMATS: tuple[LogFormat, ...] = get_args(LogFormat)


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the format of log lines (`log.`)."""

    format: LogFormat = "logfmt"
    """`logfmt` for people, `json` for log collectors: one JSON object per line."""


class Logger(Protocol):
    """Protocol of loggers; structlog's loggers implement it."""

    def info(self, event: str, **facts: Any) -> Any:
        """Log a normal event, with its facts as fields."""
        ...

    def warning(self, event: str, **facts: Any) -> Any:
        """Log a problem that is being handled."""
        ...

    def exception(self, event: str, **facts: Any) -> Any:
        """Log an unexpected exception with its traceback."""
        ...


_CONNECTOR: ContextVar[str] = ContextVar("connector context")

CONNECTOR_CONTEXT = "connector.context"
"""Field of a log line about a connector or a task (KIP-449)."""


@contextmanager
def connector_context(connector: str, *scopes: str) -> Iterator[None]:
    """Mark all log lines of the block as being about a connector: `[name|task-0|offsets]`.

    Source: `LoggingContext`; there the text is a prefix and ends with a space.
    """
    token = _CONNECTOR.set(f"[{'|'.join((connector, *scopes))}]")
    try:
        yield
    finally:
        _CONNECTOR.reset(token)


def present_connector_context() -> str | None:
    """Return the connector or task for which the present thread or coroutine works, if any."""
    return _CONNECTOR.get(None)


def _add_context(_logger: Any, _method: str, facts: EventDict) -> EventDict:
    """Add the connector or task for which the present thread or coroutine works."""
    context = present_connector_context()
    return facts if context is None else {**facts, CONNECTOR_CONTEXT: context}


def _redact(_logger: Any, _method: str, facts: EventDict) -> EventDict:
    """Hide secrets in all facts: reasons, targets and tracebacks quote untrusted input."""
    return {name: _redacted_fact(fact) for name, fact in facts.items()}


def _redacted_fact(fact: Any) -> Any:
    if isinstance(fact, str):
        return redacted_text(fact)
    return redacted_value("", fact) if isinstance(fact, list | tuple | dict) else fact


def _escape_control_characters(_logger: Any, _method: str, facts: EventDict) -> EventDict:
    """Escape control characters: clients choose paths and names, and must not forge lines."""
    return {name: _printable(fact) for name, fact in facts.items()}


def _printable(fact: Any) -> Any:
    if not isinstance(fact, str) or fact.isprintable():
        return fact
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in fact
    )


def _add_time(_logger: Any, _method: str, facts: EventDict) -> EventDict:
    """Add the time, in the same format as in all other outputs."""
    return {**facts, "timestamp": time_text(now_ms())}


_ORDER = ("timestamp", "level", "event", CONNECTOR_CONTEXT)


def _sort_fields(_logger: Any, _method: str, facts: EventDict) -> EventDict:
    """Put the fields that every line has first."""
    return {name: facts[name] for name in (*_ORDER, *facts) if name in facts}


_COMMON: tuple[Processor, ...] = (
    structlog.processors.add_log_level,
    structlog.processors.format_exc_info,
    _add_context,
    _redact,
    _add_time,
)
_PROCESSORS: dict[LogFormat, tuple[Processor, ...]] = {
    "logfmt": (
        *_COMMON,
        _escape_control_characters,
        structlog.processors.LogfmtRenderer(key_order=_ORDER, drop_missing=True),
    ),
    # JSON itself escapes control characters.
    "json": (*_COMMON, _sort_fields, structlog.processors.JSONRenderer(ensure_ascii=True)),
}


def logger(
    stream: TextIO | None = None,
    level: logging.Logger | None = None,
    log_format: LogFormat = "logfmt",
) -> Logger:
    """Return a logger that writes one line per event to a stream (default: standard error).

    It writes an event only if the logger `level` is enabled for the event's level at that moment.
    A line that cannot be written is dropped: a closed stream or a full disk stops no caller.
    """
    lines = structlog.WriteLogger(stream or sys.stderr)
    structured: Logger = structlog.wrap_logger(
        lines,
        processors=_PROCESSORS[log_format],
        wrapper_class=structlog.make_filtering_bound_logger("notset"),
        cache_logger_on_first_use=True,
    )
    return _SafeLogger(structured, level)


class StdlibLogBridge(logging.Handler):
    """Logging handler that forwards records of libraries, with the name of their logger."""

    def __init__(self, target: Logger) -> None:
        super().__init__()
        self._target = target

    def emit(self, record: logging.LogRecord) -> None:
        """Forward one record; `logging` handles a record that cannot be formatted."""
        log_event = self._target.info if record.levelno < logging.WARNING else self._target.warning
        facts: dict[str, Any] = {"exc_info": record.exc_info} if record.exc_info else {}
        if left_out := getattr(record, LEFT_OUT, 0):
            facts[LEFT_OUT] = left_out
        try:
            log_event(record.getMessage(), logger=record.name, **facts)
        except Exception:  # noqa: BLE001 - a library's mistake in what it logs
            with suppress(Exception):  # standard error may be closed
                self.handleError(record)


LEFT_OUT = "left_out"
"""Field of a log line: number of equal lines before it that were left out."""
REPEAT_S = 10.0
"""Seconds in which equal warnings of a library are written once. While a broker is away, a Kafka
client repeats its warnings ten times a second. Three tasks would write 90 MB an hour."""
MOST_WARNINGS = 1_000
"""Maximum warnings that are remembered, some 300 bytes each. The first to be dropped is the one
that has not occurred for the longest time."""


class RepeatedWarnings(logging.Filter):
    """Filter that leaves out equal warnings of a library about the same connector or task.

    One of them passes every `REPEAT_S`. Errors are treated like warnings. All messages below
    WARNING pass: the user has selected them by the logger's level.
    """

    def __init__(self, library: str) -> None:
        super().__init__(library)
        self._lock = RLock()  # threads log at once; a finalizer may log while its thread filters
        self._passed: dict[tuple[str | None, str, str], tuple[float, int]] = {}
        """Time of the last warning that passed, and number left out since, by context and text."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False for a record to leave out; set `LEFT_OUT` on a warning that passes."""
        if record.levelno < logging.WARNING or not super().filter(record):
            return True
        # Compared unformatted, because formatting fails if the arguments do not fit.
        try:
            key = (_CONNECTOR.get(None), record.name, f"{record.msg!s} {record.args!r}")
        except Exception:  # noqa: BLE001 - the handler reports a record without a text
            return True
        with self._lock:
            passed, left_out = self._passed.pop(key, (-REPEAT_S, 0))
            # The clock may have been set back: then the last time lies ahead.
            is_due = not 0 <= record.created - passed < REPEAT_S
            self._passed[key] = (record.created, 0) if is_due else (passed, left_out + 1)
            if len(self._passed) > MOST_WARNINGS:
                del self._passed[next(iter(self._passed))]
        if is_due:
            setattr(record, LEFT_OUT, left_out)
        return is_due


def silent() -> Logger:
    """Return a logger that discards all events."""
    return _Silent()


class _SafeLogger(LeveledNotices):
    """Passes on events for which `level` is enabled (None: all events); drops lines that fail."""

    def __init__(self, target: Logger, level: logging.Logger | None) -> None:
        check = always if level is None else partial(level.isEnabledFor, logging.INFO)
        super().__init__(check)
        self._target, self.level = target, level

    def _is_enabled(self, level: int) -> bool:
        return self.level is None or self.level.isEnabledFor(level)

    def info(self, event: str, **facts: Any) -> None:
        if self._is_enabled(logging.INFO):
            with suppress(Exception):
                self._target.info(event, **facts)

    def warning(self, event: str, **facts: Any) -> None:
        if self._is_enabled(logging.WARNING):
            with suppress(Exception):
                self._target.warning(event, **facts)

    def exception(self, event: str, **facts: Any) -> None:
        if self._is_enabled(logging.ERROR):
            with suppress(Exception):
                self._target.exception(event, **facts)


class _Silent(LeveledNotices):
    def __init__(self) -> None:
        super().__init__(bool)

    def info(self, event: str, **facts: Any) -> None:
        pass

    def warning(self, event: str, **facts: Any) -> None:
        pass

    def exception(self, event: str, **facts: Any) -> None:
        pass
