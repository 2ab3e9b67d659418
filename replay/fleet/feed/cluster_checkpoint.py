"""Checkpoint of one cluster: snapshots from which its next batch goes on.

    CHECKPOINT/feed/cluster=C/batch-0000000007.json  names the files of the batch
    CHECKPOINT/feed/cluster=C/_snapshots/feed-…     states, rows that may still count, audits

The checkpoint saves time. Without it, a batch reads the whole archive, and makes the same rows. But
after a retention, a cluster without its checkpoint is not read: its row of `batches` has a problem.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from replay.archive import layout
from replay.archive.integrity import flaw_of, read_whole
from replay.archive.manifest import Snapshot, StoredFile
from replay.archive.segments.segment_files import EncodedFile
from replay.archive.stores.store import ArchiveStore
from replay.errors import ArchiveCorrupt
from replay.findings import Finding
from replay.fleet.feed.checkpoint_codec import NoCheckpoint, decoded, encoded


class AuditCheckpoint(msgspec.Struct, frozen=True):
    """Audits of the records up to a horizon, and the findings after it.

    Records of another partition may come late. Stored audits therefore end at a horizon some time
    before the last record. The next batch audits the records after the horizon again.
    """

    horizon_ms: int
    """Time up to which the stored audits have seen all records of their batch."""
    patience_ms: int
    """Time between the last record and the horizon."""
    ends: dict[str, list[int]]
    """End offsets of the records that the stored audits have seen."""
    stored: StoredFile
    findings: tuple[Finding, ...]
    """Findings after the horizon: they are compared with those of the next batch."""


class ClusterCheckpoint(msgspec.Struct, frozen=True):
    """Snapshots of one cluster at the end of a batch."""

    snapshot: Snapshot
    cut: dict[str, list[int]]
    """End offsets of the topics that the state consists of."""
    audit: AuditCheckpoint

    @property
    def files(self) -> Iterator[StoredFile]:
        """Files of the snapshots of the state and of the audits."""
        yield from (rows.stored for rows in self.snapshot.topics)
        if self.snapshot.folded is not None:
            yield self.snapshot.folded
        yield self.audit.stored


class CheckpointFiles(NamedTuple):
    """Files of one cluster in the checkpoint of a feed."""

    store: ArchiveStore
    cluster: str

    def read(self, batch: int, *, hashed: bool = False) -> ClusterCheckpoint | None:
        """Checkpoint of a batch; None if it is unusable, or if one of its files is missing.

        Files that it names are compared by their sizes; with `hashed`, by their hashes, too.
        """
        try:
            checkpoint = decoded(self.store.read(self._name(batch)), ClusterCheckpoint)
        except (FileNotFoundError, NoCheckpoint):
            return None
        is_whole = all(self.store.size(file.file) == file.bytes for file in checkpoint.files)
        if is_whole and hashed:
            is_whole = not any(flaw_of(self.store, file) for file in checkpoint.files)
        return checkpoint if is_whole else None

    def write(self, batch: int, checkpoint: ClusterCheckpoint) -> None:
        """Write the checkpoint of a batch; it replaces that of an earlier attempt.

        Raises:
            NotWritable: no room, or no permission.
        """
        self.store.replace(self._name(batch), encoded(checkpoint))

    def add(self, stem: str, content: bytes) -> StoredFile:
        """Write a file of a checkpoint.

        Raises:
            NotWritable: no room, or no permission.
        """
        file = EncodedFile.of(content)
        stored = file.stored(layout.snapshot(self.cluster, stem, file.sha256, "msgpack"))
        self.store.add(stored.file, content)
        return stored

    def content(self, stored: StoredFile) -> bytes | None:
        """Read a file of a checkpoint; None if it is missing or damaged."""
        try:
            return read_whole(self.store, stored)
        except ArchiveCorrupt:
            return None

    def keep_only(self, batches: dict[int, ClusterCheckpoint | None]) -> None:
        """Remove the files of other batches.

        Raises:
            NotWritable: no permission.
        """
        kept = {self._name(batch) for batch in batches}
        kept |= {file.file for last in batches.values() if last for file in last.files}
        for name in list(self.store.walk(layout.folder(self.cluster))):
            if name not in kept:
                self.store.remove(name)

    def _name(self, batch: int) -> str:
        return f"{layout.folder(self.cluster)}/batch-{batch:010}.json"
