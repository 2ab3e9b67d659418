"""A command under way, and the properties of a command that decide how it runs."""

import asyncio

from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    CommandRequest,
    ConnectorCommand,
    CreateConnector,
    PatchConfig,
    ResetOffsets,
    SetLoggerLevel,
)
from controlplane.core.plan import Outcome, Rejected
from controlplane.core.releases.profiles import Profile

Ended = Outcome | Rejected

CHANGES_WHAT_IS_THERE = PatchConfig, AlterOffsets, ResetOffsets
"""Commands that start from what lies in the log: none of it may be missed."""


class Job:
    """A command under way."""

    task: "asyncio.Task[Ended]"

    def __init__(self, asked: CommandRequest, profile: Profile | None) -> None:
        self.asked = asked
        self.profile = profile
        """The release as which the command runs, where that is not the controller's."""
        self.askers = 0
        """Number of callers that wait for the end."""
        self.begun = False
        """True once anything may have been written."""
        self.since_ms = asked.at_ms
        """The time since when the command waits, or since when it runs."""

    def abandon(self) -> None:
        """No caller waits any more: a command that has not begun never will."""
        if not self.begun:
            self.task.cancel()


def looks_first(command: AnyCommand) -> bool:
    """True if the log is read to its end before the command is decided."""
    with_offsets = isinstance(command, CreateConnector) and command.initial_offsets is not None
    return with_offsets or isinstance(command, CHANGES_WHAT_IS_THERE)


def subject_of(command: AnyCommand) -> dict[str, str]:
    """The connector or logger of a command, for a line of the log."""
    if isinstance(command, SetLoggerLevel):
        return {"namespace": command.namespace, "logger_level": command.level}
    return {"connector": command.connector}


def queue_of(command: AnyCommand) -> str:
    """Name of the queue of a command: commands of one queue run in order."""
    return f"connector {command.connector}" if isinstance(command, ConnectorCommand) else ""
