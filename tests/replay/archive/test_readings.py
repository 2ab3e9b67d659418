"""Readings of a merged archive, and their size.

A reading is a range of offsets that an append has read. A look is one pass of a capture, up to the
present end of the log. It has several readings if the capture commits in between. Merges join looks
without missing offsets. A look with missing offsets stays separate and takes about one byte.
"""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from controlplane.core.entry import Entry, batch_of
from controlplane.core.state import Topics
from replay.archive import layout
from replay.archive.appender import Appender
from replay.archive.archived_cluster import ArchivedCluster, open_cluster
from replay.archive.merges.merge import Merger
from replay.archive.readings.archived_readings import ArchivedReadings
from replay.archive.readings.reading_columns import PartitionReadings
from replay.archive.readings.readings_file import encoded_readings
from replay.archive.stores.store import FolderStore
from replay.doubts import DoubtKind
from replay.engine.coverage.certainty import ArchiveCertainty
from replay.engine.plans.retention_plan import older_than
from tests.replay.archive.archives import NAME
from tests.replay.certainty.certainty_answers import certainty_of
from tests.replay.certainty.lossy_archive import HOUR_MS, commit_at

OFFSETS = Topics().offsets
PARTITIONS = range(3)


def looked_at(folder: Path, looks: int, stride: int) -> ArchivedCluster:
    """Merged archive of many looks, each with one record per partition.

    A stride above 1 leaves missing offsets at the end of each look, as transaction markers do.
    """
    store = FolderStore(str(folder))
    for look in range(looks):
        appender = Appender(store, NAME, Topics())
        appender.reached(Topics().config, 0, 0, 0)
        for partition in PARTITIONS:
            offset = look * stride
            entry = Entry(OFFSETS, partition, offset, look, b'["a",{}]', b"{}")
            appender.add(batch_of([entry]))
            appender.reached(OFFSETS, partition, 0, offset + stride)
        appender.commit()
    Merger(store, NAME).run()
    return open_cluster(store, NAME)


def looked_at_again(cluster: ArchivedCluster) -> ArchivedCluster:
    """The archive after a look that found one record, and a merge."""
    appender = Appender(cluster.store, NAME, Topics())
    appender.add(batch_of([Entry(OFFSETS, 0, 10, 10, b'["a",{}]', b"{}")]))
    appender.reached(OFFSETS, 0, 0, 11)
    appender.commit()
    Merger(cluster.store, NAME).run()
    return open_cluster(cluster.store, NAME)


def rows_of(cluster: ArchivedCluster) -> list[int]:
    """Number of readings of each partition."""
    readings = ArchivedReadings(cluster.store, cluster.chain)
    return [len(readings.of((OFFSETS, partition)).ends) for partition in PARTITIONS]


def manifest_bytes(cluster: ArchivedCluster) -> int:
    """Return the size of the merged manifest in bytes."""
    return len(cluster.store.read(layout.manifest(NAME, cluster.chain.manifests[0].number)))


@pytest.mark.parametrize("stride", [1, 2])
def test_a_merged_manifest_does_not_grow_with_looks(stride: int, tmp_path: Path) -> None:
    """Ten more looks add no range to the manifest, and only digits to its numbers."""
    ten = looked_at(tmp_path / "ten", 10, stride)
    twenty = looked_at(tmp_path / "twenty", 20, stride)
    assert len(twenty.chain.manifests[0].reaches) == len(PARTITIONS) + 1
    assert manifest_bytes(twenty) - manifest_bytes(ten) < 50


def test_looks_without_missing_offsets_become_one_reading(tmp_path: Path) -> None:
    """Merges join looks without missing offsets, and keep the number of looks."""
    cluster = looked_at(tmp_path, 10, 1)
    assert rows_of(cluster) == [1, 1, 1]
    again = looked_at_again(cluster)
    assert rows_of(again) == [1, 1, 1]
    readings = ArchivedReadings(again.store, again.chain)
    assert [readings.of((OFFSETS, at)).looks.number for at in PARTITIONS] == [11, 10, 10]


def test_joined_looks_stay_joined_once_retention_has_removed_records(tmp_path: Path) -> None:
    """Looks stay joined, although retention has removed records and segments lack their offsets."""
    cluster = looked_at(tmp_path, 10, 1)
    result = Merger(cluster.store, NAME, retention=older_than(0, 5)).run()
    assert [expired.records for expired in result.expired] == [5, 5, 5]
    assert rows_of(looked_at_again(cluster)) == [1, 1, 1]


def test_looks_with_missing_offsets_stay_apart(tmp_path: Path) -> None:
    """Looks that end with a transaction marker stay separate, so that each end stays certain."""
    cluster = looked_at(tmp_path, 10, 2)
    assert rows_of(cluster) == [10, 10, 10]
    certainty = ArchiveCertainty(cluster)
    assert not any([*certainty.of_partition((OFFSETS, 0), end)] for end in range(2, 21, 2))


