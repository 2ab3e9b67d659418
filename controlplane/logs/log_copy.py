"""Copy of a log into empty topics of another log, one partition after the other."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

import msgspec

from controlplane.core.entry import Entry, TopicPartition
from controlplane.core.fold.commands import CommandFold
from controlplane.core.order import Ends
from controlplane.core.state import Topics
from controlplane.core.text.safe_text import count
from controlplane.logs.log import EmbeddedLog, Log, LogNotUsable, ReadableLog, Record
from controlplane.logs.position_runs import PositionRuns

BATCH_RECORDS = 5_000
"""Records per append: enough that the fixed cost of a transaction is negligible."""

BATCH_BYTES = 4 << 20
"""Bytes of keys, values and headers per append, after which the next append begins."""

COPY_MARK = b"controlplane-copy"
"""Key of a tombstone in the command topic of a copy without commands. The fold ignores it. The
key shows that the topics are this project's own (`check_own_topics`)."""

CopyProgress = Callable[[int, int], None]
"""Receives the number of copied records, and the sum of all end offsets, which counts gaps, too."""


class LogCopy:
    """Copies the topics of a cluster from one log to another, in which they are empty.

    Committed records keep partition, order, time, key, value and headers; offsets may change. The
    command topic is copied last, in one append. So a target with commands is a complete copy, and
    `check_own_topics` refuses an interrupted copy. A further `run` continues an interrupted copy.
    The records that are already in the target must equal the first ones of the source. Records that
    Kafka has compacted in the target may be missing.

    The topics may have other names in the target. Positions refer to the source, except in messages
    about the target.
    """

    def __init__(
        self,
        source: ReadableLog,
        target: Log,
        topics: Topics,
        progress: CopyProgress,
        renamed: Topics | None = None,
    ) -> None:
        """`renamed`: names of the topics in the target; None: the same as in the source."""
        self._source = source
        self._target = target
        self._renamed = new_names(topics, renamed or topics)
        self._commands = topics.commands
        self._names = (topics.offsets, topics.status, topics.config, topics.commands)
        self._progress = progress
        self._stop: Ends = {}
        self._all = 0
        self._done = 0
        self._only_aborted = False
        """True if the command topic of the target has records, and all were aborted."""
        self.runs = PositionRuns()
        """Positions of all records, copied now or earlier."""
        self.added = 0
        """Number of records that `run` has copied."""
        self.marked = False
        """True if the copy has no commands, but a `COPY_MARK` instead."""

    async def run(self) -> None:
        """Copy the records that the target lacks, and fence every other writer of it.

        A complete copy stays as it is.

        Raises:
            LogNotUsable: a topic of the target has other records or partitions, or the target is
                an older complete copy; no record was copied.
            LogError: a log failed; the next run continues.
        """
        sizes = await self._sizes()
        source_topics = await self._source.topics()
        self._stop = await self._source.ends([topic for topic in sizes if topic in source_topics])
        self._all = sum(map(sum, self._stop.values()))
        before = await self._ends(sizes)
        lacking = await self._first_lacking(sizes, before)
        if self._is_complete(before):
            self._check_complete(lacking)
            return
        for topic, size in sizes.items():
            await self._target.create_topic(self._renamed[topic], size)
        epoch = await self._target.claim()
        claimed = await self._ends(sizes)
        if claimed != before:
            # An earlier writer, which is fenced now, has appended records meanwhile.
            lacking = await self._first_lacking(sizes, claimed)
            if self._is_complete(claimed):  # it was another copy
                self._check_complete(lacking)
                return
        for topic_partition, offset in lacking.items():
            if offset is not None and topic_partition[0] != self._commands:
                await self._append_rest(topic_partition, offset, epoch)
        await self._append_commands(epoch)

    async def _sizes(self) -> dict[str, int]:
        """Number of partitions by topic, in the order of copying.

        Raises:
            LogNotUsable: the target has a topic with another number of partitions.
        """
        source_topics, target_topics = await self._source.topics(), await self._target.topics()
        sizes = {topic: source_topics[topic] for topic in self._names if topic in source_topics}
        sizes.setdefault(self._commands, 1)
        for topic, size in sizes.items():
            copy = self._renamed[topic]
            if target_topics.get(copy, size) != size:
                raise LogNotUsable(
                    f"topic {copy} has {target_topics[copy]} partitions and must have {size}, as "
                    f"in the source: {_OTHER_TOPICS}"
                )
        return sizes

    async def _ends(self, sizes: Mapping[str, int]) -> Ends:
        """Ends of the target's topics, by their name in the source; 0 for a missing topic."""
        target_topics = await self._target.topics()
        copies = [self._renamed[topic] for topic in sizes]
        ends = await self._target.ends([copy for copy in copies if copy in target_topics])
        return {
            topic: list(ends.get(self._renamed[topic], [0] * size)) for topic, size in sizes.items()
        }

    def _is_complete(self, ends: Ends) -> bool:
        return any(ends[self._commands]) and not self._only_aborted

    def _check_complete(self, lacking: Mapping[TopicPartition, int | None]) -> None:
        """Raise `LogNotUsable` if the source has more records than a complete copy."""
        for (topic, partition), offset in lacking.items():
            if offset is not None:
                state = (
                    f"are an older complete copy, without offset {offset} of {topic}-{partition}"
                    if self.runs.records or self.marked
                    else "have been claimed by `serve --own`, which may still write them"
                )
                raise LogNotUsable(f"the target's topics {state}: {_OTHER_TOPICS}")

    async def _first_lacking(
        self, sizes: Mapping[str, int], ends: Ends
    ) -> dict[TopicPartition, int | None]:
        """Offset of the first record that the target lacks, by partition; None: it has all.

        Raises:
            LogNotUsable: the target has other records.
        """
        self.runs, self._done = PositionRuns(), 0
        self._only_aborted = await self._has_only_aborted_commands(ends)
        return {
            (topic, partition): await self._first_lacking_in((topic, partition), ends)
            for topic, size in sizes.items()
            for partition in range(size)
        }

    async def _first_lacking_in(self, topic_partition: TopicPartition, ends: Ends) -> int | None:
        """Compare the copy of one partition with its source; return as `_first_lacking` does."""
        topic, partition = topic_partition
        copy_partition = self._renamed[topic], partition
        # An empty topic may not exist yet.
        target_ends = {copy_partition[0]: ends[topic]} if ends[topic][partition] else {}
        async with (
            aclosing(_committed(self._target, copy_partition, 0, target_ends)) as copies,
            aclosing(_committed(self._source, topic_partition, 0, self._stop)) as originals,
        ):
            superseded: set[bytes | None] = set()
            async for copy in copies:
                if topic == self._commands and _is_mark(copy):
                    self.marked = True
                    continue
                original = await _original_of(copy, originals, superseded)
                if original is None:
                    raise LogNotUsable(
                        f"{partition_text(copy_partition)} already has records, and the one at "
                        f"offset {copy.offset} is not of the source: {_OTHER_TOPICS}"
                    )
                self.runs.add(original.position, copy.offset)
                self._advance(1)
            if superseded:
                raise LogNotUsable(
                    f"{partition_text(copy_partition)} already has records, and lacks some before "
                    f"its last one: {_OTHER_TOPICS}"
                )
            first = await anext(originals, None)
            return None if first is None else first.offset

    async def _has_only_aborted_commands(self, ends: Ends) -> bool:
        """Return True after an aborted append of an interrupted copy.

        Return False for markers without a record: `serve --own` has claimed the topic.
        """
        if not any(ends[self._commands]):
            return False
        copy = self._renamed[self._commands]
        has_aborted = False
        async for batch in self._target.read([copy], stop={copy: ends[self._commands]}):
            if not all(entry.aborted for entry in batch.entries()):
                return False
            has_aborted = True
        return has_aborted

    async def _append_rest(self, topic_partition: TopicPartition, offset: int, epoch: int) -> None:
        """Append the records of a partition from an offset on, in batches."""
        batch: list[Entry] = []
        size = 0
        async with aclosing(
            _committed(self._source, topic_partition, offset, self._stop)
        ) as entries:
            async for entry in entries:
                batch.append(entry)
                size += _octets(entry)
                if len(batch) >= BATCH_RECORDS or size >= BATCH_BYTES:
                    await self._append(batch, epoch)
                    batch, size = [], 0
        if batch:
            await self._append(batch, epoch)

    async def _append_commands(self, epoch: int) -> None:
        """Append all commands in one append, or the mark. This completes the copy."""
        commands: list[Entry] = []
        for partition in range(len(self._stop.get(self._commands, ()))):
            topic_partition = self._commands, partition
            async with aclosing(
                _committed(self._source, topic_partition, 0, self._stop)
            ) as entries:
                commands += [entry async for entry in entries]
        if commands:
            await self._append(commands, epoch)
        else:
            now_ms = time.time_ns() // 1_000_000
            mark = Record(self._renamed[self._commands], 0, now_ms, COPY_MARK, None)
            await self._target.append([mark], epoch)
            self.marked = True

    async def _append(self, entries: Sequence[Entry], epoch: int) -> None:
        records = [
            Record(
                self._renamed[entry.topic],
                entry.partition,
                entry.timestamp,
                entry.key,
                entry.value,
                entry.headers,
            )
            for entry in entries
        ]
        positions = await self._target.append(records, epoch)
        self.runs.add_all((entry.position for entry in entries), positions)
        self.added += len(records)
        self._advance(len(records))

    def _advance(self, records: int) -> None:
        self._done += records
        self._progress(self._done, self._all)


