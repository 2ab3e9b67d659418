"""Groups of segments that a merge joins."""

from collections.abc import Callable, Sequence

from replay.archive.manifest import Segment, StoredFile
from replay.archive.merges.segment_groups import GROUP_BYTES, groups
from replay.archive.segments.segment_files import SegmentSizes
from tests.operation_counts import assert_linear

SIZES = SegmentSizes(1_000, 500)
SMALL_BYTES = 10


def segments(*records: int, size: int = SMALL_BYTES) -> list[Segment]:
    """Segments with these numbers of records, named by their place."""
    return [
        Segment("t", 0, at, at + 1, 0, 0, 0, StoredFile(str(at), size, "", number))
        for at, number in enumerate(records)
    ]


def grouped(originals: Sequence[Segment], fresh: str | None = None) -> list[str]:
    """Names of the segments of each group; without `fresh`, all are new since the last merge."""
    files = {segment.stored.file for segment in originals} if fresh is None else {*fresh}
    return [
        "".join(segment.stored.file for segment in group)
        for group in groups(originals, files, SIZES)
    ]


def test_small_neighbours_are_joined_up_to_the_size_of_a_segment() -> None:
    """A merge joins only neighbouring segments, and at least two."""
    assert grouped(segments(400, 400, 400, 900, 300)) == ["01"]
    assert grouped(segments(10, 1_000, 10)) == []
    assert grouped(segments(500, 500, 500, 500)) == ["01", "23"]


def test_the_bytes_of_a_group_are_bounded() -> None:
    """A group has a limit in bytes, because a merge holds its records in memory."""
    assert grouped(segments(1, 1, 1, 1, size=GROUP_BYTES // 2)) == ["01", "23"]


def test_a_large_segment_waits_until_a_tenth_has_come() -> None:
    """A large segment is rewritten only once the newer segments have a tenth of its records."""
    assert grouped(segments(900, 1, 1)) == ["12"]
    assert grouped(segments(900, 1)) == []
    assert grouped(segments(900, 45, 45)) == ["012"]


def test_segments_of_the_last_merge_are_not_grouped_again() -> None:
    """Segments of the last merge are grouped again only with a newer segment."""
    assert grouped(segments(10, 10), fresh="") == []
    assert grouped(segments(10, 10, 10), fresh="2") == ["012"]


def test_very_many_segments_are_grouped_in_linear_time() -> None:
    """A capture each minute writes 40,000 segments of a partition in a month."""

    def prepared(size: int) -> Callable[[], object]:
        originals = segments(*[1] * size)
        return lambda: grouped(originals)

    assert_linear(prepared, 100)
