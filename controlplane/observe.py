"""Log lines: one per event on standard error, as `key=value` pairs or as JSON objects.

The loggers are made here and handed on; nothing global is set, so that a program that embeds the
control plane keeps its own logging. What they tell follows the level of a logger of Python's, which
may change while they are used (`/admin/loggers`).
"""

import logging
import re
import sys
from typing import Any, Literal, Protocol, TextIO, get_args

import msgspec
import structlog
from structlog.typing import EventDict, Processor

from controlplane.clock import now_ms
from controlplane.core.moments import time_text
from controlplane.core.redact import redacted_text

LogFormat = Literal["logfmt", "json"]
LOG_FORMATS: tuple[LogFormat, ...] = get_args(LogFormat)


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of log lines (`log.`)."""

    format: LogFormat = "logfmt"
    """`logfmt` for people, `json` for log collectors: one JSON object per line."""


class Logger(Protocol):
    """What is needed of a logger: structlog's have it, and so have their stand-ins."""

    def info(self, event: str, **facts: Any) -> Any:
        """Something happened as it should."""
        ...

    def warning(self, event: str, **facts: Any) -> Any:
        """Something went wrong and is being dealt with."""
        ...

    def exception(self, event: str, **facts: Any) -> Any:
        """A defect of ours; the traceback goes with it."""
        ...


_MAY_HOLD_SECRETS = re.compile(r"[=:\s]")
"""What stands in front of every secret in a text; most facts have nothing of it."""


def _without_secrets(_logger: Any, _method: str, facts: EventDict) -> EventDict:
    """Reasons, targets and tracebacks repeat what somebody sent."""
    return {
        name: redacted_text(fact)
        if isinstance(fact, str) and _MAY_HOLD_SECRETS.search(fact)
        else fact
        for name, fact in facts.items()
    }


def _one_line(_logger: Any, _method: str, facts: EventDict) -> EventDict:
    """Strangers choose paths and names: what would move a terminal is printed as an escape."""
    return {name: _printable(fact) for name, fact in facts.items()}


def _printable(fact: Any) -> Any:
    if not isinstance(fact, str) or fact.isprintable():
        return fact
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in fact
    )


def _stamped(_logger: Any, _method: str, facts: EventDict) -> EventDict:
    """Add the time in the format of every other output."""
    return {**facts, "timestamp": time_text(now_ms())}


_ORDER = ("timestamp", "level", "event")


def _in_order(_logger: Any, _method: str, facts: EventDict) -> EventDict:
    """Facts that every line has come first."""
    return {name: facts[name] for name in (*_ORDER, *facts)}


_COMMON: tuple[Processor, ...] = (
    structlog.processors.add_log_level,
    structlog.processors.format_exc_info,
    _without_secrets,
    _stamped,
)
_PROCESSORS: dict[LogFormat, tuple[Processor, ...]] = {
    "logfmt": (*_COMMON, _one_line, structlog.processors.LogfmtRenderer(key_order=_ORDER)),
    # JSON escapes whatever would move a terminal by itself.
    "json": (*_COMMON, _in_order, structlog.processors.JSONRenderer(ensure_ascii=True)),
}


def logger(
    stream: TextIO | None = None,
    level: logging.Logger | None = None,
    log_format: LogFormat = "logfmt",
) -> Logger:
    """A logger that writes to a stream (standard error), one line per event.

    It writes the events that the logger `level` would let pass, by its level at that moment.
    """
    lines = structlog.WriteLogger(stream or sys.stderr)
    made: Logger = structlog.wrap_logger(
        lines,
        processors=_PROCESSORS[log_format],
        wrapper_class=structlog.make_filtering_bound_logger("notset"),
        cache_logger_on_first_use=True,
    )
    return made if level is None else _Heeding(made, level)


class Passing(logging.Handler):
    """Tells what libraries log, with the name of their logger."""

    def __init__(self, told: Logger) -> None:
        super().__init__()
        self._told = told

    def emit(self, record: logging.LogRecord) -> None:
        """Tell one record. What cannot be told is left to `logging`, as it is for any handler."""
        tell = self._told.info if record.levelno < logging.WARNING else self._told.warning
        facts = {"exc_info": record.exc_info} if record.exc_info else {}
        try:
            tell(record.getMessage(), logger=record.name, **facts)
        except Exception:  # noqa: BLE001 - a library's mistake in what it logs
            self.handleError(record)


def silent() -> Logger:
    """A logger that tells nobody."""
    return _Silent()


class _Heeding:
    def __init__(self, told: Logger, level: logging.Logger) -> None:
        self._told, self._level = told, level

    def info(self, event: str, **facts: Any) -> None:
        if self._level.isEnabledFor(logging.INFO):
            self._told.info(event, **facts)

    def warning(self, event: str, **facts: Any) -> None:
        if self._level.isEnabledFor(logging.WARNING):
            self._told.warning(event, **facts)

    def exception(self, event: str, **facts: Any) -> None:
        if self._level.isEnabledFor(logging.ERROR):
            self._told.exception(event, **facts)


class _Silent:
    def info(self, event: str, **facts: Any) -> None:
        pass

    def warning(self, event: str, **facts: Any) -> None:
        pass

    def exception(self, event: str, **facts: Any) -> None:
        pass
