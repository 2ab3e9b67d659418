"""Appends to the archive of a cluster: records first, then one manifest that makes them count.

A process that is killed leaves files that no manifest names, or a manifest whose files are all
complete. Records that are archived already are compared, not added again. If the archive is merged
meanwhile, the append continues after the merge. If another process appends, this append ends with
`ArchiveBusy`.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from time import time

import msgspec
from msgspec import UNSET

from controlplane.core.entry import Batch
from controlplane.core.state import Topics
from replay.archive import layout
from replay.archive.archived_cluster import (
    ArchivedCluster,
    ArchivedPartition,
    PartitionId,
    parts_in,
)
from replay.archive.manifest import (
    Chain,
    Manifest,
    ReadRange,
    Segment,
    Snapshot,
    encoded,
    is_last,
    read_chain,
)
from replay.archive.merges.merge import after_cuts
from replay.archive.merges.replaced_manifests import merged_manifests
from replay.archive.segments.segment_files import SIZES, SegmentSizes, table_of
from replay.archive.segments.segment_writer import NEW_PARTITION, SegmentTarget, SegmentWriter
from replay.archive.stores.store import ArchiveStore
from replay.errors import ArchiveBusy, ArchiveConflict, ArchiveCorrupt, NotWritable

WAITING_BYTES = 512 * 1024 * 1024
"""Bytes that may wait in all partitions together; beyond them the largest partition is written."""

_ATTEMPTS = 5
"""Maximum attempts to write a manifest; merges, which are rare, can make an attempt fail."""

SnapshotMaker = Callable[[ArchivedCluster], Iterable[Snapshot]]
"""Writes the files of missing snapshots and returns the snapshots for the manifest."""


class Appender:
    """Append to the archive of a cluster: `add` batches, report `reached` offsets, `commit`.

    Raises the errors of `read_chain`, and `ArchiveConflict` if the archive has other topics or
    another policy for secrets. Raises `ArchiveCorrupt` if the manifests of a merged archive are
    missing.
    """

    def __init__(
        self,
        store: ArchiveStore,
        name: str,
        topics: Topics,
        secrets: str = "kept",
        sizes: SegmentSizes = SIZES,
    ) -> None:
        layout.check_cluster(name)
        self._store = store
        self._name = name
        self._topics = topics
        self._secrets = secrets
        self._sizes = sizes
        self._segment_writers: dict[PartitionId, SegmentWriter] = {}
        self._written: list[Segment] = []
        self._reaches: dict[PartitionId, ReadRange] = {}
        self._read_whole: set[PartitionId] = set()
        """Partitions that were read to their ends, also those without new offsets."""
        self._chain = read_chain(store, name)
        self.cluster = ArchivedCluster(store, name, self._chain, parts_in(self._chain))
        if self._chain.manifests:
            self._check_alike()
        elif layout.is_merged(store, name):  # a new chain would hide the archived records
            raise ArchiveCorrupt(
                f"{layout.manifests(name)} has files of a merge, but no manifest: restore the "
                f"manifests of cluster {name}, or capture under another name"
            )

    def end_of(self, topic: str, partition: int) -> int | None:
        """Offset at which reading continues; None if nothing of the partition is archived."""
        part = self.cluster.parts.get((topic, partition))
        return None if part is None else part.end

    def add(self, batch: Batch) -> int:
        """Add records that follow the earlier ones; return the number of new records.

        Raises:
            ArchiveConflict: the archive has another record, or none, at an offset before its end.
        """
        segment_writer = self._segment_writer((batch.topic, batch.partition))
        fresh = segment_writer.add(table_of([batch]))
        if sum(waiting.waiting_bytes for waiting in self._segment_writers.values()) > WAITING_BYTES:
            max(self._segment_writers.values(), key=lambda waiting: waiting.waiting_bytes).write()
        return fresh

    def segment_writer(self, place: PartitionId, start: int) -> SegmentWriter:
        """Create a writer of a partition from `start` on, for another process (`take_over`)."""
        part = self.cluster.parts.get(place, NEW_PARTITION)
        # The last segment is always needed: it has the greatest timestamp so far.
        touched = (
            tuple(segment for segment in part.segments if segment.end > start) or part.segments[-1:]
        )
        return self._new_writer(place, part._replace(segments=touched))

    def take_over(self, segments: Iterable[Segment]) -> None:
        """Add segments to this append that a `segment_writer` has written in another process."""
        self._written += segments

    def reached(
        self, topic: str, partition: int, start: int, end: int, *, partial: bool = False
    ) -> None:
        """Record that the source was read up to `end`; `commit` writes the range to the manifest.

        The source begins at `start`. Offsets between the archive's end and a later `start` are
        lost: a gap. `partial`: the source goes on after `end`, and the rest is still to be read.
        """
        if partial:
            self._read_whole.discard((topic, partition))
        else:
            self._read_whole.add((topic, partition))
        archived_end = self.end_of(topic, partition)
        begin = start if archived_end is None else max(start, archived_end)
        if archived_end is None or end > archived_end:
            self._reaches[topic, partition] = ReadRange(
                topic, partition, begin, max(begin, end), partial
            )

    def commit(self, snapshots: SnapshotMaker | None = None) -> Manifest | None:
        """Write the manifest; return None if nothing is new. Snapshots cover the whole archive.

        Raises:
            ArchiveBusy: another process has appended since this append began.
            ArchiveCorrupt: an earlier file, which a snapshot needs, is damaged. The records are
                committed without snapshots.
        """
        for writer in self._segment_writers.values():
            writer.write()
        made = self._manifest()
        if snapshots is not None:
            whole = Chain((*self._chain.manifests, made), "")
            cluster = ArchivedCluster(self._store, self._name, whole, parts_in(whole))
            try:
                made = self._manifest(tuple(snapshots(cluster)))
            except ArchiveCorrupt:
                self._append(made)
                raise
        return self._append(made)

    def _append(self, made: Manifest) -> Manifest | None:
        """Write a manifest if it has anything new. Raises `ArchiveBusy`."""
        for _ in range(_ATTEMPTS):
            if not (self._reaches or made.segments or made.snapshots):
                return None
            content = encoded(made)
            name = layout.manifest(self._name, made.number)
            if self._store.take(name, content) and self._counts(made, name, content):
                return made
            if not self._continue_after_merge():
                break
            made = self._manifest(tuple(after_cuts(made.snapshots, self._chain.removed)))
        raise ArchiveBusy(
            f"another process has appended to the archive of {self._name}: run the command again"
        )

    def _counts(self, made: Manifest, name: str, content: bytes) -> bool:
        """True if a written manifest belongs to the chain; otherwise the manifest is removed.

        A merge may have replaced and removed an earlier manifest of this name since the append
        began. Then readers begin with a later manifest, and the appended records do not count.
        """
        if is_last(self._store, self._name, made.number):
            return True
        chain = read_chain(self._store, self._name)
        if made in chain.manifests or made in merged_manifests(self._store, chain):
            return True
        with suppress(FileNotFoundError, NotWritable):
            if self._store.read(name) == content:
                self._store.remove(name)
        return False

    def _continue_after_merge(self) -> bool:
        """Continue on the present chain, and return True, if the archive covers the same offsets.

        A merge leaves them as they are, as does an append that adds only snapshots.
        """
        chain = read_chain(self._store, self._name)
        present = parts_in(chain)
        if chain.head == self._chain.head or _spans(present) != _spans(self.cluster.parts):
            return False
        self._chain = chain
        self.cluster = ArchivedCluster(self._store, self._name, chain, present)
        return True

    def _manifest(self, snapshots: tuple[Snapshot, ...] = ()) -> Manifest:
        filled = (
            segment for writer in self._segment_writers.values() for segment in writer.segments
        )
        segments = [*self._written, *filled]
        reaches, reads_all = self._all_reaches()
        return Manifest(
            self._name,
            self._chain.next_number,
            self._chain.head,
            self._topics,
            self._secrets,
            int(time() * 1_000),
            tuple(reaches[place] for place in sorted(reaches)),
            tuple(
                sorted(
                    segments, key=lambda segment: (segment.topic, segment.partition, segment.start)
                )
            ),
            snapshots,
            base=self._chain.base,
            reads_all=UNSET if reads_all else False,
        )

    def _all_reaches(self) -> tuple[dict[PartitionId, ReadRange], bool]:
        """Ranges for the manifest; True if every archived partition was read to its end.

        Otherwise the partitions without new offsets are named, too: each has an empty range.
        """
        if self._read_whole >= self._reaches.keys() | self.cluster.parts.keys():
            return self._reaches, True
        ends = {
            place: self.cluster.parts[place].end
            for place in self._read_whole - self._reaches.keys()
        }
        empty = {place: ReadRange(*place, end, end, False) for place, end in ends.items()}
        return self._reaches | empty, False

    def _check_alike(self) -> None:
        if self.cluster.topics != self._topics:
            raise ArchiveConflict(
                f"the archive of {self._name} has the topics {', '.join(_names(self.cluster))}: "
                "name these, or capture the other cluster under another name"
            )
        if self.cluster.secrets != self._secrets:
            raise ArchiveConflict(
                f"secrets in the archive of {self._name} are {self.cluster.secrets}, not "
                f"{self._secrets}: continue with that policy, or capture under another name"
            )

    def _segment_writer(self, place: PartitionId) -> SegmentWriter:
        if place not in self._segment_writers:
            self._segment_writers[place] = self._new_writer(
                place, self.cluster.parts.get(place, NEW_PARTITION)
            )
        return self._segment_writers[place]

    def _new_writer(self, place: PartitionId, part: ArchivedPartition) -> SegmentWriter:
        return SegmentWriter(
            SegmentTarget(self._store, self._name, self._topics, self._sizes), place, part
        )


def _spans(
    parts: Mapping[PartitionId, ArchivedPartition],
) -> dict[PartitionId, tuple[int, int]]:
    return {place: (part.start, part.end) for place, part in parts.items()}


def _names(cluster: ArchivedCluster) -> tuple[str, ...]:
    return tuple(msgspec.structs.astuple(cluster.topics))
