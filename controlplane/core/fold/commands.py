"""Fold of our command topic: commands that were accepted, finished or refused."""

from collections import OrderedDict
from collections.abc import Mapping

import msgspec

from controlplane.core.codec.command_log import decode_command
from controlplane.core.copy_on_write import CopyOnWrite
from controlplane.core.entry import Entry
from controlplane.core.fold.record_fate import ACCEPTED, RecordFate, fate
from controlplane.core.records import (
    CommandAccepted,
    CommandFinished,
    CommandRefused,
    CommandTrace,
    Invalid,
)

ENDED_KEPT = 10_000
"""Number of ended commands that are kept, so that a repeated id gets the same answer.

Even a client that automates a whole fleet repeats a request before it sends so many others. This
number of commands takes a few megabytes. The log may have more commands; a long-running process
must not keep all of them.
"""


class CommandFold:
    """Working state of the command topic.

    The fold forgets ended commands in the order in which they ended in the log. So all readers
    forget the same ones. It never forgets a command that has not ended.
    """

    def __init__(self) -> None:
        self._commands: CopyOnWrite[str, CommandTrace] = CopyOnWrite()
        self._ended: OrderedDict[str, None] = OrderedDict()  # ids in order of ending

    def publish(self) -> Mapping[str, CommandTrace]:
        """Commands by id, in order of acceptance; a command that ends moves to the back."""
        return self._commands.publish()

    def adopt(self, commands: Mapping[str, CommandTrace]) -> None:
        """Replace the state by one that another fold has published."""
        self._commands.take(dict(commands))
        ended = (command_id for command_id, trace in commands.items() if not trace.unfinished)
        self._ended = OrderedDict.fromkeys(ended)

    def apply(self, entry: Entry) -> RecordFate:
        """Fold one record; a tombstone removes its command."""
        record = decode_command(entry.key, entry.value)
        match record:
            case Invalid():
                return fate(record)
            case None:
                self._forget(_id_of(entry.key))
            case CommandAccepted():
                # The trace may have the end of an earlier command with this id. If the writer
                # had remembered the earlier command, the writer would have repeated the old
                # answer, without a new acceptance. So this acceptance begins a new command,
                # which has no end yet.
                self._put(record.command_id, accepted=record, finished=None)
            case CommandFinished():
                self._put(record.command_id, finished=record)
            case CommandRefused():
                self._put(record.command_id, refused=record)
        return ACCEPTED

    def _put(
        self, command_id: str, **change: CommandAccepted | CommandFinished | CommandRefused | None
    ) -> None:
        """Add a record to the trace of its command; keep at most `ENDED_KEPT` ended commands."""
        previous = self._commands.items.get(command_id, CommandTrace())
        trace = msgspec.structs.replace(previous, **change)
        if trace.accepted is not None and trace.finished is None:
            if command_id in self._ended:
                # An ended or refused command was accepted again: it moves to the end of the order.
                self._forget(command_id)
        else:
            trace = _without_plan(trace)
            if command_id not in self._ended:  # move it to the end: `adopt` relies on this order
                self._commands.drop(command_id)
                self._ended[command_id] = None
        self._commands.writable()[command_id] = trace
        if len(self._ended) > ENDED_KEPT:
            self._forget(next(iter(self._ended)))

    def _forget(self, command_id: str | None) -> None:
        if command_id is not None:
            self._commands.drop(command_id)
            self._ended.pop(command_id, None)


def _without_plan(trace: CommandTrace) -> CommandTrace:
    """Drop the plan of an ended command: it is large, and recovery no longer needs it."""
    if trace.accepted is None or trace.accepted.plan is None:
        return trace
    accepted = msgspec.structs.replace(trace.accepted, plan=None)
    return msgspec.structs.replace(trace, accepted=accepted)


def _id_of(key: bytes | None) -> str | None:
    """Command id of a key; None: the key is not UTF-8."""
    try:
        return (key or b"").decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
