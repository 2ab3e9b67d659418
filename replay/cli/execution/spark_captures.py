"""Spark's part of `replay capture`: sessions with jars, the Kafka source, and streams."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from threading import Event
from typing import NamedTuple

from pyspark.sql import SparkSession

from controlplane.logs.log import ReadableLog
from controlplane.logs.log_factory import OpenOptions, open_log
from controlplane.logs.names import brokers_of
from controlplane.settings import WorkerSettings
from replay.capture.log_capture import CaptureResult, CaptureTarget
from replay.capture.spark_capture import KafkaFrames
from replay.capture.stream_capture import CaptureStream, follow
from replay.cli.output.progress_bar import bar
from replay.engine.spark.location import SparkLocation
from replay.engine.spark.session import session
from replay.errors import NotCapturable

CLIENTS = ("security.protocol", "sasl.", "ssl.")
"""Prefixes of a worker's security settings, which Spark's source needs as well."""


class StreamedCluster(NamedTuple):
    """Kafka cluster that Structured Streaming follows, and the target of its records."""

    where: str
    how: OpenOptions
    target: CaptureTarget
    checkpoint: str
    """Folder of all clusters' checkpoints."""
    pause_s: float | None
    """Seconds between micro-batches; None captures the present content only."""


@contextmanager
def with_jars(where: SparkLocation, jars: Path | None) -> Iterator[SparkSession]:
    """Session with the jars in a folder.

    Raises:
        NotCapturable: the folder has no jars.
    """
    jar_files = sorted(map(str, jars.glob("*.jar"))) if jars else []
    if jars and not jar_files:
        raise NotCapturable(f"there are no jars in {jars}: fetch them with `make spark-jars`")
    all_jars = ",".join(filter(None, [where.conf.get("spark.jars"), *jar_files]))
    with session(SparkLocation(where.master, {**where.conf, "spark.jars": all_jars})) as started:
        yield started


def source(started: SparkSession, where: str, how: OpenOptions) -> KafkaFrames:
    """Spark's source for a cluster, with the same security settings as the reader."""
    configuration = how.configuration
    servers = brokers_of(where) or configuration.settings(WorkerSettings).bootstrap_servers or ""
    clients = {
        key: value.text for key, value in configuration.values.items() if key.startswith(CLIENTS)
    }
    return KafkaFrames(started, servers, clients)


def stream(
    started: SparkSession,
    cluster: StreamedCluster,
    listener: Callable[[CaptureResult], None],
    ended: Event,
    *,
    alone: bool,
) -> None:
    """Follow a cluster until `ended` is set.

    The cluster has its own folder in the checkpoint. A progress bar is shown only if the cluster
    is followed `alone`. Raises the errors of `replay.capture.stream_capture.follow`.
    """
    followed = CaptureStream(
        lambda: _opened(cluster.where, cluster.how),
        cluster.target,
        source(started, cluster.where, cluster.how),
        f"{cluster.checkpoint.rstrip('/')}/{cluster.target.cluster}",
        cluster.pause_s,
    )
    with bar() if alone else nullcontext() as progress:
        follow(followed, listener, progress, ended)


@asynccontextmanager
async def _opened(where: str, how: OpenOptions) -> AsyncIterator[ReadableLog]:
    opened = await open_log(where, how)
    try:
        yield opened.log
    finally:
        await opened.log.close()
