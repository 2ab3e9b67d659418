"""One large cluster: every way to fold it gives the same state."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.progress import Progress

from benchmarks.inputs.large_cluster import NAME, generate
from controlplane.core.entry import Batch
from controlplane.core.fold import Fold
from controlplane.core.fold.bulk import load
from controlplane.core.releases.profiles import Profile
from replay.archive.archived_cluster import ArchivedCluster
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.engine.query import StateQuery
from replay.engine.slices import LIMITS
from replay.engine.spark.engine import SparkEngine
from replay.engine.states.state_digest import digest
from replay.kernels.batches import batch
from tests.conftest import PROVE
from tests.replay.sql.oracle import RELEASES, Cut, SqlOracle, lines_of

pytestmark = pytest.mark.java

RECORDS = 10_000_000 if PROVE else 30_000
SLICED = LIMITS._replace(slice_rows=RECORDS // 50)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of this module's archive."""
    return tmp_path_factory.mktemp("large")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> ArchivedCluster:
    """Cluster that the benchmarks measure, too (`benchmarks.replay`)."""
    with Progress(disable=True) as progress:
        return generate(folder, RECORDS, progress)


def batches(cluster: ArchivedCluster, folder: Path) -> Iterator[Batch]:
    """All records, as Parquet has them."""
    for part in cluster.parts.values():
        for segment in part.segments:
            file = pq.ParquetFile(folder / segment.stored.file)
            for number in range(file.num_row_groups):
                rows = file.read_row_group(number, ["offset", "timestamp", "key", "value"])
                yield batch(segment.topic, segment.partition, rows)


def test_all_have_one_digest(cluster: ArchivedCluster, folder: Path, spark: SparkSession) -> None:
    """The service's fold, engine and Spark have one digest; SQL has the lines of that state.

    Engine and Spark read the archive with and without snapshots.
    """
    oracle = SqlOracle()
    oracle.archive(folder)
    sql = oracle.answer([Cut(cluster.ends, cluster=NAME)])
    assert not any(sql.unfollowed)
    profiles = [Profile.of(release) for release in RELEASES]
    local, derived = LocalEngine(cluster, LocalOptions(derived=False)), LocalEngine(cluster)
    queries = [
        StateQuery(engine, engine.plan(None, profiles), profiles) for engine in (local, derived)
    ]
    in_spark = SparkEngine(spark, SLICED).states(queries)
    answers = [*in_spark, *(query.local.states(query.plan, query.profiles) for query in queries)]
    for at, (release, profile) in enumerate(zip(RELEASES, profiles, strict=True)):
        service = Fold(profile)
        load(service, batches(cluster, folder))
        state = service.snapshot()
        assert len(state.config.connectors) > RECORDS // 50_000
        assert {digest(states[at]) for states in answers} == {digest(state)}
        assert sql.lines[0, release] == lines_of(state)
