"""The fold of the command topic (ours): which commands began, ended, were refused."""

from collections import OrderedDict
from collections.abc import Mapping

import msgspec

from controlplane.core.codec.commands import decode_command
from controlplane.core.entry import Entry
from controlplane.core.evolve.outcome import ACCEPTED, Outcome, fate
from controlplane.core.records import CommandAccepted, CommandFinished, CommandRefused, Invalid
from controlplane.core.shared import CopyOnWrite
from controlplane.core.state import CommandTrace

ENDED_KEPT = 10_000
"""Commands that have ended and are remembered, so that their ids still get the same answer: more
than a fleet's automation sends between a request and the last of its repetitions, and a few
megabytes. A process that runs for years must not remember them all; the log does."""


class CommandFold:
    """Working state of the command topic.

    Of the commands that have ended, the one that ended first is forgotten first, as the log tells
    it: every reader forgets the same ones. One that has not ended is never forgotten.
    """

    def __init__(self) -> None:
        self._commands: CopyOnWrite[str, CommandTrace] = CopyOnWrite()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def publish(self) -> Mapping[str, CommandTrace]:
        """Commands by id: those that have not ended as they began, the others as they ended."""
        return self._commands.publish()

    def adopt(self, commands: Mapping[str, CommandTrace]) -> None:
        """Have what another fold has published."""
        self._commands.take(dict(commands))
        ended = (command_id for command_id, trace in commands.items() if trace.ended)
        self._ended = OrderedDict.fromkeys(ended)

    def apply(self, entry: Entry) -> Outcome:
        """Fold one record; a tombstone forgets the command."""
        record = decode_command(entry.key, entry.value)
        match record:
            case Invalid():
                return fate(record)
            case None:
                self._forget(_id_of(entry.key))
            case CommandAccepted():
                self._put(record.command_id, accepted=record)
            case CommandFinished():
                self._put(record.command_id, finished=record)
            case CommandRefused():
                self._put(record.command_id, refused=record)
        return ACCEPTED

    def _put(
        self, command_id: str, **change: CommandAccepted | CommandFinished | CommandRefused
    ) -> None:
        present = self._commands.items.get(command_id, CommandTrace())
        trace = _without_plan(msgspec.structs.replace(present, **change))
        if not trace.ended:
            self._ended.pop(command_id, None)  # refused once, and accepted now
        elif command_id not in self._ended:
            self._commands.drop(command_id)  # to come last now, so that the order tells who is next
            self._ended[command_id] = None
        self._commands.writable()[command_id] = trace
        if len(self._ended) > ENDED_KEPT:
            self._forget(next(iter(self._ended)))

    def _forget(self, command_id: str | None) -> None:
        if command_id is not None:
            self._commands.drop(command_id)
            self._ended.pop(command_id, None)


def _without_plan(trace: CommandTrace) -> CommandTrace:
    """A command that has ended is not taken up again: its plan, most of it by far, can go."""
    if not trace.ended or trace.accepted is None or trace.accepted.plan is None:
        return trace
    accepted = msgspec.structs.replace(trace.accepted, plan=None)
    return msgspec.structs.replace(trace, accepted=accepted)


def _id_of(key: bytes | None) -> str | None:
    """The id of which these bytes are the key; None: of none."""
    try:
        return (key or b"").decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
