"""Source and query of Structured Streaming for a change feed.

A look (`ClusterLook`) is the position at the end of a cluster's archive. The offset of the stream
contains a look at each cluster. A repeated batch therefore ends at the same records, even if an
append or a merge came between. Rows are the looks that have changed; tasks read the records.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.streaming.query import StreamingQuery

from replay.engine.spark.session import NoSpark, root_cause
from replay.errors import NoArchive
from replay.fleet.archive_source import ArchiveSource
from replay.fleet.feed.positions import ClusterLook, cluster_looks, followed_names

if TYPE_CHECKING:
    from replay.fleet.feed.change_feed import ArchiveFeed

FORMAT = "replay_archive"
"""Name of the source in Spark."""

_DECODER = msgspec.json.Decoder(dict[str, ClusterLook])


class FollowedArchive(msgspec.Struct, frozen=True):
    """Archive that a stream follows, as the source in Spark's process gets it."""

    source: ArchiveSource
    clusters: tuple[str, ...]
    """Followed clusters; empty means all."""
    batch: int
    """Last batch that counts when the stream starts."""
    unread: frozenset[str]
    """Clusters that this batch could not read; they are read again even without a new manifest."""

    def looks(self, before: Mapping[str, ClusterLook]) -> dict[str, ClusterLook]:
        """Read the ends of all clusters; those without a new manifest are not opened."""
        store = self.source.store
        return cluster_looks(store, followed_names(store, self.clusters, before), before)

    def since(
        self, before: Mapping[str, ClusterLook], looks: Mapping[str, ClusterLook]
    ) -> dict[str, ClusterLook]:
        """Looks of the next offset; a cluster without a new manifest keeps its earlier look."""
        return {name: self._since(name, before.get(name), look) for name, look in looks.items()}

    def _since(self, name: str, before: ClusterLook | None, look: ClusterLook) -> ClusterLook:
        if before is None or not look.is_like(before):
            return look
        if name in self.unread and before.retried_after < self.batch:
            return msgspec.structs.replace(look, retried_after=self.batch)
        return before


class ArchiveStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of the source; the driver's Python process for sources runs it."""

    def __init__(self, archive: FollowedArchive) -> None:
        self._archive = archive
        self._last: dict[str, ClusterLook] | None = None
        """Last offset of a query that reads the present content only; None: the query goes on."""

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        """Offset before the first batch of a stream."""
        return _offset({})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Set the last offset of a query that reads the present content only."""
        self._last = self._archive.looks({})

    def latestOffset(self, start: dict[str, str], _: ReadLimit) -> dict[str, str]:  # noqa: N802
        """Offset with a look at each cluster; a batch has no limit."""
        before = looks_in(start)
        try:
            looks = self._last if self._last is not None else self._archive.looks(before)
        except NoArchive:  # an outage: the next look tries again
            return start
        return _offset(self._archive.since(before, looks))

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """Partition with the looks that have changed."""
        before, after = looks_in(start), looks_in(end)
        changed = {name: look for name, look in after.items() if before.get(name) != look}
        return [InputPartition(_offset(changed)["looks"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one row with the changed looks as JSON."""
        yield pa.RecordBatch.from_pylist([{"looks": partition.value}], schema=_SCHEMA)


_SCHEMA = pa.schema([("looks", pa.string())])


class ArchiveStreamSource(DataSource):
    """Source of a stream; `started` makes a subclass for each archive."""

    archive: ClassVar[FollowedArchive]

    @classmethod
    def name(cls) -> str:
        """Name of the source in Spark."""
        return FORMAT

    def schema(self) -> str:
        """Spark's schema of the rows: one text column with looks as JSON."""
        return "looks string"

    def streamReader(self, schema: Any) -> ArchiveStreamReader:  # noqa: ARG002, N802 - Spark's name
        """Create the reader of a stream."""
        return ArchiveStreamReader(self.archive)


def _offset(looks: Mapping[str, ClusterLook]) -> dict[str, str]:
    """Encode looks; Spark compares offsets as text, so the order is fixed."""
    return {"looks": msgspec.json.encode(dict(sorted(looks.items())), order="sorted").decode()}


def looks_in(offset: Mapping[str, str]) -> dict[str, ClusterLook]:
    """Decode the looks of an offset."""
    return _DECODER.decode(offset["looks"])


def started(session: SparkSession, feed: "ArchiveFeed", every_s: float | None) -> StreamingQuery:
    """Start the query of a feed. Settings of object stores are not in its plan.

    Raises:
        NoSpark: Spark cannot write the checkpoint.
    """
    feed.trouble = None  # of an earlier query
    archive = FollowedArchive(
        feed.context.source, feed.clusters, feed.batch, frozenset(feed.unread)
    )
    # A class of its own carries the archive to Spark's process: options are shown in plans.
    session.dataSource.register(
        type("FollowedSource", (ArchiveStreamSource,), {"archive": archive})
    )

    def run(frame: DataFrame, number: int) -> None:
        looks: dict[str, ClusterLook] = {}
        for row in frame.collect():
            looks |= looks_in({"looks": row.looks})
        try:
            feed.run_batch(number, looks)
        except Exception as error:
            feed.trouble = error
            raise

    when: dict[str, Any] = (
        {"availableNow": True} if every_s is None else {"processingTime": f"{every_s} seconds"}
    )
    place = f"{feed.context.checkpoint.rstrip('/')}/stream"
    stream = session.readStream.format(FORMAT).load().writeStream.foreachBatch(run)
    try:
        return stream.option("checkpointLocation", place).trigger(**when).start()
    except (PySparkException, Py4JError) as error:
        raise NoSpark(
            f"Spark cannot write {place} ({root_cause(error)}): check its settings; for an object "
            "store it needs Hadoop's jars (docs/replay-data.md)"
        ) from None
