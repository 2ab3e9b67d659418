"""The reading half of the contract, for every log, including foreign ones.

A module subclasses `ReadingContract` and offers a fixture `filled`. It is a log that holds
`SAMPLE`, in topics with as many partitions as `TOPICS` says. Offsets and ends are those of a Kafka
log after transactions, whose markers take an offset each.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping

import pytest

from controlplane.core.entry import Batch, Entry
from controlplane.core.order import Ends
from controlplane.logs.log import LogNotUsable, LogUnavailable, ReadableLog
from tests.patience import PATIENCE_S

TOPICS = {"config": 1, "offsets": 3, "status": 2}

T0 = 1_700_000_000_000

SAMPLE = [
    Entry("config", 0, 0, T0, b"connector-orders", b'{"properties":{}}'),
    Entry("config", 0, 1, T0 + 1, None, b"no key"),
    # A transaction over two topics: offset 2 here, 0 there; its markers are 3 and 1.
    Entry("config", 0, 2, T0 + 2, b"commit-orders", b'{"tasks":1}'),
    Entry("offsets", 2, 0, T0 + 2, b'["orders",{}]', b'{"pos":1}'),
    # A transaction that was aborted, and its marker 6.
    Entry("config", 0, 4, T0 + 3, b"task-orders-0", b'{"properties":{}}', aborted=True),
    Entry("config", 0, 5, T0 + 4, b"connector-orders", None, aborted=True),
    # An earlier timestamp than its neighbour's, a tombstone, headers that repeat and have no value.
    Entry(
        "config",
        0,
        7,
        T0 - 5,
        b"connector-orders",
        None,
        (("who", b"ana"), ("who", None), ("wh\u00f6", b"")),
    ),
    Entry("offsets", 0, 0, T0 + 9, b"", b""),
    Entry("offsets", 2, 2, T0 + 9, b'["orders",{}]', b"\x00\xff" * 3_000),
]
"""All existing records, partition by partition in the order of their offsets."""

ENDS = {"config": [8], "offsets": [1, 0, 3], "status": [0, 0]}


async def entries_of(batches: AsyncIterator[Batch]) -> list[Entry]:
    """Collect all entries of a read."""
    return [entry async for batch in batches for entry in batch.entries()]


async def everything(log: ReadableLog) -> list[Entry]:
    """All entries of a log, by position."""
    return by_position(await entries_of(log.read(await log.topics())))


def by_position(entries: Iterable[Entry]) -> list[Entry]:
    """Sort entries by topic, partition and offset."""
    return sorted(entries, key=lambda entry: entry.position)


async def take(tail: AsyncIterator[Batch], count: int) -> list[Entry]:
    """The next entries of a tail, at least `count`; a batch is never split."""
    taken: list[Entry] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(taken) < count:
            taken += (await anext(tail)).entries()
    return taken


async def until_ends(
    tail: AsyncIterator[Batch], ends: Mapping[tuple[str, int], int]
) -> list[Batch]:
    """The batches of a tail until it has reached these ends, by topic and partition."""
    batches: list[Batch] = []
    reached: dict[tuple[str, int], int] = {}
    async with asyncio.timeout(PATIENCE_S):
        while any(reached.get(place, 0) < end for place, end in ends.items()):
            batch = await anext(tail)
            place = batch.topic, batch.partition
            assert batch.end > reached.get(place, 0)
            reached[place] = batch.end
            batches.append(batch)
    return batches


def of(*topics: str) -> list[Entry]:
    """The entries of the sample in these topics, by position."""
    return by_position(entry for entry in SAMPLE if entry.topic in topics)


class ReadingContract:
    """Contract of every readable log. Needs a fixture `filled`."""

    async def test_is_a_readable_log(self, filled: ReadableLog) -> None:
        """The log has all methods of the protocol."""
        assert isinstance(filled, ReadableLog)

    async def test_topics_have_their_numbers_of_partitions(self, filled: ReadableLog) -> None:
        """`topics` gives each topic's number of partitions, empty topics included."""
        assert dict(await filled.topics()) == TOPICS

    async def test_an_end_lies_behind_the_last_record(self, filled: ReadableLog) -> None:
        """An end lies behind the last record; an empty partition ends at its start."""
        assert dict(await filled.ends(TOPICS)) == ENDS

    async def test_a_start_is_the_first_existing_record(self, filled: ReadableLog) -> None:
        """The start is the first existing record, or the end if there is none."""
        starts = await filled.starts(TOPICS)
        assert dict(starts) == {"config": [0], "offsets": [0, 0, 0], "status": [0, 0]}

    async def test_read_gives_every_byte(self, filled: ReadableLog) -> None:
        """Keys, values, times, headers, aborted marks and gaps arrive as they are."""
        assert by_position(await entries_of(filled.read(TOPICS))) == by_position(SAMPLE)

    async def test_order_holds_within_a_partition(self, filled: ReadableLog) -> None:
        """Offsets ascend from batch to batch, whatever the timestamps; no batch is empty."""
        last: dict[tuple[str, int], int] = {}
        async for batch in filled.read(TOPICS):
            offsets = [last.get((batch.topic, batch.partition), -1), *batch.offsets]
            assert offsets == sorted(set(offsets))
            assert len(batch) > 0
            last[batch.topic, batch.partition] = batch.offsets[-1]

    async def test_only_the_requested_topics_are_read(self, filled: ReadableLog) -> None:
        """A topic is read once, even if named repeatedly; other topics are not read."""
        topics = iter(["offsets", "status", "offsets"])
        assert by_position(await entries_of(filled.read(topics))) == of("offsets")

    @pytest.mark.parametrize(
        ("start", "stop", "offsets"),
        [
            ([0], [8], [0, 1, 2, 4, 5, 7]),
            ([2], [5], [2, 4]),
            ([3], [4], []),
            ([3], [7], [4, 5]),
            ([7], None, [7]),
            ([8], None, []),
            (None, [1], [0]),
            (None, [0], []),
            ([-5], [10**9], [0, 1, 2, 4, 5, 7]),
            ([6], [2], []),
            ([], [], [0, 1, 2, 4, 5, 7]),
        ],
    )
    async def test_start_is_included_and_stop_is_not(
        self,
        filled: ReadableLog,
        start: list[int] | None,
        stop: list[int] | None,
        offsets: list[int],
    ) -> None:
        """The start is included, the stop is not; both may lie in gaps or outside of the log."""
        begin = None if start is None else {"config": start}
        end = None if stop is None else {"config": stop}
        read = await entries_of(filled.read(["config"], begin, end))
        assert [entry.offset for entry in read] == offsets

    async def test_left_out_offsets_mean_everything(self, filled: ReadableLog) -> None:
        """Topics without offsets, and partitions after the last given offset, are read whole."""
        start: Ends = {"offsets": [1]}
        read = await entries_of(filled.read(["config", "offsets"], start))
        assert by_position(read) == [*of("config"), *(e for e in of("offsets") if e.partition == 2)]

    async def test_more_offsets_than_partitions_are_refused(self, filled: ReadableLog) -> None:
        """More offsets than partitions raise `LogNotUsable`."""
        with pytest.raises(LogNotUsable, match="config"):
            await entries_of(filled.read(["config"], {"config": [0, 0]}))

    async def test_a_missing_topic_is_named(self, filled: ReadableLog) -> None:
        """Each method's error names a missing topic."""
        with pytest.raises(LogNotUsable, match="orders-topic"):
            await filled.ends(["orders-topic"])
        with pytest.raises(LogNotUsable, match="orders-topic"):
            await filled.starts(["orders-topic"])
        with pytest.raises(LogNotUsable, match="orders-topic"):
            await entries_of(filled.read(["config", "orders-topic"]))
        with pytest.raises(LogNotUsable, match="orders-topic"):
            await anext(filled.tail(["orders-topic"], {}))

    async def test_tail_begins_with_stored_records(self, filled: ReadableLog) -> None:
        """A tail first returns the records after its start."""
        start = {"config": [5], "offsets": [0, 0, 1]}
        expected = [e for e in of("config", "offsets") if e.offset >= start[e.topic][e.partition]]
        taken = await take(filled.tail(["config", "offsets"], start), len(expected))
        assert by_position(taken) == expected

    async def test_tail_reaches_the_ends(self, filled: ReadableLog) -> None:
        """The last batch of each partition reaches its end, and no offset comes twice."""
        ends = {(topic, part): end for topic, all_ in ENDS.items() for part, end in enumerate(all_)}
        batches = await until_ends(filled.tail(TOPICS, {}), ends)
        entries = by_position(entry for batch in batches for entry in batch.entries())
        assert entries == by_position(SAMPLE)

    async def test_readers_do_not_disturb_each_other(self, filled: ReadableLog) -> None:
        """Three concurrent reads each return every record."""
        reads = [entries_of(filled.read(TOPICS)) for _ in range(3)]
        assert [by_position(read) for read in await asyncio.gather(*reads)] == [
            by_position(SAMPLE)
        ] * 3

    async def test_an_abandoned_read_does_not_affect_the_next(self, filled: ReadableLog) -> None:
        """A read that is left after its first batch leaves the next read whole."""
        batches = filled.read(TOPICS)
        await anext(batches)
        assert by_position(await entries_of(filled.read(TOPICS))) == by_position(SAMPLE)

    async def test_a_closed_log_refuses_calls(self, filled: ReadableLog) -> None:
        """A second `close` is allowed; other calls on a closed log raise `LogUnavailable`."""
        await filled.close()
        await filled.close()
        with pytest.raises(LogUnavailable):
            await filled.topics()
        with pytest.raises(LogUnavailable):
            await entries_of(filled.read(["config"]))

    async def test_close_wakes_a_tail(self, filled: ReadableLog) -> None:
        """Closing the log ends a waiting tail with an error."""
        tail = filled.tail(["config"], {"config": [7]})
        await take(tail, 1)
        waiting = asyncio.ensure_future(anext(tail))
        await asyncio.sleep(0)
        await filled.close()
        with pytest.raises(LogUnavailable):
            await asyncio.wait_for(waiting, PATIENCE_S)
