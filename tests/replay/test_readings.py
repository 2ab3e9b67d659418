"""Readings of a merged archive: few bytes, however many looks there were."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from controlplane.core.entry import Entry, batch_of
from controlplane.core.state import Topics
from replay.archive import layout
from replay.archive.appender import Appender
from replay.archive.archived_cluster import ArchivedCluster, open_cluster
from replay.archive.looks import ArchivedReadings
from replay.archive.merge import Merger
from replay.archive.readings import PartitionReadings
from replay.archive.readings_file import encoded_readings
from replay.archive.store import FolderStore
from tests.replay.archives import NAME

OFFSETS = Topics().offsets
PARTITIONS = range(3)


def looked_at(folder: Path, looks: int, stride: int) -> ArchivedCluster:
    """An archive of many looks that was merged; a record takes a stride of offsets."""
    store = FolderStore(str(folder))
    for look in range(looks):
        appender = Appender(store, NAME, Topics())
        for partition in PARTITIONS:
            offset = look * stride
            entry = Entry(OFFSETS, partition, offset, look, b'["a",{}]', b"{}")
            appender.add(batch_of([entry]))
            appender.reached(OFFSETS, partition, 0, offset + stride)
        appender.commit()
    Merger(store, NAME).run()
    return open_cluster(store, NAME)


def rows_of(cluster: ArchivedCluster) -> list[int]:
    """Number of readings of each partition."""
    readings = ArchivedReadings(cluster.store, cluster.chain)
    return [len(readings.of((OFFSETS, partition)).ends) for partition in PARTITIONS]


def manifest_bytes(cluster: ArchivedCluster) -> int:
    """Size of the merged manifest."""
    return len(cluster.store.read(layout.manifest(NAME, cluster.chain.manifests[0].number)))


@pytest.mark.parametrize("stride", [1, 2])
def test_a_merged_manifest_does_not_grow_with_looks(stride: int, tmp_path: Path) -> None:
    """It has one range for each partition; only digits of numbers are added."""
    ten = looked_at(tmp_path / "ten", 10, stride)
    twenty = looked_at(tmp_path / "twenty", 20, stride)
    assert len(twenty.chain.manifests[0].reaches) == len(PARTITIONS)
    assert manifest_bytes(twenty) - manifest_bytes(ten) < 50


def test_looks_without_missing_offsets_become_one_reading(tmp_path: Path) -> None:
    """Also across merges. Their number is kept."""
    cluster = looked_at(tmp_path, 10, 1)
    assert rows_of(cluster) == [1, 1, 1]
    appender = Appender(cluster.store, NAME, Topics())
    appender.add(batch_of([Entry(OFFSETS, 0, 10, 0, b'["a",{}]', b"{}")]))
    appender.reached(OFFSETS, 0, 0, 11)
    appender.commit()
    Merger(cluster.store, NAME).run()
    again = open_cluster(cluster.store, NAME)
    assert rows_of(again) == [1, 1, 1]
    readings = ArchivedReadings(again.store, again.chain)
    assert [readings.of((OFFSETS, at)).looks.number for at in PARTITIONS] == [11, 10, 10]


def test_looks_with_missing_offsets_stay_apart(tmp_path: Path) -> None:
    """The marker of a transaction ends each look: its end is a certain moment."""
    assert rows_of(looked_at(tmp_path, 10, 2)) == [10, 10, 10]


def test_a_reading_with_holes_takes_few_bytes() -> None:
    """About one, because looks find similar numbers of records."""
    random = Random(0)
    ends = np.cumsum([random.randrange(10, 30) for _ in range(20_000)])

    def size(number: int) -> int:
        flags, zeros = np.zeros(number, np.bool_), np.zeros(number, np.int64)
        starts = np.append(0, ends[: number - 1])
        readings = PartitionReadings(starts, ends[:number], ~flags, flags, flags, zeros)
        return len(encoded_readings([readings]).content)

    assert (size(20_000) - size(10_000)) / 10_000 < 1.5