def new_names(topics: Topics, renamed: Topics) -> dict[str, str]:
    """Return the name in the target by the name in the source."""
    names = zip(msgspec.structs.astuple(topics), msgspec.structs.astuple(renamed), strict=True)
    return dict(names)


def partition_text(place: TopicPartition) -> str:
    """Format a partition for messages: `topic-0`."""
    return f"{place[0]}-{place[1]}"


async def check_finished(source: ReadableLog, topics: Topics) -> None:
    """Raise `LogNotUsable` if a command of the log has not ended.

    Its plan contains names of topics, so it could not be ended in a copy with other names.
    """
    if topics.commands not in await source.topics():
        return
    fold = CommandFold()
    async for batch in source.read([topics.commands]):
        for entry in batch.entries():
            if not entry.aborted:
                fold.apply(entry)
    open_commands = [trace for trace in fold.publish().values() if trace.unfinished]
    if open_commands:
        raise LogNotUsable(
            f"FROM has {count(len(open_commands), 'unfinished command')}, and the copy would "
            "rename topics: serve FROM once, then copy again"
        )


async def put_all(
    source: ReadableLog,
    target: EmbeddedLog,
    topics: Topics,
    progress: CopyProgress,
    renamed: Topics | None = None,
) -> PositionRuns:
    """Copy the topics of a cluster into a new embedded log, which keeps offsets and aborted marks.

    `renamed`: names of the topics in the target; None: the same as in the source.

    Raises:
        LogError: a log failed; the copy is incomplete.
    """
    source_topics = await source.topics()
    sizes = {
        topic: source_topics[topic]
        for topic in msgspec.structs.astuple(topics)
        if topic in source_topics
    }
    stop = await source.ends(sizes)
    copied, runs = 0, PositionRuns()
    names = new_names(topics, renamed or topics)
    for topic, size in sizes.items():
        await target.create_topic(names[topic], size)
        async for batch in source.read([topic], stop={topic: stop[topic]}):
            entries = list(batch.entries())
            await target.put(_with_topic(names[topic], entries))
            for entry in entries:
                runs.add(entry.position, entry.offset)
            copied += len(entries)
            progress(copied, sum(map(sum, stop.values())))
    return runs


