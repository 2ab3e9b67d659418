"""Archive store whose new snapshots lie elsewhere: in the checkpoint of a change feed."""

from collections.abc import Iterator

import pyarrow as pa

from replay.archive.stores.store import ArchiveStore

OWN = "/_snapshots/feed-"
"""Part of the names of files that belong to a feed."""


class FeedSnapshotStore:
    """Reads an archive and the snapshots of a feed; writes such snapshots only."""

    def __init__(self, archive: ArchiveStore, checkpoint: ArchiveStore) -> None:
        self.where = archive.where
        self.settings = archive.settings
        self.requests_at_once = archive.requests_at_once
        self._archive = archive
        self._checkpoint = checkpoint

    def names(self, folder: str) -> list[str]:
        """Names in a folder of the archive."""
        return self._archive.names(folder)

    def walk(self, folder: str) -> Iterator[str]:
        """Files in a folder of the archive."""
        return self._archive.walk(folder)

    def size(self, name: str) -> int | None:
        """Size of a file in bytes; None if it does not exist."""
        return self._of(name).size(name)

    def modified_s(self, name: str) -> float | None:
        """Time at which a file was written, in seconds since 1970; None if it does not exist."""
        return self._of(name).modified_s(name)

    def read(self, name: str, most_bytes: int = -1) -> bytes:
        """Read a file, or its first bytes. Raises `FileNotFoundError`."""
        return self._of(name).read(name, most_bytes)

    def open(self, name: str) -> pa.NativeFile:
        """Open a file for random access. Raises `FileNotFoundError`."""
        return self._of(name).open(name)

    def add(self, name: str, content: bytes) -> bool:
        """Write a file of the feed durably; return False if the name is taken."""
        return self._writable(name).add(name, content)

    def take(self, name: str, content: bytes) -> bool:
        """Write a file of the feed under a free name."""
        return self._writable(name).take(name, content)

    def replace(self, name: str, content: bytes) -> None:
        """Write a file of the feed in place of another."""
        self._writable(name).replace(name, content)

    def remove(self, name: str) -> None:
        """Remove a file of the feed."""
        self._writable(name).remove(name)

    def _of(self, name: str) -> ArchiveStore:
        return self._checkpoint if OWN in name else self._archive

    def _writable(self, name: str) -> ArchiveStore:
        assert OWN in name, name  # a feed never changes its archive
        return self._checkpoint
