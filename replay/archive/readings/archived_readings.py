"""Readings of an archive: those that merges have stored, and those of the appends since then.

Stored readings are columns of a file (`readings_file`), which is read only when the readings of a
partition are needed. Earlier versions left every reading in the manifest of a merge, with its time.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from replay.archive.archived_cluster import PartitionId
from replay.archive.manifest import Chain, Manifest, ReadRange, StoredReadings
from replay.archive.readings.reading_columns import PartitionReadings
from replay.archive.readings.readings_file import ReadingsFile
from replay.archive.stores.store import ArchiveStore
from replay.doubts import PROMPT_MS

PERHAPS_PARTIAL_RECORDS = 5_000_000
"""Smallest append of an earlier version, in records, that counts as perhaps partial.

Such an append may have ended before the end of the log. Earlier versions did not store whether it
had (`ReadRange.partial`).
"""


class _ReadTimes:
    """Times at which partitions had been read to their ends."""

    def __init__(self) -> None:
        self.all_ms = 0
        """Time of the last append that read every partition to its end; 0 before the first."""
        self._ms: dict[PartitionId, int] = {}

    def is_late(self, place: PartitionId, ms: int) -> bool:
        """True if the reading before is too long ago (`PROMPT_MS`); never for the first reading."""
        before_ms = self._ms.get(place)
        return before_ms is not None and ms - max(before_ms, self.all_ms) >= PROMPT_MS

    def note(self, place: PartitionId, ms: int) -> None:
        """Store the time (ms) of the last reading of a partition."""
        self._ms[place] = ms

    def note_all(self, ms: int) -> None:
        """Store the time (ms) of an append that read every partition to its end.

        The time holds for partitions without new records, too: the manifest leaves them out.
        """
        self.all_ms = ms


class _ReadAppend(NamedTuple):
    """Ranges that one append has read, and its time.

    The manifest of an earlier version's merge has the ranges of several appends.
    """

    manifest: Manifest
    ms: int
    reaches: list[ReadRange]


class _ReadingRow(NamedTuple):
    """One reading of an append. `PartitionReadings` adds `dense` and `joined`, filled by merges."""

    start: int
    end: int
    is_whole: bool
    is_late: bool


class ArchivedReadings:
    """Readings of a cluster's partitions, the oldest first."""

    def __init__(self, store: ArchiveStore, chain: Chain) -> None:
        self._store = store
        self._merged = chain.manifests[0].readings
        self._spans: tuple[ReadRange, ...] = ()
        self._file: ReadingsFile | None = None
        self._times = _ReadTimes()
        self._later: dict[PartitionId, list[_ReadingRow]] = defaultdict(list)
        if self._merged is not UNSET:
            self._spans = chain.manifests[0].reaches
            self._times.note_all(self._merged.all_read_ms)
            for span in self._spans:
                self._times.note((span.topic, span.partition), span.read_at_ms or 0)
        for append in _appends(chain):
            self._add(append)

    @property
    def all_read_ms(self) -> int:
        """Time of the last append that read every partition to its end; 0 before the first."""
        return self._times.all_ms

    def of(self, place: PartitionId) -> PartitionReadings:
        """Readings of a partition.

        Raises:
            ArchiveCorrupt: the file with stored readings is missing or damaged.
            ArchiveBusy: a merge has removed the file since the archive was opened.
        """
        later = self._later.get(place, [])
        stored = None if self._merged is UNSET else self._stored(self._merged, place)
        if stored is None or not later:
            return stored or _columns(later)
        return stored.then(_columns(later))

    def _stored(self, merged: StoredReadings, place: PartitionId) -> PartitionReadings | None:
        if self._file is None:
            self._file = ReadingsFile(self._store, merged.stored, self._spans)
        return self._file.of(place)

    def _add(self, append: _ReadAppend) -> None:
        manifest, ms = append.manifest, append.ms
        whole = [not is_partial(manifest, reach) for reach in append.reaches]
        for reach, is_whole in zip(append.reaches, whole, strict=True):
            place = reach.topic, reach.partition
            is_late = self._times.is_late(place, ms)
            self._later[place].append(_ReadingRow(reach.start, reach.end, is_whole, is_late))
            self._times.note(place, ms)
        if all(whole) and manifest.reads_all is UNSET:
            self._times.note_all(ms)


def _columns(readings: list[_ReadingRow]) -> PartitionReadings:
    starts, ends, whole, late = zip(*readings, strict=True)
    return PartitionReadings(
        np.array(starts, np.int64),
        np.array(ends, np.int64),
        np.array(whole, np.bool_),
        np.array(late, np.bool_),
        np.zeros(len(starts), np.bool_),
        np.zeros(len(starts), np.int64),
    )


def _appends(chain: Chain) -> Iterator[_ReadAppend]:
    """Yield all appends whose readings are in manifests, the oldest first."""
    for manifest in chain.manifests:
        if manifest.readings is not UNSET:
            continue
        by_time: dict[int, list[ReadRange]] = defaultdict(list)
        for reach in manifest.reaches:
            by_time[read_at_ms(manifest, reach)].append(reach)
        # An append without ranges found every partition at its archived end.
        for ms, reaches in by_time.items() or [(manifest.written_at_ms, [])]:
            yield _ReadAppend(manifest, ms, reaches)


def spans(chain: Chain) -> Iterator[ReadRange]:
    """Ranges of all readings, joined where no gap lies between them, by topic and partition.

    Each has `partial` and `read_at_ms` of its last reading.
    """
    joined: dict[PartitionId, list[ReadRange]] = defaultdict(list)
    for manifest in chain.manifests:
        for reach in manifest.reaches:
            ranges = joined[reach.topic, reach.partition]
            adjoins = bool(ranges) and ranges[-1].end == reach.start
            ranges.append(
                replace(
                    reach,
                    start=ranges.pop().start if adjoins else reach.start,
                    partial=is_partial(manifest, reach),
                    read_at_ms=read_at_ms(manifest, reach),
                )
            )
    for _, ranges in sorted(joined.items()):
        yield from ranges


def read_at_ms(manifest: Manifest, reach: ReadRange) -> int:
    """Time of the append that read a range."""
    return manifest.written_at_ms if reach.read_at_ms is None else reach.read_at_ms


def is_partial(manifest: Manifest, reach: ReadRange) -> bool:
    """True if a range ended before the end that the log had then, or may have."""
    if reach.partial is not None:
        return reach.partial
    return sum(segment.stored.records for segment in manifest.segments) >= PERHAPS_PARTIAL_RECORDS
