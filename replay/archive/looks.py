"""Looks: the readings of a partition, each from the end of the archive to the end of the log.

A record that the cleaner removes has a later record of the same key. If the later one is archived
by the same look, the last record of each key is known at the end of the look, and only there. So
the ends of looks decide which states are certain (`replay.engine.certainty`).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from replay.archive.archived_cluster import PartitionId
from replay.archive.manifest import Chain, Manifest, ReadRange
from replay.doubts import PROMPT_MS

UNRECORDED = 5_000_000
"""Records of an append from which an earlier version may have stopped within a look."""


class PartitionLook(NamedTuple):
    """Offsets of one partition that a capture has read up to the end that the log had then."""

    start: int
    end: int
    is_whole: bool
    """False if the capture stopped before the end of the log, or may have."""
    late: tuple[int, ...] = ()
    """Starts of readings that came so long after the one before that a tombstone may be missed."""


Looks = Sequence[PartitionLook]
"""Looks at one partition, the oldest first."""


class _LookTimes:
    """Times at which partitions had been read to their ends."""

    def __init__(self) -> None:
        self._all_ms = 0
        """End of the last append that read every partition to its end; 0 before the first."""
        self._ms: dict[PartitionId, int] = {}

    def is_late(self, place: PartitionId, ms: int) -> bool:
        """True if a partition had not been read for too long; never for its first reading."""
        before_ms = self._ms.get(place)
        return before_ms is not None and ms - max(before_ms, self._all_ms) >= PROMPT_MS

    def note(self, place: PartitionId, ms: int) -> None:
        """A partition was read."""
        self._ms[place] = ms

    def note_all(self, ms: int) -> None:
        """An append ended; partitions without new records are not in its manifest."""
        self._all_ms = ms


def looks_of(chain: Chain) -> Mapping[PartitionId, Looks]:
    """Looks at each partition, the oldest first. Appends of one look are joined."""
    looks: dict[PartitionId, list[PartitionLook]] = defaultdict(list)
    times = _LookTimes()
    for append in _appends(chain):
        for reach in append.reaches:
            place = reach.topic, reach.partition
            late = (reach.start,) if times.is_late(place, append.ms) else ()
            is_whole = not is_partial(append.manifest, reach)
            _join(looks[place], PartitionLook(reach.start, reach.end, is_whole, late))
            times.note(place, append.ms)
        if not any(is_partial(append.manifest, reach) for reach in append.reaches):
            times.note_all(append.ms)
    return looks


class _ReadAppend(NamedTuple):
    """Ranges that one append has read, and its time; a merged manifest has those of several."""

    manifest: Manifest
    ms: int
    reaches: list[ReadRange]


def _appends(chain: Chain) -> Iterator[_ReadAppend]:
    """Yield all appends, the oldest first."""
    for manifest in chain.manifests:
        by_time: dict[int, list[ReadRange]] = defaultdict(list)
        for reach in manifest.reaches:
            by_time[read_at_ms(manifest, reach)].append(reach)
        for ms, reaches in by_time.items() or [(manifest.written_at_ms, [])]:
            yield _ReadAppend(manifest, ms, reaches)


def _join(looks: list[PartitionLook], reading: PartitionLook) -> None:
    """Add a reading, to the last look if that had not reached the end of the log."""
    if looks and not looks[-1].is_whole:
        begun = looks.pop()
        reading = reading._replace(start=begun.start, late=(*begun.late, *reading.late))
    looks.append(reading)


def read_at_ms(manifest: Manifest, reach: ReadRange) -> int:
    """Time of the append that read a range."""
    return manifest.written_at_ms if reach.read_at_ms is None else reach.read_at_ms


def is_partial(manifest: Manifest, reach: ReadRange) -> bool:
    """True if a range ended before the end that the log had then, or may have."""
    if reach.partial is not None:
        return reach.partial
    return sum(segment.stored.records for segment in manifest.segments) >= UNRECORDED
