"""Stream of changes with tables and checkpoint in an object store, on Spark's standalone cluster.

Hadoop writes Spark's part of the checkpoint, with jars that PySpark lacks; Arrow writes the rest.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from replay.archive.stores.hadoop_settings import HadoopSettings
from replay.archive.stores.store import open_store
from replay.fleet.feed.feed_lock import LEASES
from replay.fleet.feed.feed_tables import FeedTables
from tests.jars import JarsUnavailable, classpath, jar_alone
from tests.recorded_requests import recorded_entries
from tests.replay.archive.object_server import S3Proxy, running
from tests.replay.cli.replay_calls import wait_for
from tests.replay.feed.feed_laws import archived, feed_in, sorted_rows
from tests.replay.process_groups import kill_group
from tests.replay.spark.paused_tasks import PausePoint, wait_for_end
from tests.replay.spark.standalone_cluster import (
    SPARK,
    StandaloneCluster,
    driver,
    run_driver,
    standalone,
)

pytestmark = [pytest.mark.java, pytest.mark.prove]

CLIENT = (
    *(f"software.amazon.awssdk:{part}:2.35.4" for part in ("s3", "s3-transfer-manager", "sts")),
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
)
"""Clients of S3 that Hadoop 3.5 is built with. Its POM names a bundle of 700 MB instead."""

LOGS = {name: recorded_entries(name) for name in ("roll-3.4-3.9-3.4", "mirror-3.9")}


@pytest.fixture(scope="module")
def jars() -> str:
    """Setting of Spark with the jars of Hadoop's S3 client."""
    (api,) = (SPARK / "jars").glob("hadoop-client-api-*.jar")
    version = api.stem.rpartition("-")[2]
    try:
        hadoop = jar_alone(f"org.apache.hadoop:hadoop-aws:{version}")
        path = classpath(*CLIENT)
    except JarsUnavailable as missing:
        pytest.skip(str(missing))
    others = (jar for jar in path.split(":") if not Path(jar).name.startswith("slf4j-"))
    return ",".join([str(hadoop), *others])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Proxy]:
    """A running object store."""
    with running(S3Proxy, tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A master and two workers of Spark."""
    with standalone(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def test_a_killed_stream_is_continued(
    cluster: StandaloneCluster, server: S3Proxy, jars: str, tmp_path: Path
) -> None:
    """A run is refused until the killed driver's lease ends; the next one has a local feed's rows.

    A lease is the lock of a checkpoint in an object store.
    """
    where = f"s3a://{server.bucket.name}/progress"
    words = ["watch", str(tmp_path / "archive"), "--once", "--checkpoint", where]
    words += server.bucket.conf(endpoint_region="us-east-1")
    conf = {"spark.jars": jars}

    for name, log in LOGS.items():
        archived(tmp_path, log[:40], name)
    feed_in(tmp_path).advance()
    first = run_driver(*words, *cluster.options(conf))
    assert (first.code, first.err) == (0, "")

    for name, log in LOGS.items():
        archived(tmp_path, log, name)
    feed_in(tmp_path).advance()
    point = PausePoint("open", "/cluster=roll-3.4-3.9-3.4/_manifest/", str(tmp_path))
    with driver(*words, *cluster.options(conf | point.conf)) as process:
        processes = point.reached(process)
        changes = server.files / server.bucket.name / "progress" / "tables" / "state_changes"
        wait_for(changes / "batch=1" / "cluster-mirror-3.9-00000.parquet")
        kill_group(process)
    for each in processes:
        wait_for_end(each)
    settings = HadoopSettings(server.bucket.hadoop)
    tables = FeedTables(f"{where}/tables", settings)
    assert tables.last() == 0

    refused = run_driver(*words, *cluster.options(conf))
    assert refused.code == 2
    assert "another feed writes batch 1" in refused.err
    checkpoint = open_store(f"{where}/feed", settings)
    (lease,) = checkpoint.names(LEASES)
    checkpoint.remove(f"{LEASES}/{lease}")  # stands for the expiry of the lease
    last = run_driver(*words, *cluster.options(conf))
    assert (last.code, last.err) == (0, "")
    assert sorted_rows(tables) == sorted_rows(FeedTables(str(tmp_path / "tables"), settings))
    assert checkpoint.names(LEASES) == []


def test_a_stream_works_with_everything_in_an_object_store(
    cluster: StandaloneCluster, server: S3Proxy, jars: str, tmp_path: Path
) -> None:
    """With the archive in the store, too, two runs write the rows of a local feed."""
    place = f"s3a://{server.bucket.name}/everything"
    words = ["watch", f"{place}/archive", "--once", "--checkpoint", f"{place}/progress"]
    words += server.bucket.conf(endpoint_region="us-east-1")
    store = server.files / server.bucket.name / "everything"
    for end in (40, None):
        for name, log in LOGS.items():
            archived(tmp_path, log[:end], name)
        shutil.copytree(tmp_path / "archive", store / "archive", dirs_exist_ok=True)
        feed_in(tmp_path).advance()
        done = run_driver(*words, *cluster.options({"spark.jars": jars}))
        assert (done.code, done.err) == (0, "")
    settings = HadoopSettings(server.bucket.hadoop)
    tables = FeedTables(f"{place}/progress/tables", settings)
    assert sorted_rows(tables) == sorted_rows(FeedTables(str(tmp_path / "tables"), settings))


def test_a_stream_without_the_jars_is_refused(
    cluster: StandaloneCluster, server: S3Proxy, tmp_path: Path
) -> None:
    """The error says that Hadoop's jars are missing; no file is written."""
    for name, log in LOGS.items():
        archived(tmp_path, log[:40], name)
    where = f"s3a://{server.bucket.name}/nowhere"
    words = ["watch", str(tmp_path / "archive"), "--once", "--checkpoint", where]
    refused = run_driver(*words, *server.bucket.conf(), *cluster.options())
    assert refused.code == 2
    (line,) = refused.err.splitlines()
    assert f"Error: Spark cannot write {where}/stream (" in line
    assert "it needs Hadoop's jars" in line
    assert not (server.files / server.bucket.name / "nowhere").exists()
