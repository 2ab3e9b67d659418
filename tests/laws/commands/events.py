"""Events of a cluster, of which a life consists."""

from typing import NamedTuple

from controlplane.core.commands import AnyCommand
from tests.laws.commands.storage import Outage
from tests.laws.commands.world import Trouble

OWN = "own"
"""An offsets topic that several connectors may have as theirs."""


class CommandEvent(NamedTuple):
    """A command with the crashes and failures that it meets."""

    command: AnyCommand
    crashes: tuple[int, ...] = ()
    """Behind which step the process dies; then behind which one of the recovery; and so on."""
    trouble: Trouble | None = None
    """Failure of an outside action of the command."""
    outage: Outage | None = None
    """Outage of the log while the command runs."""
    retried: tuple[bool, ...] = ()
    """The asker asks again: with the same key, or as for something new."""


class ConcurrentCommands(NamedTuple):
    """Commands sent at the same time."""

    commands: tuple[AnyCommand, ...]


class ForeignWrite(NamedTuple):
    """Record that a foreign writer appends."""

    topic: str
    key: bytes
    value: bytes | None


class Committed(NamedTuple):
    """Tasks of a sink commit an offset."""

    group: str
    partition: int
    offset: int


class TakeOver(NamedTuple):
    """Takeover by another control plane; the old one does not know it yet."""

    command: AnyCommand
    """Commands to the old process after the takeover."""


Event = CommandEvent | ConcurrentCommands | ForeignWrite | Committed | TakeOver