@pytest.mark.parametrize(
    ("readings", "span"),
    [
        pytest.param([(5, 8, False), (8, 10, False)], (-1, 8, 5), id="first look behind offset 0"),
        pytest.param([(0, 3, True), (5, 8, False), (8, 10, False)], (2, 8, 2), id="gap in a look"),
    ],
)
def test_a_look_with_lost_offsets_stays_apart(
    readings: list[tuple[int, int, bool]], span: tuple[int, int, int], tmp_path: Path
) -> None:
    """A look at a log that had lost offsets stays separate, so a merge keeps its unknown span."""
    store = FolderStore(str(tmp_path))
    for start, end, is_partial in readings:
        appender = Appender(store, NAME, Topics())
        offsets = range(start, end)
        appender.add(batch_of([Entry(OFFSETS, 0, at, at, b'["a",{}]', b"{}") for at in offsets]))
        appender.reached(OFFSETS, 0, start, end, partial=is_partial)
        appender.commit()
    before = open_cluster(store, NAME)
    (unknown,) = ArchiveCertainty(before).summary((OFFSETS, 0)).unknown
    assert (unknown.after, unknown.until, unknown.missing) == span
    Merger(store, NAME).run()
    assert certainty_of(open_cluster(store, NAME)) == certainty_of(before)


@pytest.mark.parametrize(
    ("looks", "spans"),
    [
        pytest.param([([0], 1), ([], 3), ([], 5), ([5], 6)], [], id="markers alone"),
        pytest.param([([0], 3), ([5], 7)], [(2, 6, 2)], id="markers on both sides of a look's end"),
    ],
)
def test_markers_at_the_end_of_a_look_leave_no_offset_unknown(
    looks: list[tuple[list[int], int]], spans: list[tuple[int, int, int]], tmp_path: Path
) -> None:
    """Markers before a record of a look leave offsets unknown; markers at the look's end do not."""
    store = FolderStore(str(tmp_path))
    for offsets, end in looks:
        appender = Appender(store, NAME, Topics())
        if offsets:
            entries = [Entry(OFFSETS, 0, at, at, b'["a",{}]', b"{}") for at in offsets]
            appender.add(batch_of(entries))
        appender.reached(OFFSETS, 0, 0, end)
        appender.commit()
    certainty = ArchiveCertainty(open_cluster(store, NAME))
    assert certainty.looks((OFFSETS, 0)).number == len(looks)
    unknown = certainty.summary((OFFSETS, 0)).unknown
    assert [(span.after, span.until, span.missing) for span in unknown] == spans


def test_an_append_without_new_records_counts_as_a_reading(tmp_path: Path) -> None:
    """An append also reads the partitions that its manifest omits for lack of new records.

    Hour 10's manifest omits partition 0. The next reading, at hour 20, is still not late: less than
    `PROMPT_MS` (12 hours) have passed since hour 10.
    """
    for merges in (False, True):
        store = FolderStore(str(tmp_path / str(merges)))
        for hours, partition, offset in ((0, 0, 0), (0, 1, 0), (10, 1, 1), (20, 0, 3)):
            appender = Appender(store, NAME, Topics())
            appender.add(batch_of([Entry(OFFSETS, partition, offset, 0, b'["a",{}]', b"{}")]))
            for read in (0, 1):
                end = appender.end_of(OFFSETS, read) or 0
                appender.reached(OFFSETS, read, 0, offset + 1 if read == partition else end)
            commit_at(store, appender, hours * HOUR_MS)
            if merges:
                Merger(store, NAME).run()
        cluster = open_cluster(store, NAME)
        assert ArchiveCertainty(cluster).doubts(cluster.ends, None) == ()


def test_an_append_reads_only_the_partitions_that_it_reaches(tmp_path: Path) -> None:
    """A commit within a look, or a dump without a topic, is no reading of the other partitions.

    Hours 10 and 20 leave out partition 0. Its reading at hour 30 is therefore late. Partition 1 was
    read at hour 20, without a new record, so its reading at hour 30 is not late.
    """
    appends: tuple[tuple[int, dict[int, int], dict[int, int]], ...] = (
        (0, {0: 0, 1: 0, 2: 0}, {0: 1, 1: 1, 2: 1}),
        (10, {1: 1, 2: 1}, {1: 2, 2: 2}),
        (20, {2: 2}, {1: 2, 2: 3}),
        (30, {0: 3, 1: 4, 2: 3}, {0: 4, 1: 5, 2: 4}),
    )
    for merges in (False, True):
        store = FolderStore(str(tmp_path / str(merges)))
        for hours, records, ends in appends:
            appender = Appender(store, NAME, Topics())
            for partition, offset in records.items():
                appender.add(batch_of([Entry(OFFSETS, partition, offset, 0, b'["a",{}]', b"{}")]))
            for partition, end in ends.items():
                appender.reached(OFFSETS, partition, 0, end)
            commit_at(store, appender, hours * HOUR_MS)
            if merges:
                Merger(store, NAME).run()
        cluster = open_cluster(store, NAME)
        doubts = ArchiveCertainty(cluster).doubts(cluster.ends, None)
        assert [(doubt.partition, doubt.kind) for doubt in doubts] == [(0, DoubtKind.DELETIONS)]


def test_a_reading_with_holes_takes_few_bytes() -> None:
    """A look with missing offsets takes less than 1.5 bytes if looks find similar record counts."""
    random = Random(0)
    ends = np.cumsum([random.randrange(10, 30) for _ in range(20_000)])

    def size(number: int) -> int:
        flags, zeros = np.zeros(number, np.bool_), np.zeros(number, np.int64)
        starts = np.append(0, ends[: number - 1])
        readings = PartitionReadings(starts, ends[:number], ~flags, flags, flags, zeros)
        return len(encoded_readings([readings]).content)

    assert (size(20_000) - size(10_000)) / 10_000 < 1.5
