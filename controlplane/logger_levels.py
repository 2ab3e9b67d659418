"""Loggers of a process and their levels, under Log4j's level names (KIP-495, KIP-976).

Python's `logging` has the model of Log4j. A logger exists once it was requested by name. It has its
own level, or that of its nearest ancestor. So this module shows and sets Python's loggers, such as
`controlplane` and `aiokafka`. A Java name can also be set; its level is stored, but nothing logs
under it. Kafka has no limit for the loggers that requests create. Here the limit is `LOGGERS_KEPT`.

Source: `Loggers`, and before 3.7 `LoggingResource`.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from controlplane.core.commands import SetLoggerLevel
from controlplane.core.decide.topics import level_named
from controlplane.core.java.java_library import string_order
from controlplane.core.releases.profiles import Profile

ROOT = "root"

LOGGER = "controlplane"
"""Logger of a control plane's own events."""

LEVELS = {
    "ALL": 1,  # in Python, 0 means that the logger has no level of its own
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": 2**31 - 1,
}
"""Levels of Log4j with their numbers in Python, ascending."""


NAME_LENGTH = 255
"""Maximum length of the name of a logger that a request creates, in characters."""

LOGGERS_KEPT = 5_000
"""Maximum entries in the hierarchy: a request creates no logger that could exceed it. Loggers are
never removed. Missing ancestors are entries, too. A worker has some hundred."""


class UnknownLogger(LookupError):
    """No logger has this name: nothing has requested it."""


class LoggerRefused(ValueError):
    """The logger does not exist, and may not be created: `NAME_LENGTH`, `LOGGERS_KEPT`."""


class Loggers:
    """Loggers of a hierarchy, with the times of the changes made through this object.

    `now_ms` is the clock. The default hierarchy is a `separate_hierarchy`, so that an embedding
    program keeps its logging; `logging.root.manager` is the process's own.
    """

    def __init__(self, now_ms: Callable[[], int], hierarchy: logging.Manager | None = None) -> None:
        self._now_ms = now_ms
        self._hierarchy = hierarchy or separate_hierarchy()
        self._changed_ms: dict[str, int] = {}

    def named(self, name: str) -> logging.Logger:
        """Return the logger of a name; it exists from now on."""
        return self._hierarchy.getLogger(name)

    def levels(self, profile: Profile) -> dict[str, Any]:
        """`GET /admin/loggers`: loggers with a level of their own.

        Some releases list all loggers instead, except those whose effective level is OFF.
        """
        loggers = self._existing_loggers()
        return {
            name: self._logger_body(name, loggers[name], profile)
            for name in sorted(loggers, key=string_order)
            if _is_listed(loggers[name], profile)
        }

    def level(self, name: str, profile: Profile) -> dict[str, Any]:
        """`GET /admin/loggers/{l}`: the effective level of a logger.

        Raises:
            UnknownLogger: nothing has requested this logger yet.
        """
        name, loggers = _root_or(name), self._existing_loggers()
        if name not in loggers:
            raise UnknownLogger(name)
        return self._logger_body(name, loggers[name], profile)

    def check(self, namespace: str) -> None:
        """Check that a logger exists, or may be created.

        Raises:
            LoggerRefused: the name is too long, or there are too many loggers.
        """
        if _root_or(namespace) in self._existing_loggers():
            return
        if len(namespace) > NAME_LENGTH:
            raise LoggerRefused(
                f"The name of a new logger has at most {NAME_LENGTH} characters, "
                f"not {len(namespace)}."
            )
        if len(self._hierarchy.loggerDict) + namespace.count(".") >= LOGGERS_KEPT:
            raise LoggerRefused(
                f"The maximum is {LOGGERS_KEPT} loggers: set the level of one that exists."
            )

    def change(self, namespace: str, level: str, profile: Profile) -> list[str]:
        """Set a logger and its descendants to a level of `LEVELS`; return their names, sorted.

        As in Kafka, a descendant is any name that begins with the namespace, even without a dot
        behind it. Some releases set only descendants with a level of their own. They return only
        the loggers whose effective level changed.

        Raises:
            LoggerRefused: the logger does not exist, and may not be created.
        """
        self.check(namespace)
        top, number = _root_or(namespace), LEVELS[level]
        loggers = self._beneath(top)
        before = {name: logger.getEffectiveLevel() for name, logger in loggers.items()}
        for name, logger in loggers.items():
            if profile.rest_unset_loggers:
                sets = name == top or logger.level != logging.NOTSET
            else:
                sets = before[name] != number or not profile.rest_logger_times
            if sets:
                logger.setLevel(number)
        changed = [
            name
            for name, logger in loggers.items()
            # In Log4j 2 a logger that is off has no level, so any level is a change for it.
            if logger.getEffectiveLevel() != before[name]
            or (profile.rest_unset_loggers and before[name] == LEVELS["OFF"])
        ]
        self._changed_ms |= dict.fromkeys(changed, self._now_ms())
        return sorted(changed if profile.rest_unset_loggers else loggers, key=string_order)

    def carry_out(self, command: SetLoggerLevel, profile: Profile) -> None:
        """Set the level of a command in this process; every worker of the cluster does the same.

        The record is written already, so a logger that may not be created here is skipped.
        """
        level = level_named(command.level, profile)
        if isinstance(level, str):
            with suppress(LoggerRefused):
                self.change(command.namespace, level, profile)

    def _existing_loggers(self) -> dict[str, logging.Logger]:
        """Return all loggers by name, without Python's placeholders for missing ancestors."""
        entries = [*self._hierarchy.loggerDict.items()]  # a copy: other threads add loggers
        loggers = {name: entry for name, entry in entries if isinstance(entry, logging.Logger)}
        return loggers | {ROOT: self._hierarchy.root}

    def _beneath(self, top: str) -> dict[str, logging.Logger]:
        loggers = self._existing_loggers()
        if top == ROOT:
            return loggers
        beneath = {name: loggers[name] for name in loggers if name.startswith(top) and name != ROOT}
        return {top: self.named(top)} | beneath

    def _logger_body(self, name: str, logger: logging.Logger, profile: Profile) -> dict[str, Any]:
        body: dict[str, Any] = {"level": _level_name(logger.getEffectiveLevel())}
        if profile.rest_logger_times:
            body["last_modified"] = self._changed_ms.get(name)
        return body


def separate_hierarchy(level: int = logging.INFO) -> logging.Manager:
    """Return a logger hierarchy independent of the process's own; `level` is its root's."""
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
    """Return the name of a level; a number between two levels gets the name of the higher one."""
    return next(name for name, level in LEVELS.items() if level >= min(number, LEVELS["OFF"]))
