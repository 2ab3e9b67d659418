"""Size of the facts that a merged archive keeps about its looks, and time of queries on them.

    python -m benchmarks.archives.merged_readings [--looks 525600] [--partitions 25]
        [--markers] [--earlier]

A *look* is one capture of all partitions, a *reading* what a look has read of one partition. An
archive has one record per look in each of `--partitions` partitions of the offsets topic. It equals
an archive that was captured in `--looks` looks (default: one a minute for a year) and merged. It is
made at once, not look by look. With `--markers`, 1 to 30 markers of transactions follow each
record. A marker takes an offset, but is no record. So each look finds no record at some offsets,
and looks cover different numbers of offsets. A *doubt* is a span of offsets in which the state may
be wrong, because records are missing there. `--earlier` writes every reading into the manifest, as
earlier versions did. Times are CPU times.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import click
import numpy as np
import pyarrow as pa
from msgspec import UNSET
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from controlplane.core.state import Topics
from replay.archive import layout
from replay.archive.appender import Appender
from replay.archive.archived_cluster import ArchivedCluster, open_cluster
from replay.archive.manifest import (
    MERGE_FORMAT,
    READINGS_FORMAT,
    Manifest,
    Merge,
    ReadRange,
    StoredReadings,
    encoded,
    read_chain,
)
from replay.archive.merges.replaced_manifests import packed
from replay.archive.merges.unnamed_files import remove_replaced
from replay.archive.readings.reading_columns import PartitionReadings, reduced
from replay.archive.readings.readings_file import encoded_readings
from replay.archive.segments.removed_offsets import OffsetColumn
from replay.archive.segments.segment_files import SCHEMA
from replay.archive.stores.store import ArchiveStore, open_store
from replay.engine.coverage.certainty import ArchiveCertainty

NAME = "looks"
TOPICS = Topics()
START_MS = 1_767_225_600_000
"""Start of the first look in ms since 1970: 2026-01-01T00:00:00Z."""
MINUTE_MS = 60_000
WRITER = "-benchmrk"
"""End of the file names of this merge: as long as the random one of a real merge."""


class Looks(NamedTuple):
    """Looks of an archive; each finds one record in each partition."""

    number: int
    partitions: int
    markers: bool = False
    """True if markers of transactions follow each record."""

    def bounds(self, partition: int) -> OffsetColumn:
        """Start offset of the first look at a partition, then the end offset of each look."""
        if not self.markers:
            return np.arange(self.number + 1)
        sizes = np.random.default_rng(partition).integers(2, 32, self.number)
        return np.concatenate(([0], np.cumsum(sizes)))


def write_archive(store: ArchiveStore, looks: Looks, *, earlier: bool = False) -> None:
    """Write an archive as looks and a merge would leave it; one append stands for all looks."""
    appender = Appender(store, NAME, TOPICS)
    for partition in range(looks.partitions):
        writer = appender.segment_writer((TOPICS.offsets, partition), 0)
        writer.add(_rows(looks, partition))
        writer.write()
        appender.take_over(writer.segments)
        appender.reached(TOPICS.offsets, partition, 0, int(looks.bounds(partition)[-1]))
    appender.commit()
    chain = read_chain(store, NAME)
    (appended,) = chain.manifests
    replaced_name, file = packed(store, NAME, chain, WRITER)
    store.add(replaced_name, file.content)
    merged = replace(
        appended,
        number=chain.next_number,
        previous=chain.head,
        format=READINGS_FORMAT,
        base=chain.next_number,
        merge=Merge(file.stored(replaced_name)),
    )
    merged = _with_ranges(merged, looks) if earlier else _with_file(store, merged, looks)
    store.add(layout.manifest(NAME, merged.number), encoded(merged))
    remove_replaced(store, NAME, 0)


def _rows(looks: Looks, partition: int) -> pa.Table:
    offsets = looks.bounds(partition)[:-1]
    key = f'["orders-{partition}",{{"partition":{partition}}}]'.encode()
    return pa.table(
        [
            pa.array(offsets),
            pa.array(START_MS + np.arange(looks.number) * MINUTE_MS),
            pa.array([key], pa.binary()).take(pa.array(np.zeros(looks.number, np.int64))),
            pa.array(offsets).cast(pa.string()).cast(pa.binary()),
            pa.nulls(looks.number, SCHEMA.field("headers").type),
            pa.array(np.zeros(looks.number, np.bool_)),
        ],
        schema=SCHEMA,
    )


def _with_ranges(merged: Manifest, looks: Looks) -> Manifest:
    """The manifest with every reading, as earlier versions wrote it."""
    bounds = [looks.bounds(partition).tolist() for partition in range(looks.partitions)]
    reaches = tuple(
        ReadRange(
            TOPICS.offsets,
            partition,
            bounds[partition][look],
            bounds[partition][look + 1],
            partial=False,
            read_at_ms=START_MS + look * MINUTE_MS,
        )
        for look in range(looks.number)
        for partition in range(looks.partitions)
    )
    return replace(merged, format=MERGE_FORMAT, reaches=reaches)


def _with_file(store: ArchiveStore, merged: Manifest, looks: Looks) -> Manifest:
    """The manifest with a file of readings, as a merge writes it."""
    file = encoded_readings(
        reduced(
            _readings(looks.bounds(partition)),
            tuple(each for each in merged.segments if each.partition == partition),
        )
        for partition in range(looks.partitions)
    )
    name = layout.readings(NAME, merged.number, file.sha256, WRITER)
    store.add(name, file.content)
    assert merged.merge is not UNSET
    readings = StoredReadings(file.stored(name), merged.written_at_ms)
    return replace(merged, merge=replace(merged.merge, readings=readings))


def _readings(bounds: OffsetColumn) -> PartitionReadings:
    zeros = np.zeros(len(bounds) - 1, np.int64)
    false = zeros.astype(np.bool_)
    return PartitionReadings(bounds[:-1], bounds[1:], ~false, false, false, zeros)


class Measurement(NamedTuple):
    """Bytes of the facts about the looks, and CPU seconds of the queries on them."""

    manifest: int
    readings: int
    """Bytes of the file of readings."""
    open_s: float
    end_s: float
    """Time to find the doubts about the state at the end of the archive."""
    middle_s: float
    """Time to find the doubts about the state at the middle of each partition."""
    past_s: float
    """Time to summarize the doubts about the past of each partition."""


def measured(store: ArchiveStore) -> Measurement:
    """Measure the archive of a store."""
    cluster, open_s = _timed(lambda: open_cluster(store, NAME))
    (manifest,) = cluster.chain.manifests
    stored = manifest.readings
    return Measurement(
        store.size(layout.manifest(NAME, manifest.number)) or 0,
        0 if stored is UNSET else stored.stored.bytes,
        open_s,
        _timed(lambda: _doubts(cluster, 1.0))[1],
        _timed(lambda: _doubts(cluster, 0.5))[1],
        _timed(lambda: _summaries(cluster))[1],
    )


def _doubts(cluster: ArchivedCluster, share: float) -> None:
    ends = {topic: [int(end * share) for end in each] for topic, each in cluster.ends.items()}
    ArchiveCertainty(cluster).doubts(ends, None)


def _summaries(cluster: ArchivedCluster) -> None:
    certainty = ArchiveCertainty(cluster)
    for place in cluster.parts:
        certainty.summary(place)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    begin = process_time()
    result = work()
    return result, process_time() - begin


@click.command()
@click.option("--looks", default=525_600, show_default=True, help="Looks; one a minute for a year.")
@click.option("--partitions", default=25, show_default=True, help="Partitions with records.")
@click.option("--markers", is_flag=True, help="Markers of transactions follow each record.")
@click.option("--earlier", is_flag=True, help="Write the form of earlier versions.")
def main(looks: int, partitions: int, *, markers: bool, earlier: bool) -> None:
    """Measure the facts that a merged archive keeps about its looks."""
    with tempfile.TemporaryDirectory() as name:
        store = open_store(str(Path(name)))
        write_archive(store, Looks(looks, partitions, markers), earlier=earlier)
        result = measured(store)
    table = Table(title=f"{looks:,} looks at {partitions} partitions")
    for head in ("manifest, kB", "readings, kB", "open", "at the end", "in the middle", "the past"):
        table.add_column(head)
    seconds = (f"{each:.3f} s" for each in result[2:])
    table.add_row(*(f"{each / 1e3:,.1f}" for each in result[:2]), *seconds)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
