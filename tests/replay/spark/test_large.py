"""One large cluster, asked in every way there is: all come to the same digest."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.progress import Progress

from benchmarks.fleet import NAME, generate
from controlplane.core.entry import Batch
from controlplane.core.evolve import Fold
from controlplane.core.evolve.bulk import load
from controlplane.core.profiles import Profile
from replay.archive.cluster import Cluster
from replay.engine.asked import Asked
from replay.engine.digest import digest
from replay.engine.local import Local, Options
from replay.engine.slicing import LIMITS
from replay.engine.spark import Spark
from replay.kernels.batches import batch
from tests.conftest import PROVE
from tests.replay.sql.oracle import RELEASES, Cut, Oracle, lines_of

pytestmark = pytest.mark.java

RECORDS = 10_000_000 if PROVE else 100_000
SLICED = LIMITS._replace(slice_rows=RECORDS // 50)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the archive lies."""
    return tmp_path_factory.mktemp("large")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Cluster:
    """The cluster that is measured, too (`benchmarks.replay`)."""
    with Progress(disable=True) as progress:
        return generate(folder, RECORDS, progress)


def batches(cluster: Cluster, folder: Path) -> Iterator[Batch]:
    """All records, as Parquet has them."""
    for part in cluster.parts.values():
        for segment in part.segments:
            file = pq.ParquetFile(folder / segment.stored.file)
            for number in range(file.num_row_groups):
                rows = file.read_row_group(number, ["offset", "timestamp", "key", "value"])
                yield batch(segment.topic, segment.partition, rows)


def test_all_say_the_same(cluster: Cluster, folder: Path, spark: SparkSession) -> None:
    """The service's fold, the engine with and without snapshots, Spark, and SQL."""
    oracle = Oracle()
    oracle.archive(folder)
    sql = oracle.answer([Cut(cluster.ends, cluster=NAME)])
    assert not any(sql.unfollowed)
    profiles = [Profile.of(release) for release in RELEASES]
    local, derived = Local(cluster, Options(derived=False)), Local(cluster)
    asked = [Asked(one, one.plan(None, profiles), profiles) for one in (local, derived)]
    in_spark = Spark(spark, SLICED).states(asked)
    found = [*in_spark, *(one.local.states(one.plan, one.profiles) for one in asked)]
    for at, (release, profile) in enumerate(zip(RELEASES, profiles, strict=True)):
        service = Fold(profile)
        load(service, batches(cluster, folder))
        state = service.snapshot()
        assert len(state.config.connectors) > RECORDS // 50_000
        assert {digest(states[at]) for states in found} == {digest(state)}
        assert sql.lines[0, release] == lines_of(state)
