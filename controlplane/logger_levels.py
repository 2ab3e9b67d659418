"""The loggers of a process and their levels, under the names of Log4j's (KIP-495, KIP-976).

Python's `logging` keeps loggers as Log4j does: by name, each with a level of its own or that of the
nearest one above it, and only those that somebody has asked for. So its loggers are what is shown
and set here, under the names of Log4j's levels. They are Python's: `controlplane`, `aiokafka`. A
name of Java's can be set all the same, and is remembered; nobody logs by it.

Kafka: `Loggers`, and before 3.7 `LoggingResource`.
"""

import logging
from collections.abc import Callable
from typing import Any

from controlplane.core.commands import SetLoggerLevel
from controlplane.core.decide.topics import level_named
from controlplane.core.java.java_library import string_order
from controlplane.core.releases.profiles import Profile

ROOT = "root"

LOGGER = "controlplane"
"""The logger that tells what a control plane does."""

LEVELS = {
    "ALL": 1,  # 0 would be none of its own
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": 2**31 - 1,
}
"""Levels of Log4j and what they are in Python, rising."""


class UnknownLogger(LookupError):
    """A name of which no logger is known."""


class Loggers:
    """The loggers of a hierarchy, and when they were changed by those who ask for it here.

    `now_ms` is the clock. Without a `hierarchy` they are loggers `apart`, so that a program that
    embeds a control plane keeps its logging; `logging.root.manager` is that of the process.
    """

    def __init__(self, now_ms: Callable[[], int], hierarchy: logging.Manager | None = None) -> None:
        self._now_ms = now_ms
        self._hierarchy = hierarchy or apart()
        self._changed_ms: dict[str, int] = {}

    def named(self, name: str) -> logging.Logger:
        """The logger of a name, which is there from now on."""
        return self._hierarchy.getLogger(name)

    def levels(self, profile: Profile) -> dict[str, Any]:
        """`GET /admin/loggers`: those with a level of their own, or all that are not off."""
        known = self._known()
        return {
            name: self._shown(name, known[name], profile)
            for name in sorted(known, key=string_order)
            if _is_listed(known[name], profile)
        }

    def level(self, name: str, profile: Profile) -> dict[str, Any]:
        """`GET /admin/loggers/{l}`: the level that counts for it.

        Raises:
            UnknownLogger: nobody has asked for this logger yet.
        """
        wanted, known = _root_or(name), self._known()
        if wanted not in known:
            raise UnknownLogger(name)
        return self._shown(wanted, known[wanted], profile)

    def change(self, namespace: str, level: str, profile: Profile) -> list[str]:
        """Give a logger and all beneath it a level of `LEVELS`; which those are, in order.

        Beneath it are all whose names begin alike, whether or not a dot comes next.
        """
        top, number = _root_or(namespace), LEVELS[level]
        meant = self._beneath(top)
        before = {name: logger.getEffectiveLevel() for name, logger in meant.items()}
        for name, logger in meant.items():
            if profile.rest_unset_loggers:
                sets = name == top or logger.level != logging.NOTSET
            else:
                sets = before[name] != number or not profile.rest_logger_times
            if sets:
                logger.setLevel(number)
        changed = [
            name
            for name, logger in meant.items()
            # One that is off has no level to Log4j 2, and so it has another one now.
            if logger.getEffectiveLevel() != before[name]
            or (profile.rest_unset_loggers and before[name] == LEVELS["OFF"])
        ]
        self._changed_ms |= dict.fromkeys(changed, self._now_ms())
        return sorted(changed if profile.rest_unset_loggers else meant, key=string_order)

    def obey(self, command: SetLoggerLevel, profile: Profile) -> None:
        """Do what all workers were told, this one among them."""
        level = level_named(command.level, profile)
        if isinstance(level, str):
            self.change(command.namespace, level, profile)

    def _known(self) -> dict[str, logging.Logger]:
        """All that there are. Some names are held for others beneath them, and are no loggers."""
        held = [*self._hierarchy.loggerDict.items()]  # other threads may ask for loggers, too
        there = {name: logger for name, logger in held if isinstance(logger, logging.Logger)}
        return there | {ROOT: self._hierarchy.root}

    def _beneath(self, top: str) -> dict[str, logging.Logger]:
        known = self._known()
        if top == ROOT:
            return known
        alike = {name: known[name] for name in known if name.startswith(top) and name != ROOT}
        return {top: self.named(top)} | alike

    def _shown(self, name: str, logger: logging.Logger, profile: Profile) -> dict[str, Any]:
        shown: dict[str, Any] = {"level": _level_name(logger.getEffectiveLevel())}
        if profile.rest_logger_times:
            shown["last_modified"] = self._changed_ms.get(name)
        return shown


def apart(level: int = logging.INFO) -> logging.Manager:
    """Loggers that have nothing to do with those of the process; the level is that of the root."""
    root = logging.RootLogger(level)
    root.manager = logging.Manager(root)
    return root.manager


def _is_listed(logger: logging.Logger, profile: Profile) -> bool:
    if profile.rest_unset_loggers:
        return logger.getEffectiveLevel() < LEVELS["OFF"]
    return logger.level != logging.NOTSET


def _root_or(name: str) -> str:
    return ROOT if name.lower() == ROOT else name


def _level_name(number: int) -> str:
    """The name of a level; of one in between, that of the lowest that lets no more through."""
    return next(name for name, level in LEVELS.items() if level >= min(number, LEVELS["OFF"]))