def _with_topic(topic: str, entries: list[Entry]) -> list[Entry]:
    """Return the entries with this topic name."""
    if entries[0].topic == topic:
        return entries
    return [msgspec.structs.replace(entry, topic=topic) for entry in entries]


_OTHER_TOPICS = "name other topics, or delete these and copy again"


def _octets(entry: Entry) -> int:
    """Return the approximate number of bytes of a record."""
    headers = sum(len(name) + len(value or b"") for name, value in entry.headers)
    return len(entry.key or b"") + len(entry.value or b"") + headers


def _content(entry: Entry) -> tuple[object, ...]:
    return entry.timestamp, entry.key, entry.value, tuple(entry.headers)


async def _original_of(
    copy: Entry, originals: AsyncGenerator[Entry, None], superseded: set[bytes | None]
) -> Entry | None:
    """Read on to the original of a copied record; None: there is none.

    Skipped originals must have been compacted in the copy. So a later record of the same key must
    follow. `superseded` collects the keys whose later record has not come yet. A tombstone counts
    as a later record even if it is skipped, because Kafka removes it after a time.
    """
    async for original in originals:
        if _content(original) == _content(copy):
            superseded.discard(original.key)
            return original
        if original.value is None:
            superseded.discard(original.key)
        else:
            superseded.add(original.key)
    return None


def _is_mark(entry: Entry) -> bool:
    return (entry.key, entry.value) == (COPY_MARK, None)


async def _committed(
    log: ReadableLog, topic_partition: TopicPartition, start: int, ends: Ends
) -> AsyncGenerator[Entry, None]:
    """Yield the committed records of one partition from `start` on, up to its end in `ends`."""
    topic, partition = topic_partition
    if partition >= len(ends.get(topic, ())):
        return
    # Other partitions start at their ends, so the read yields this partition only.
    starts = [*ends[topic]]
    starts[partition] = min(start, starts[partition])
    async for batch in log.read([topic], {topic: starts}, {topic: ends[topic]}):
        for entry in batch.entries():
            if not entry.aborted:
                yield entry
