"""Merge of the small segments and the manifests of a cluster's archive.

The order of writes makes a merge atomic:

1. The merge writes its files: segments that join two or more originals, replaced manifests, and
   readings.
2. One manifest makes them count. Its name exists once, so only one of several merges and appends
   gets it. If an append was faster, the merge takes the next name, because an append changes no
   merged record. If another merge was faster, this merge removes its files and ends.
3. Then the caller removes the originals (`unnamed_files.remove_replaced`). If the process is killed
   before that, the next `replay compact-archive` removes them.

Records, their order and gaps stay as they are. A look is a read up to the end of the log
(`readings`). The ends of some looks decide which states are certain. These ends stay, too. So no
answer changes. A merge with a retention leaves out the records that are superseded at its cut
(`retention`). Answers about moments from the cut on stay the same.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from time import monotonic, time
from typing import NamedTuple
from uuid import uuid4

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from replay.archive import layout
from replay.archive.archived_cluster import PartitionId, open_cluster, parts_in
from replay.archive.integrity import checked
from replay.archive.manifest import (
    READINGS_FORMAT,
    Chain,
    ExpiredRecords,
    Manifest,
    Merge,
    RemovedRecords,
    Retention,
    Segment,
    Snapshot,
    StoredReadings,
    encoded,
    read_chain,
)
from replay.archive.merges.replaced_manifests import merged_manifests, packed
from replay.archive.merges.retention import PlanMaker, RecordRemoval, segments_before
from replay.archive.merges.segment_groups import groups
from replay.archive.readings.archived_readings import ArchivedReadings, spans
from replay.archive.readings.reading_columns import reduced
from replay.archive.readings.readings_file import encoded_readings
from replay.archive.segments.removed_offsets import OffsetColumn, encoded_offsets, read_offsets
from replay.archive.segments.segment_files import SIZES, SegmentSizes, rows_of
from replay.archive.segments.segment_writer import (
    SegmentTarget,
    SegmentWriter,
    add_file,
    written_winners,
)
from replay.archive.stores.concurrent_requests import concurrently
from replay.archive.stores.store import ArchiveStore
from replay.errors import ArchiveBusy, ReplayError, WriteUncertain
from replay.progress import Advance

ATTEMPTS = 20
"""Maximum attempts to write the manifest; each append in between costs one."""

LONGEST_S = 12 * 60 * 60
"""Seconds after which a merge no longer writes its manifest. It is half of the age at which other
merges remove its files as leftovers (`unnamed_files.AGE_S`). The other half is for clocks that
differ."""


class MergeResult(NamedTuple):
    """Numbers of a merge: files that count, before and after."""

    cluster: str
    merged: bool
    """False if there was nothing to merge."""
    manifests: tuple[int, int]
    segments: tuple[int, int]
    files: tuple[int, int]
    """Manifests, and the files that they name."""
    bytes: tuple[int, int]
    """Bytes of the files that manifests name."""
    head: str
    """Hash of the last manifest."""
    expired: tuple[ExpiredRecords, ...] = ()
    """Records that retention has removed, by partition."""
    damaged_winners: int = 0
    """Number of files of winners that were missing or damaged; the merge has replaced them."""
    damaged_snapshots: int = 0
    """Number of snapshots that were missing or damaged; the merge has left them out."""


class _Rewrite(NamedTuple):
    """New segments of a merge, and what they leave out."""

    replacement: dict[str, Sequence[Segment]]
    """Replacement of each original segment, by its file."""
    expired: list[ExpiredRecords]
    removed: dict[PartitionId, RemovedRecords]
    """Records that retention has removed so far."""


class Merger:
    """Merges the archive of one cluster; `work` is the amount of work that `run` reports.

    With `retention`, records that are superseded at its cut are left out of the merged segments.
    `damaged`: names of winners and snapshots that cannot be read (`integrity.damaged_copies`). The
    merge writes winners anew, and leaves such snapshots out.

    Raises the errors of `open_cluster`.
    """

    def __init__(
        self,
        store: ArchiveStore,
        name: str,
        sizes: SegmentSizes = SIZES,
        retention: PlanMaker | None = None,
        damaged: Container[str] = (),
    ) -> None:
        self._store = store
        self._sizes = sizes
        self._damaged = damaged
        self._begun_s = monotonic(), time()
        self.cluster = checked(open_cluster(store, name))
        self._retention = None if retention is None else retention(self.cluster)
        self._fresh = {
            segment.stored.file
            for manifest in self.cluster.chain.manifests
            if manifest.merge is UNSET
            for segment in manifest.segments
        }
        """Files of segments that were written since the last merge."""

    @property
    def cut_ms(self) -> int | None:
        """Time before which superseded records are removed, in ms since 1970; None: none are."""
        return None if self._retention is None else self._retention.cut_ms

    @property
    def work(self) -> int:
        """Compressed bytes of the segments that `run` may merge or thin.

        `run` reports each of them once, also those that stay because no record is superseded.

        Raises:
            ArchiveCorrupt: the segment in which the cut of a retention lies is missing or damaged.
        """
        return sum(
            segment.stored.bytes
            for place in self.cluster.parts
            for segment in self._candidates(place)
        )

    def run(self, advance: Advance = lambda _: None) -> MergeResult:
        """Merge, and return the numbers; `unnamed_files.remove_replaced` removes the originals.

        Raises:
            ArchiveCorrupt: an original is missing or altered; nothing is changed.
            ArchiveBusy: another merge or many appends were faster, or this merge was too slow;
                nothing is changed.
            NotWritable: no room, or no permission; nothing is changed.
            WriteUncertain: the store has not answered. The merge may still count, so its files
                stay. If it does not count, a merge a day later removes them.
        """
        before = self.cluster.chain
        writer = f"-{uuid4().hex[: layout.WRITER_DIGITS]}"
        try:
            rewrite = self._rewrite(writer, advance)
            snapshots = sum(map(self._is_lost, self.cluster.snapshots))
            if not rewrite.replacement and not snapshots and len(before.manifests) == 1:
                return _result(before, before)
            return _result(before, self._commit(writer, rewrite))._replace(
                expired=tuple(rewrite.expired),
                damaged_winners=sum(map(self._lacks_winners, _segments(before))),
                damaged_snapshots=snapshots,
            )
        except WriteUncertain:
            raise
        except BaseException:
            self._discard(writer)
            raise

    def _before_cut(self, place: PartitionId) -> Sequence[Segment]:
        """Segments of a partition that retention may thin."""
        if self._retention is None:
            return ()
        return segments_before(self.cluster, place, self._retention.end_of(place))

    def _candidates(self, place: PartitionId) -> Iterator[Segment]:
        """Segments of a partition that the merge may thin, join, or give new winners, each once."""
        segments, old = self.cluster.parts[place].segments, self._before_cut(place)
        # If a record before the cut is superseded, `_rewrite` groups the segments after the cut;
        # otherwise it groups all. Which case applies is not known yet, so take both.
        starts = {0, len(old)}
        grouped = (group for start in starts for group in self._groups(segments[start:]))
        files = {segment.stored.file for group in (old, *grouped) for segment in group}
        return (
            segment
            for segment in segments
            if segment.stored.file in files or self._lacks_winners(segment)
        )

    def _lacks_winners(self, segment: Segment) -> bool:
        return segment.winners is not None and segment.winners.file in self._damaged

    def _is_lost(self, snapshot: Snapshot) -> bool:
        """True if a file of a snapshot cannot be read."""
        return any(stored.file in self._damaged for stored in snapshot.files)

    def _groups(self, segments: Sequence[Segment]) -> list[Sequence[Segment]]:
        return list(groups(segments, self._fresh, self._sizes))

    def _rewrite(self, writer: str, advance: Advance) -> _Rewrite:
        target = SegmentTarget(
            self._store, self.cluster.name, self.cluster.topics, self._sizes, writer
        )
        rewrite = _Rewrite({}, [], {})
        for place, part in self.cluster.parts.items():
            thinned = self._thinned(target, place, rewrite, advance)
            for group in self._groups(part.segments[thinned:]):
                rewrite.replacement.update({segment.stored.file: () for segment in group})
                written = self._merged_segments(target, place, group, advance)
                rewrite.replacement[group[0].stored.file] = written
            for segment in self._candidates(place):
                if segment.stored.file not in rewrite.replacement:  # its records stay as they are
                    if self._lacks_winners(segment):
                        mended = self._with_winners(target, place, segment)
                        rewrite.replacement[segment.stored.file] = (mended,)
                    advance(segment.stored.bytes)
        return rewrite

    def _with_winners(self, target: SegmentTarget, place: PartitionId, segment: Segment) -> Segment:
        """Write the winners of a segment anew; return its new description."""
        rows = rows_of(self.cluster.store, segment)
        before = [each for each in self.cluster.parts[place].segments if each.end <= segment.start]
        before_ms = before[-1].latest_ms if before else None
        return replace(segment, winners=written_winners(target, place, rows, before_ms))

    def _thinned(
        self, target: SegmentTarget, place: PartitionId, rewrite: _Rewrite, advance: Advance
    ) -> int:
        """Write the segments before the cut without superseded records; return their number.

        Returns 0, and writes nothing, if no record is superseded.
        """
        old = self._before_cut(place)
        superseded = self._retention.superseded(place) if old and self._retention else None
        if superseded is None or not len(superseded.offsets):
            return 0
        removal = RecordRemoval(place, superseded)
        # An original may be larger than new segments are; its remaining rows stay in one segment.
        largest = max(target.sizes.segment_records, *(each.stored.records for each in old))
        whole = target._replace(sizes=target.sizes._replace(segment_records=largest))
        part = self.cluster.parts[place]
        into = SegmentWriter(whole, place, part._replace(segments=(), end=old[0].start))
        for segment in old:  # one at a time: there may be many large ones
            into.add(removal.surviving_rows(rows_of(self.cluster.store, segment)))
            advance(segment.stored.bytes)
        into.write()
        rewrite.replacement.update({segment.stored.file: () for segment in old})
        rewrite.replacement[old[0].stored.file] = into.segments
        rewrite.expired.append(removal.expired)
        rewrite.removed[place] = self._removed(target, removal.expired, superseded.offsets)
        return len(old)

    def _removed(
        self, target: SegmentTarget, expired: ExpiredRecords, offsets: OffsetColumn
    ) -> RemovedRecords:
        """Write the offsets that retention has removed from a partition so far."""
        assert self._retention is not None
        place = expired.topic, expired.partition
        earlier = self.cluster.parts[place].removed
        before = read_offsets(self.cluster.store, earlier)
        removed = before.union(offsets)
        file = encoded_offsets(removed)
        span = range(int(removed.starts[0]), int(removed.ends[-1]))
        name = layout.removed_offsets(target.cluster, place, span, file.sha256, target.writer)
        stored = file.stored(name)
        add_file(self._store, stored.file, file)
        end, cut_ms = expired.end, self._retention.cut_ms
        if earlier is not None:  # an earlier retention may have had a later cut
            end, cut_ms = max(end, earlier.end), max(cut_ms, earlier.cut_ms)
        now_ms = int(time() * 1_000)
        return RemovedRecords(*place, span.start, end, removed.total, cut_ms, now_ms, stored)

    def _merged_segments(
        self, target: SegmentTarget, place: PartitionId, group: Sequence[Segment], advance: Advance
    ) -> Sequence[Segment]:
        """Write the records of a group as one segment; very long records make it several."""
        part = self.cluster.parts[place]
        start = group[0].start
        earlier = tuple(segment for segment in part.segments if segment.end <= start)
        into = SegmentWriter(target, place, part._replace(segments=earlier[-1:], end=start))
        # This store compares the hash of a file with the manifest before it returns content.
        read = partial(rows_of, self.cluster.store)
        for segment, rows in zip(group, concurrently(read, group), strict=True):
            into.add(rows)
            advance(segment.stored.bytes)
        into.write()
        return into.segments

    @property
    def _elapsed_s(self) -> float:
        """Seconds since the beginning. The monotonic clock stops while the machine is suspended."""
        running_s, begun_s = self._begun_s
        return max(monotonic() - running_s, time() - begun_s)

    def _commit(self, writer: str, rewrite: _Rewrite) -> Chain:
        """Append the manifest to the present chain, and return the chain after it."""
        chain, name = self.cluster.chain, self.cluster.name
        for _ in range(ATTEMPTS):
            if self._elapsed_s > LONGEST_S:
                raise ArchiveBusy(
                    f"the merge of {name} took over {LONGEST_S / 3_600:g} hours, so its files may "
                    "be gone: use a faster machine or store"
                )
            made = self._manifest_written(writer, chain, rewrite)
            chain = read_chain(self._store, name)
            if made is not None and self._counts(made, chain):
                return chain
            if made is not None:  # it took the name of a manifest that another merge has removed
                self._store.remove(layout.manifest(name, made.number))
            if chain.base != self.cluster.chain.base:
                raise ArchiveBusy(
                    f"another process has merged the archive of {name} meanwhile: this merge has "
                    "changed nothing and removed its files"
                )
        raise ArchiveBusy(f"others keep appending to the archive of {name}: merge it later")

    def _counts(self, made: Manifest, chain: Chain) -> bool:
        """True if a written manifest belongs to a chain; another merge may have replaced it."""
        return chain.manifests[0] == made or made in merged_manifests(self._store, chain)

    def _manifest_written(self, writer: str, chain: Chain, rewrite: _Rewrite) -> Manifest | None:
        """Append the manifest to a chain; return None if another process has changed it."""
        name = self.cluster.name
        try:
            replaced_name, file = packed(self._store, name, chain, writer)
        except ArchiveBusy:
            return None
        readings = self._readings(writer, chain)
        add_file(self._store, replaced_name, file)
        made = self._merged_manifest(chain, rewrite, Merge(file.stored(replaced_name), readings))
        if self._store.take(layout.manifest(name, made.number), encoded(made)):
            return made
        self._store.remove(replaced_name)
        self._store.remove(readings.stored.file)
        return None

    def _readings(self, writer: str, chain: Chain) -> StoredReadings:
        """Write the readings of a chain; adjacent looks without missing offsets are joined."""
        archived = ArchivedReadings(self.cluster.store, chain)
        parts = sorted(parts_in(chain).items())
        file = encoded_readings(reduced(archived.of(place), part.segments) for place, part in parts)
        name = layout.readings(self.cluster.name, chain.next_number, file.sha256, writer)
        stored = file.stored(name)
        add_file(self._store, name, file)
        return StoredReadings(stored, archived.all_read_ms)

    def _merged_manifest(self, chain: Chain, rewrite: _Rewrite, merge: Merge) -> Manifest:
        """Describe everything that a chain describes, with new segments in place of originals."""
        first, number = chain.manifests[0], chain.next_number
        segments = [
            segment
            for manifest in chain.manifests
            for original in manifest.segments
            for segment in rewrite.replacement.get(original.stored.file, (original,))
        ]
        snapshots = (
            snapshot
            for manifest in chain.manifests
            for snapshot in manifest.snapshots
            if not self._is_lost(snapshot)
        )
        earlier = {(records.topic, records.partition): records for records in chain.removed}
        removed = tuple(records for _, records in sorted((earlier | rewrite.removed).items()))
        return Manifest(
            first.cluster,
            number,
            chain.head,
            first.topics,
            first.secrets,
            int(time() * 1_000),
            tuple(spans(chain)),
            tuple(sorted(segments, key=attrgetter("topic", "partition", "start"))),
            tuple(after_cuts(snapshots, removed)),
            format=READINGS_FORMAT,
            base=number,
            merge=merge,
            retention=self._retention_of(rewrite),
            removed=removed or UNSET,
        )

    def _retention_of(self, rewrite: _Rewrite) -> Retention | UnsetType:
        if self._retention is None or not rewrite.expired:
            return UNSET
        return Retention(self._retention.cut_ms, self._retention.age_ms, tuple(rewrite.expired))

    def _discard(self, writer: str) -> None:
        """Remove the files of this merge that no manifest names.

        The file names contain `writer`, which only this merge uses. So if no manifest of this merge
        names a file, no manifest ever will. Another merge may have replaced the manifest of this
        merge since. The files that the replaced manifest names stay, too.
        """
        with suppress(ReplayError):  # if the store fails, the first error is the one to report
            chain = read_chain(self._store, self.cluster.name)
            named = {file.file for file in chain.files}
            if chain.base != self.cluster.chain.base:
                for manifest in merged_manifests(self._store, chain):
                    named |= {file.file for file in manifest.files}
            for file in self._store.walk(layout.folder(self.cluster.name)):
                if writer in file and file not in named:
                    self._store.remove(file)


def _result(before: Chain, after: Chain) -> MergeResult:
    return MergeResult(
        after.manifests[0].cluster,
        before.head != after.head,
        (len(before.manifests), len(after.manifests)),
        (len(_segments(before)), len(_segments(after))),
        (_number_of_files(before), _number_of_files(after)),
        (sum(_files(before).values()), sum(_files(after).values())),
        after.head,
    )


def _segments(chain: Chain) -> list[Segment]:
    return [segment for manifest in chain.manifests for segment in manifest.segments]


def _number_of_files(chain: Chain) -> int:
    return len(_files(chain)) + len(chain.manifests)


def _files(chain: Chain) -> dict[str, int]:
    """Sizes of the files that a chain names."""
    return {file.file: file.bytes for file in chain.files}


def after_cuts(
    snapshots: Iterable[Snapshot], removed: Sequence[RemovedRecords]
) -> Iterator[Snapshot]:
    """Snapshots at or after all cuts: earlier ones repeat records that retention removed."""
    for snapshot in snapshots:
        if all(_end_in(snapshot, records) >= records.end for records in removed):
            yield snapshot


def _end_in(snapshot: Snapshot, records: RemovedRecords) -> int:
    """End of a partition in a snapshot; 0 if the snapshot is older than the partition."""
    ends = snapshot.ends.get(records.topic, ())
    return ends[records.partition] if records.partition < len(ends) else 0
