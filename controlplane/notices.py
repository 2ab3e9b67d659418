"""Interface for notices to operators: ended commands, log outages, failed upkeep, recoveries."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol


class Notices(Protocol):
    """Receives notices for operators; a structlog logger fits."""

    def info(self, event: str, **facts: Any) -> Any:
        """Report a normal event; `facts` are the fields of the log event."""
        ...

    def warning(self, event: str, **facts: Any) -> Any:
        """Report a problem; `facts` are the fields of the log event."""
        ...


class LeveledNotices:
    """Base of receivers that may ignore `info`; `takes_info` returns True while they take it."""

    def __init__(self, takes_info: Callable[[], bool]) -> None:
        self.takes_info = takes_info


class HarmlessNotices(LeveledNotices):
    """Passes notices on to a receiver that may raise: its file may be full, its pipe closed.

    Such a notice is lost. The command or the outage that it reports takes its course.
    """

    def __init__(self, notices: Notices) -> None:
        super().__init__(info_check(notices))
        self._notices = notices

    def info(self, event: str, **facts: Any) -> None:
        """Pass on the notice of a normal event."""
        with suppress(Exception):
            self._notices.info(event, **facts)

    def warning(self, event: str, **facts: Any) -> None:
        """Pass on the notice of a problem."""
        with suppress(Exception):
            self._notices.warning(event, **facts)


def info_check(notices: object) -> Callable[[], bool]:
    """Return a check that is true while a receiver takes `info`.

    Call the check before computing the facts of an event. A receiver without levels takes every
    event.
    """
    return notices.takes_info if isinstance(notices, LeveledNotices) else always


def always() -> bool:
    """Return True: the check of a receiver that takes every event."""
    return True
