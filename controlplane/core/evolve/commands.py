"""The fold of the command topic (ours): which commands began, ended, were refused."""

from collections.abc import Mapping

import msgspec

from controlplane.core.codec.commands import decode_command
from controlplane.core.entry import Entry
from controlplane.core.evolve.outcome import ACCEPTED, Outcome, fate
from controlplane.core.records import CommandAccepted, CommandFinished, CommandRefused, Invalid
from controlplane.core.shared import CopyOnWrite
from controlplane.core.state import CommandTrace


class CommandFold:
    """Working state of the command topic."""

    def __init__(self) -> None:
        self._commands: CopyOnWrite[str, CommandTrace] = CopyOnWrite()

    def publish(self) -> Mapping[str, CommandTrace]:
        """Every command by its id."""
        return self._commands.publish()

    def apply(self, entry: Entry) -> Outcome:
        """Fold one record; a tombstone forgets the command."""
        record = decode_command(entry.key, entry.value)
        match record:
            case Invalid():
                return fate(record)
            case None:
                key = entry.key or b""
                self._commands.drop(key.decode("utf-8", "surrogateescape"))
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
        self._commands.writable()[command_id] = msgspec.structs.replace(present, **change)
