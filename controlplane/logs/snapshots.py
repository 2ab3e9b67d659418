"""Where a log keeps what was folded of it: bytes in pieces, which the log does not understand.

A log need not do so. One that does keeps snapshots topic by topic, and lets go of those of a topic
as soon as a record of it is removed (by compaction or retention): what is kept is always what
folding the records would give that are there.
"""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable


class Kept(NamedTuple):
    """A snapshot that is complete: under which number it lies, and what its maker says of it."""

    number: int
    kind: str
    about: bytes


class Shelf(Protocol):
    """The snapshots of one log. They are made in steps: `begin`, `add` by and by, `finish`."""

    async def kept(self, topic: str, kind: str | None = None) -> Sequence[Kept]:
        """The complete snapshots of a topic of this kind, or of every kind, the newest first."""
        ...

    def pieces(self, number: int) -> AsyncIterator[bytes]:
        """The pieces of a snapshot, as they were added. What is gone meanwhile is left out."""
        ...

    async def begin(self, topic: str, kind: str) -> int:
        """Begin a snapshot, before any of its records is read; answers its number.

        One of this topic and kind that somebody has begun and not finished is dropped.
        """
        ...

    async def add(self, number: int, pieces: Sequence[bytes]) -> bool:
        """Add pieces; False if the snapshot is none any more, because records were removed."""
        ...

    async def finish(self, number: int, about: bytes, room: int) -> bool:
        """Say that it is complete; of its topic only the newest `room` snapshots stay.

        Answers False, and nothing is changed, if it is none any more.
        """
        ...


@runtime_checkable
class HasSnapshots(Protocol):
    """A log that may keep snapshots."""

    @property
    def snapshots(self) -> Shelf | None:
        """Where they are; None where there are none, and none can be."""
        ...


def shelf_of(log: object) -> Shelf | None:
    """Where a log keeps snapshots, if it does."""
    return log.snapshots if isinstance(log, HasSnapshots) else None
