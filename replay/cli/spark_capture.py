"""`replay capture --engine spark`: what it is told beyond the rest, and captures that stream."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from threading import Event
from typing import NamedTuple

from pyspark.sql import SparkSession

from controlplane.logs.log import ReadableLog
from controlplane.logs.names import brokers_of
from controlplane.logs.opening import Opening, open_log
from controlplane.settings import WorkerSettings
from replay.capture.capture import Captured, Target
from replay.capture.spark import Source
from replay.capture.streaming import Stream, follow
from replay.cli.progress import bar
from replay.engine.session import session
from replay.engine.where import Where
from replay.errors import NotCapturable

CLIENTS = ("security.protocol", "sasl.", "ssl.")
"""Settings of a worker that say how to get in to its cluster: Spark's source is told the same."""


class Streaming(NamedTuple):
    """A cluster that is followed by Structured Streaming."""

    where: str
    how: Opening
    target: Target
    checkpoint: str
    """Where it is kept how far all clusters are."""
    pause_s: float | None
    """How long to wait before looking again; None: it is followed up to what is there now."""


@contextmanager
def with_jars(where: Where, jars: Path | None) -> Iterator[SparkSession]:
    """A session that has the jars in a folder.

    Raises:
        NotCapturable: there are none in it.
    """
    found = sorted(map(str, jars.glob("*.jar"))) if jars else []
    if jars and not found:
        raise NotCapturable(f"there are no jars in {jars}: fetch them with `make spark-jars`")
    told = ",".join(filter(None, [where.conf.get("spark.jars"), *found]))
    with session(Where(where.master, {**where.conf, "spark.jars": told})) as started:
        yield started


def source(started: SparkSession, where: str, how: Opening) -> Source:
    """Spark's source of a cluster, which gets in as our own reader does."""
    told = how.configuration
    servers = brokers_of(where) or told.settings(WorkerSettings).bootstrap_servers or ""
    clients = {key: one.text for key, one in told.told.items() if key.startswith(CLIENTS)}
    return Source(started, servers, clients)


def stream(
    started: SparkSession,
    cluster: Streaming,
    told_of: Callable[[Captured], None],
    ended: Event,
    *,
    alone: bool,
) -> None:
    """Follow a cluster until `ended` is set.

    It has a folder of its own in the checkpoint's, and a bar if it is alone.

    Raises as `replay.capture.streaming.follow`.
    """
    followed = Stream(
        lambda: _opened(cluster.where, cluster.how),
        cluster.target,
        source(started, cluster.where, cluster.how),
        f"{cluster.checkpoint.rstrip('/')}/{cluster.target.cluster}",
        cluster.pause_s,
    )
    with bar() if alone else nullcontext() as progress:
        follow(followed, told_of, progress, ended)


@asynccontextmanager
async def _opened(where: str, how: Opening) -> AsyncIterator[ReadableLog]:
    opened = await open_log(where, how)
    try:
        yield opened.log
    finally:
        await opened.log.close()
