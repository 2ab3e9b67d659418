"""A capture that goes on by Structured Streaming, which keeps how far it is in a checkpoint.

Each micro-batch is one append. It may come twice, if a capture is killed between the append and the
checkpoint: what is archived is compared then, and not added again. A stream knows the topics that
there were when it began; where another one is to be archived it is begun anew, and goes on.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from threading import Event
from typing import Any, NamedTuple, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from controlplane.logs.log import ReadableLog
from replay.archive.cluster import Place
from replay.capture.capture import Captured, Target
from replay.capture.spark import COMMITTED, Source, SparkCapture, places, vector
from replay.engine.session import NoSpark, told
from replay.errors import ArchiveConflict
from replay.progress import Progress, Unseen

EARLIEST = -2
"""Where a partition begins, as the source calls it."""

LOOK_S = 1
"""How often somebody looks whether a stream has ended. It ends by itself only where it has to."""

Opening = Callable[[], AbstractAsyncContextManager[ReadableLog]]
"""Opens the cluster, to be asked where topics begin."""

Told = Callable[[Captured], None]
"""Told of each micro-batch that has added something."""

Answer = TypeVar("Answer")


class Stream(NamedTuple):
    """What is followed, into what."""

    opening: Opening
    target: Target
    source: Source
    checkpoint: str
    """A folder of this stream's own, as Hadoop names it."""
    pause_s: float | None
    """How long to wait between micro-batches; None: only what is there by now."""


def follow(
    stream: Stream, told_of: Told, progress: Progress | None = None, ended: Event | None = None
) -> None:
    """Archive what comes, until `ended` is set or somebody interrupts; or what is there by now.

    Raises:
        ArchiveConflict: the log, or the checkpoint, contradicts the archive.
        NoSpark: Spark has failed.
    """
    ended = ended or Event()
    following = _Following(stream, told_of, progress or Unseen(), ended)
    while following.again and not ended.is_set():
        following.run()


class _Following:
    """One stream, from one beginning to the next."""

    def __init__(self, stream: Stream, told_of: Told, progress: Progress, ended: Event) -> None:
        self.again = True
        """Whether there are topics that the stream does not know."""
        self._stream = stream
        self._told_of = told_of
        self._progress = progress
        self._ended = ended
        self._topics: set[str] = set()
        self._first: dict[Place, int] = {}
        self._trouble: Exception | None = None

    def run(self) -> None:
        """Follow the topics there are now."""
        self._topics, self._first = self._ask(self._positions)
        self.again = False
        query = self._begun()
        try:
            while not query.awaitTermination(LOOK_S):
                if self.again or self._ended.is_set():
                    query.stop()
        except PySparkException as error:
            if self._trouble is None:
                raise NoSpark(f"Spark has failed ({told(error)})") from None
        finally:
            query.stop()
        if self._trouble is not None:
            raise self._trouble

    def _begun(self) -> StreamingQuery:
        source = self._stream.source
        wanted = {
            "subscribe": ",".join(sorted(self._topics)),
            "startingOffsets": vector(self._first),
            "maxOffsetsPerTrigger": str(self._stream.target.commit_records),
        }
        frame = source.loaded(source.session.readStream, COMMITTED, wanted)
        pause_s = self._stream.pause_s
        when: dict[str, Any] = (
            {"availableNow": True} if pause_s is None else {"processingTime": f"{pause_s} seconds"}
        )
        return (
            frame.writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", self._stream.checkpoint)
            .trigger(**when)
            .start()
        )

    def _batch(self, frame: DataFrame, number: int) -> None:
        """One micro-batch. What is wrong is kept, for Spark would tell it in its own words."""
        try:
            captured, unknown = self._ask(lambda capture: self._append(capture, frame, number))
        except Exception as error:
            self._trouble = error
            raise
        if captured.added:
            self._told_of(captured)
        self.again = bool(unknown)

    async def _append(
        self, capture: "StreamedCapture", frame: DataFrame, number: int
    ) -> tuple[Captured, set[str]]:
        behind = places(self._offsets(number))
        first = places(self._offsets(number - 1)) if number else self._first
        return await capture.append(frame, first, behind), await capture.wanted() - self._topics

    def _offsets(self, number: int) -> str:
        """Up to where a micro-batch goes, as the checkpoint tells before it begins."""
        path = f"{self._stream.checkpoint}/offsets/{number}"
        lines = self._stream.source.session.read.text(path).collect()
        return str(lines[-1].value)

    async def _positions(self, capture: "StreamedCapture") -> tuple[set[str], dict[Place, int]]:
        topics = await capture.wanted()
        return topics, await capture.positions(topics)

    def _ask(self, question: Callable[["StreamedCapture"], Coroutine[Any, Any, Answer]]) -> Answer:
        """Ask a capture that is opened for this once: brokers come and go."""

        async def asked() -> Answer:
            stream = self._stream
            async with stream.opening() as log:
                capture = StreamedCapture(log, stream.target, stream.source, self._progress)
                return await question(capture)

        return asyncio.run(asked())


class StreamedCapture(SparkCapture):
    """A capture of which somebody else says up to where it goes."""

    async def wanted(self) -> set[str]:
        """The topics that are to be archived and that there are."""
        topics = self._target.topics
        named = {topics.config, topics.offsets, topics.status, topics.commands}
        there = await self._log.topics()
        return (named | self._known_topics() | self._own) & there.keys()

    async def positions(self, topics: set[str]) -> dict[Place, int]:
        """Where a stream has to begin: with the last record that is archived, or at the start."""
        there = await self._log.topics()
        found = {}
        for topic in topics:
            for partition, offset in enumerate(self._starts(topic, there[topic])):
                found[topic, partition] = offset or EARLIEST
        return found

    async def append(
        self, frame: DataFrame, first: dict[Place, int], behind: dict[Place, int]
    ) -> Captured:
        """Archive a micro-batch: committed records, and where it begins and ends.

        Raises:
            ArchiveConflict: it does not begin where the archive has come to.
        """
        begins: dict[Place, int] = {}
        for topic in sorted({topic for topic, _ in behind}):
            self._check_ends(topic, (await self._log.ends([topic]))[topic])
            starts = (await self._log.starts([topic]))[topic]
            begins |= {(topic, number): start for number, start in enumerate(starts)}
        spans = {
            place: range(min(end, max(first.get(place, EARLIEST), begins[place])), end)
            for place, end in behind.items()
        }
        for place, span in spans.items():
            self._check_follows(place, span.start, begins[place])
        before = self._records
        read = self.archive(begins, spans, frame)
        return self._finished(read, before, ())

    def _check_follows(self, place: Place, start: int, begin: int) -> None:
        """Raise `ArchiveConflict` where a checkpoint is further than the archive."""
        topic, partition = place
        there = max(begin, self._appending.end_of(topic, partition) or 0)
        if start > there:
            raise ArchiveConflict(
                f"{topic} partition {partition} is archived up to {there}, and the checkpoint says "
                f"up to {start}: it is of another archive, so name another folder for it"
            )
