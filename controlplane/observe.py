"""Telling what happens: one line per event on standard error, as `key=value` pairs.

The loggers are made here and handed on; nothing global is set, so that a program that embeds the
control plane keeps its own logging.
"""

import logging
import sys
from typing import Any, Protocol, TextIO

import structlog
from structlog.typing import EventDict, Processor


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


def _one_line(_logger: Any, _method: str, facts: EventDict) -> EventDict:
    """Strangers choose paths and names: what would move a terminal is printed as an escape."""
    return {name: _printable(fact) for name, fact in facts.items()}


def _printable(fact: Any) -> Any:
    if not isinstance(fact, str) or fact.isprintable():
        return fact
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in fact
    )


_ORDER = ("timestamp", "level", "event")

_PROCESSORS: tuple[Processor, ...] = (
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
    _one_line,
    structlog.processors.LogfmtRenderer(key_order=_ORDER),
)


def logger(stream: TextIO | None = None, *, quiet: bool = False) -> Logger:
    """A logger that writes to a stream (standard error); `quiet` keeps it to what went wrong."""
    lines = structlog.WriteLogger(stream or sys.stderr)
    level = "warning" if quiet else "info"
    made: Logger = structlog.wrap_logger(
        lines,
        processors=_PROCESSORS,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    return made


def heeding(told: Logger, level: logging.Logger) -> Logger:
    """A logger that tells what one of Python's would, by the level that it has just then."""
    return _Heeding(told, level)


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
