"""Choice of the segments that a merge joins: consecutive small ones of a partition."""

from collections.abc import Container, Iterator, Sequence

from replay.archive.manifest import Segment
from replay.archive.segments.segment_files import SegmentSizes

GROWTH = 10
"""Limit for the first segment of a group: 10 times the records of all later segments together. A
larger first segment is left out of the group. Otherwise each merge would write all records of a
large segment again, only to add a few new ones."""

GROUP_BYTES = 64 * 1024 * 1024
"""Greatest compressed size of a group in bytes. A merge holds one group in memory, where it is
several times as large."""


def groups(
    segments: Sequence[Segment], fresh: Container[str], sizes: SegmentSizes
) -> Iterator[Sequence[Segment]]:
    """Yield groups of two or more consecutive segments that together fit into one segment.

    Each group has a segment with a `fresh` file, written since the last merge. Groups without one
    are left out: the last merge has handled them. A merge writes several segments for a group only
    if the records have too many bytes for one.
    """
    group: list[Segment] = []
    # Running totals of the group: adding up its segments each time would take too long, because a
    # group may have very many.
    records = stored_bytes = 0
    for segment in segments:
        records += segment.stored.records
        stored_bytes += segment.stored.bytes
        if group and (records > sizes.segment_records or stored_bytes > GROUP_BYTES):
            yield from _worthwhile(group, fresh)
            group, records, stored_bytes = [], segment.stored.records, segment.stored.bytes
        group.append(segment)
    yield from _worthwhile(group, fresh)


def _worthwhile(group: Sequence[Segment], fresh: Container[str]) -> Iterator[Sequence[Segment]]:
    """Yield the group without the large segments at its beginning, if two remain."""
    if not any(segment.stored.file in fresh for segment in group):
        return
    later = sum(segment.stored.records for segment in group)
    for at, segment in enumerate(group[:-1]):
        later -= segment.stored.records
        if segment.stored.records <= GROWTH * later:
            yield group[at:]
            return
