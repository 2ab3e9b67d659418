"""Events of a life: the input of a simulated cluster."""

from typing import NamedTuple

from controlplane.core.commands import AnyCommand
from tests.laws.commands.storage import Outage
from tests.laws.commands.world import Trouble

OWN = "own"
"""The offsets topic of all connectors whose config names one."""


class CommandEvent(NamedTuple):
    """A command with the crashes and failures that it meets."""

    command: AnyCommand
    crashes: tuple[int, ...] = ()
    """Steps after which the process dies: one number for the command, then one per recovery."""
    trouble: Trouble | None = None
    """Failure of an outside action of the command."""
    outage: Outage | None = None
    """Outage of the log while the command runs."""
    retried: tuple[bool, ...] = ()
    """For each retry by the client: with the same key (True), or with a new one."""


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
    """Takeover by another control plane, which the old one has not noticed yet."""

    command: AnyCommand
    """Command that the old process gets after the takeover."""


Event = CommandEvent | ConcurrentCommands | ForeignWrite | Committed | TakeOver
