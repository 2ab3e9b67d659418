"""Storage for snapshots of a log: pieces of bytes that the log does not interpret.

Storage is optional. A log that has it keeps snapshots per topic. It drops the snapshots of a topic
as soon as compaction or retention removes a record of that topic. So a snapshot always equals a
fold of the records that the log still holds.
"""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable


class StoredSnapshot(NamedTuple):
    """A complete snapshot: its number, its kind, and its header, which its writer interprets."""

    number: int
    kind: str
    header: bytes


class SnapshotStore(Protocol):
    """Snapshots of one log. A writer calls `begin`, then `add` repeatedly, then `finish`."""

    async def stored(self, topic: str, kind: str | None = None) -> Sequence[StoredSnapshot]:
        """Complete snapshots of a topic, of one kind or of all kinds, newest first."""
        ...

    def pieces(self, number: int) -> AsyncIterator[bytes]:
        """Pieces of a snapshot in the order of `add`, except pieces that were removed meanwhile."""
        ...

    async def begin(self, topic: str, kind: str) -> int:
        """Begin a snapshot and return its number.

        Call it before you read the records: a later removal of records then drops the snapshot.

        An unfinished snapshot of the same topic and kind is dropped.
        """
        ...

    async def add(self, number: int, pieces: Sequence[bytes]) -> bool:
        """Add pieces; return False if the snapshot was dropped, because records were removed."""
        ...

    async def finish(self, number: int, header: bytes, room: int) -> bool:
        """Store the header, which completes the snapshot; drop older snapshots of its topic.

        `room`: number of complete snapshots of the topic that stay, the newest ones. Returns False
        and changes nothing if the snapshot was dropped.
        """
        ...


@runtime_checkable
class HasSnapshots(Protocol):
    """A log that may store snapshots."""

    @property
    def snapshots(self) -> SnapshotStore | None:
        """The storage; None if this log stores no snapshots."""
        ...


def snapshot_store_of(log: object) -> SnapshotStore | None:
    """Return the snapshot storage of a log; None if it has none."""
    return log.snapshots if isinstance(log, HasSnapshots) else None
