"""Compaction of the archive of one cluster: removal by age, merge, removal of replaced files."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from controlplane.core.moments import time_text
from controlplane.core.text.safe_text import count
from replay.archive.archived_cluster import open_cluster
from replay.archive.integrity import checked, damaged_copies
from replay.archive.manifest import ExpiredRecords
from replay.archive.merges.merge import Merger, MergeResult
from replay.archive.merges.retention import rehearsed
from replay.archive.merges.unnamed_files import (
    Removal,
    leftovers,
    remove_leftovers,
    remove_replaced,
)
from replay.archive.segments.segment_files import SIZES
from replay.archive.stores.store import ArchiveStore
from replay.engine.plans.retention_plan import older_than
from replay.errors import NotWritable
from replay.progress import ProgressListener


class CompactionOptions(NamedTuple):
    """Options of all compactions of a command."""

    retain_s: int | None = None
    """Age in seconds from which on superseded records are removed; None: no record is."""
    grace_s: float = 0
    """Seconds for which replaced files stay."""


class CompactionResult(NamedTuple):
    """Merge of one cluster, and the removal of files."""

    merge: MergeResult
    removal: Removal
    leftovers: int
    """Number of removed files of killed processes."""
    cut_ms: int | None
    """Time before which superseded records were removed; None: without retention.

    Negative if the age reaches back before 1970: no record is that old.
    """

    @property
    def document(self) -> dict[str, Any]:
        """The result as a JSON document."""
        merge = self.merge._asdict() | {"expired": _documents(self.merge.expired)}
        removed = self.removal.removed + self.leftovers
        return merge | {
            "cut_ms": self.cut_ms,
            "removed": removed,
            "remaining": self.removal.remaining,
        }

    @property
    def sentences(self) -> list[str]:
        """Remarks about removed records and files, and about remaining files, for people."""
        cluster, sentences = self.merge.cluster, []
        if self.cut_ms is not None and self.cut_ms >= 0:
            sentences.append(f"{cluster}: removed {_expired_text(self.merge.expired, self.cut_ms)}")
        if self.removal.remaining:
            files = count(self.removal.remaining, "replaced file")
            sentences.append(f"{cluster}: {files} remain for readers; a later run removes them")
        if self.leftovers:
            files = count(self.leftovers, "file")
            sentences.append(f"{cluster}: removed {files} of killed processes")
        if self.merge.damaged_winners:
            files = count(self.merge.damaged_winners, "damaged file")
            sentences.append(f"{cluster}: replaced {files} of winners")
        if self.merge.damaged_snapshots:
            snapshots = count(self.merge.damaged_snapshots, "damaged snapshot")
            sentences.append(f"{cluster}: left out {snapshots}; no answer needs them")
        return sentences


class ExpectedRemoval(NamedTuple):
    """Records that a compaction would remove by age; numbers of leftovers and of damaged files."""

    cluster: str
    cut_ms: int | None
    expired: list[ExpiredRecords]
    records: int
    """Number of archived records before the removal."""
    leftovers: int
    """Number of files of killed processes."""
    damaged: int
    """Number of missing or damaged files with winners or snapshots."""

    @property
    def sentences(self) -> list[str]:
        """Remarks about leftovers and damaged files, for people."""
        sentences = []
        if self.leftovers:
            files = count(self.leftovers, "file")
            sentences.append(f"{self.cluster}: {files} of killed processes would be removed")
        if self.damaged:
            files = count(self.damaged, "damaged file")
            sentences.append(f"{self.cluster}: {files} would be replaced or left out")
        return sentences

    @property
    def document(self) -> dict[str, Any]:
        """The expectation as a JSON document."""
        return self._asdict() | {"expired": _documents(self.expired)}


def compact(
    store: ArchiveStore, name: str, options: CompactionOptions, progress: ProgressListener
) -> CompactionResult:
    """Merge, with a removal by age; also remove replaced files, and leftovers.

    Sizes of all files are compared first. The merge compares hashes of the files that it reads.
    Winners that are missing or damaged are written anew; such snapshots are left out.

    Raises:
        ReplayError: the cluster is damaged, busy or not writable. A failed merge has no effect.
        NotWritable: a file cannot be removed, but the merge counts.
    """
    # Before the first removal: a replaced file may still help to repair a damaged one.
    damaged = damaged_copies(store, open_cluster(store, name).chain.files)
    obstacle: NotWritable | None = None
    earlier, left = Removal(0, 0), 0
    try:
        earlier = remove_replaced(store, name, options.grace_s)
        left = remove_leftovers(store, name)
    except NotWritable as error:  # a merge needs no permission to delete
        obstacle = error
    retention = None if options.retain_s is None else older_than(options.retain_s * 1_000)
    merger = Merger(store, name, SIZES, retention, damaged)
    progress.begin(f"merging {name}", merger.work)
    merge = merger.run(progress.advance)
    if obstacle is not None:
        raise obstacle
    later = remove_replaced(store, name, options.grace_s)
    removal = Removal(earlier.removed + later.removed, later.remaining)
    return CompactionResult(merge, removal, left, merger.cut_ms)


def expected(store: ArchiveStore, name: str, options: CompactionOptions) -> ExpectedRemoval:
    """Find the records and leftovers that a compaction would remove, and change nothing.

    Raises:
        ReplayError: the cluster is damaged.
    """
    cluster = checked(open_cluster(store, name))
    damaged = damaged_copies(store, cluster.chain.files)
    records = sum(part.records for part in cluster.parts.values())
    old_files = len(leftovers(store, name))
    if options.retain_s is None:
        return ExpectedRemoval(name, None, [], records, old_files, len(damaged))
    plan = older_than(options.retain_s * 1_000)(cluster)
    expired = [*rehearsed(cluster, plan)]
    return ExpectedRemoval(name, plan.cut_ms, expired, records, old_files, len(damaged))


def removed_numbers(expired: Sequence[ExpiredRecords]) -> tuple[int, int]:
    """Number and bytes of removed records."""
    return sum(each.records for each in expired), sum(each.bytes for each in expired)


def _expired_text(expired: tuple[ExpiredRecords, ...], cut_ms: int) -> str:
    records, size = removed_numbers(expired)
    numbers = f"{count(records, 'record')} ({count(size, 'byte')})"
    return f"{numbers} that were superseded before {time_text(cut_ms)}"


def _documents(expired: Sequence[ExpiredRecords]) -> list[Any]:
    return [msgspec.to_builtins(each) for each in expired]
