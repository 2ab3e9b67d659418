"""The contract that every log of our own keeps; the reading half is in `reading`.

A module subclasses `LogContract` and offers a fixture `log`: an empty log.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import msgspec
import pytest

from controlplane.core.entry import Entry, Position
from controlplane.logs.log import OFFSET_LIMIT, Fenced, Log, LogNotUsable, LogUnavailable, Record
from tests.logs.reading import (
    SAMPLE,
    T0,
    TOPICS,
    ReadingContract,
    by_place,
    entries_of,
    everything,
    take,
)


class CompactingLog(Log, Protocol):
    """A log that can do what Kafka's brokers do by themselves."""

    async def compact(
        self, topic: str, below: Sequence[int] = (), *, tombstones: bool = False
    ) -> int:
        """Remove superseded entries."""
        ...

    async def trim(self, topic: str, below: Sequence[int]) -> int:
        """Remove the first entries."""
        ...

    async def add_partitions(self, topic: str, partitions: int) -> None:
        """Let a topic have this many partitions."""
        ...


def record(topic: str, partition: int, text: str = "x") -> Record:
    """A record of which only the place matters."""
    return Record(topic, partition, T0, text.encode(), b"1")


def entry(
    offset: int, key: str | None = "k", value: str | None = "v", *, aborted: bool = False
) -> Entry:
    """An entry of `config`."""
    raw_key, raw_value = (None if text is None else text.encode() for text in (key, value))
    return Entry("config", 0, offset, T0 + offset, raw_key, raw_value, aborted=aborted)


async def make_topics(log: Log) -> None:
    """The topics of the sample."""
    for topic, partitions in TOPICS.items():
        await log.create_topic(topic, partitions)


class LogContract(ReadingContract):
    """What can be asked of a log of our own. Wants a fixture `log`."""

    @pytest.fixture
    async def filled(self, log: CompactingLog) -> Log:
        """The log that the reading half reads."""
        await make_topics(log)
        await log.put(SAMPLE)
        return log

    async def test_is_a_log(self, log: CompactingLog) -> None:
        """The log has all methods of the protocol."""
        assert isinstance(log, Log)

    async def test_empty(self, log: CompactingLog) -> None:
        """A new log has no topics, and nothing to read."""
        assert dict(await log.topics()) == {}
        assert await everything(log) == []

    # --- topics --------------------------------------------------------------------------------

    async def test_create_topic_twice(self, filled: CompactingLog) -> None:
        """A topic that is there with as many partitions stays as it is."""
        await make_topics(filled)
        assert await everything(filled) == by_place(SAMPLE)

    @pytest.mark.parametrize("partitions", [1, 2, 4, 0, -1, 10**9])
    async def test_create_topic_with_another_number(
        self, filled: CompactingLog, partitions: int
    ) -> None:
        """Another number of partitions is refused, and so is one that no topic can have."""
        with pytest.raises(LogNotUsable, match="offsets"):
            await filled.create_topic("offsets", partitions)
        assert dict(await filled.topics()) == TOPICS

    async def test_add_partitions(self, filled: CompactingLog) -> None:
        """Partitions can be added, never taken away; what is there stays."""
        await filled.add_partitions("offsets", 5)
        await filled.add_partitions("offsets", 2)
        assert dict(await filled.topics()) == TOPICS | {"offsets": 5}
        assert await filled.append([record("offsets", 4)]) == [Position("offsets", 4, 0)]
        assert len(await everything(filled)) == len(SAMPLE) + 1
        with pytest.raises(LogNotUsable, match="no-such"):
            await filled.add_partitions("no-such", 5)
        with pytest.raises(LogNotUsable, match="offsets"):
            await filled.add_partitions("offsets", 10**9)

    # --- append --------------------------------------------------------------------------------

    async def test_append_answers_the_places(self, filled: CompactingLog) -> None:
        """Positions come in the order of the records and follow what is there."""
        records = [record("offsets", 2), record("config", 0), record("offsets", 2)]
        assert await filled.append(records) == [
            Position("offsets", 2, 3),
            Position("config", 0, 8),
            Position("offsets", 2, 4),
        ]
        assert dict(await filled.ends(TOPICS)) == {
            "config": [9],
            "offsets": [1, 0, 5],
            "status": [0, 0],
        }

    async def test_append_keeps_every_byte(self, log: CompactingLog) -> None:
        """What is read is what was appended: headers with odd names, empty and missing bytes."""
        await make_topics(log)
        headers = (("", b""), ("a\0b", None), ("\ud800", b"\xff"), ("€😀", b"x" * 70_000))
        records = [
            Record("status", 1, -1, None, None),
            Record("status", 1, 2**63 - 1, b"", b"", headers),
            Record("status", 1, -(2**63), bytes(range(256)), b"\0" * 300_000),
        ]
        await log.append(records)
        assert [
            Record(e.topic, e.partition, e.timestamp, e.key, e.value, e.headers)
            for e in await entries_of(log.read(["status"]))
        ] == records

    async def test_append_of_nothing(self, filled: CompactingLog) -> None:
        """An empty batch is no error and leaves no trace."""
        assert await filled.append([]) == []
        assert await everything(filled) == by_place(SAMPLE)

    @pytest.mark.parametrize(
        ("topic", "partition"), [("no-such", 0), ("offsets", 3), ("config", -1)]
    )
    async def test_append_is_all_or_nothing(
        self, filled: CompactingLog, topic: str, partition: int
    ) -> None:
        """One record without a place: none of the batch is appended."""
        with pytest.raises(LogNotUsable, match=topic):
            await filled.append([record("config", 0), record(topic, partition)])
        assert await everything(filled) == by_place(SAMPLE)
        assert await filled.append([record("config", 0)]) == [Position("config", 0, 8)]

    async def test_appends_at_the_same_time(self, log: CompactingLog) -> None:
        """Batches of concurrent appenders do not mix, lose nothing, and get places of their own."""
        await make_topics(log)
        batches = [[record("config", 0, f"{n}.{i}") for i in range(n % 7)] for n in range(200)]
        answers = await asyncio.gather(*(log.append(batch) for batch in batches))
        there = {e.position: e.key for e in await everything(log)}
        for batch, positions in zip(batches, answers, strict=True):
            assert [there.pop(position) for position in positions] == [r.key for r in batch]
            offsets = [position.offset for position in positions]
            assert offsets == list(range(offsets[0], offsets[0] + len(batch))) if batch else True
        assert not there

    async def test_cancelled_append_is_whole_or_absent(self, log: CompactingLog) -> None:
        """Appends that are cancelled anywhere leave all of their records or none; others go on."""
        await make_topics(log)
        batches = [[record("config", 0, f"{n}"), record("offsets", 1, f"{n}")] for n in range(100)]
        tasks = [asyncio.ensure_future(log.append(batch)) for batch in batches]
        for index, task in enumerate(tasks):
            if index % 3 == 0:
                await asyncio.sleep(0)
                task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        kept = [n for n, result in enumerate(results) if not isinstance(result, BaseException)]
        await log.append([record("status", 0)])
        config = {e.key for e in await entries_of(log.read(["config"]))}
        offsets = {e.key for e in await entries_of(log.read(["offsets"]))}
        assert config == offsets
        assert config >= {str(n).encode() for n in kept}

    async def test_close_drains(self, log: CompactingLog) -> None:
        """What was asked for before the log is closed is either there or refused, never lost."""
        await make_topics(log)
        tasks = [asyncio.ensure_future(log.append([record("config", 0)])) for _ in range(50)]
        await asyncio.sleep(0)
        await log.close()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        refused = [result for result in results if isinstance(result, BaseException)]
        assert all(isinstance(result, LogUnavailable) for result in refused)
        with pytest.raises(LogUnavailable):
            await log.append([record("config", 0)])

    # --- fencing -------------------------------------------------------------------------------

    async def test_only_the_newest_epoch_writes(self, filled: CompactingLog) -> None:
        """A claim fences every older epoch; nothing of a fenced batch is appended."""
        old, new = await filled.claim(), await filled.claim()
        assert new > old
        for epoch in (old, new + 1, -1, 0):
            with pytest.raises(Fenced):
                await filled.append([record("config", 0)], epoch)
        assert await everything(filled) == by_place(SAMPLE)
        assert await filled.append([record("config", 0)], new) == [Position("config", 0, 8)]

    async def test_no_epoch_is_not_fenced(self, filled: CompactingLog) -> None:
        """Unprivileged writers give no epoch and are never fenced."""
        await filled.claim()
        assert await filled.append([record("config", 0)]) == [Position("config", 0, 8)]

    async def test_fenced_among_others(self, log: CompactingLog) -> None:
        """A fenced append does not harm those that are committed together with it."""
        await make_topics(log)
        old, new = await log.claim(), await log.claim()
        epochs = [new, old, None] * 20
        results = await asyncio.gather(
            *(log.append([record("config", 0)], epoch) for epoch in epochs), return_exceptions=True
        )
        assert [isinstance(result, Fenced) for result in results] == [False, True, False] * 20
        assert dict(await log.ends(["config"])) == {"config": [40]}

    # --- tail ----------------------------------------------------------------------------------

    async def test_tail_follows(self, filled: CompactingLog) -> None:
        """A tail gives everything appended after it has begun to wait, each once, in order."""
        ends = await filled.ends(TOPICS)
        tail = filled.tail(TOPICS, ends)
        for round_ in range(5):
            waiting = asyncio.ensure_future(take(tail, 3))
            await asyncio.sleep(0)
            batch = [record("config", 0, f"{round_}.{i}") for i in range(3)]
            await filled.append(batch)
            assert [e.key for e in await waiting] == [r.key for r in batch]

    async def test_tail_that_begins_behind_the_end(self, filled: CompactingLog) -> None:
        """Entries below the start of a tail are not given, even if they come later."""
        tail = filled.tail(["config"], {"config": [10]})
        waiting = asyncio.ensure_future(take(tail, 1))
        await asyncio.sleep(0)
        for _ in range(3):
            await filled.append([record("config", 0)])
        assert [e.offset for e in await waiting] == [10]

    async def test_many_tails(self, filled: CompactingLog) -> None:
        """Tails are independent; one that is cancelled does not disturb the others."""
        ends = await filled.ends(TOPICS)
        tails = [asyncio.ensure_future(take(filled.tail(TOPICS, ends), 2)) for _ in range(5)]
        await asyncio.sleep(0)
        tails[0].cancel()
        await filled.append([record("config", 0), record("status", 1)])
        for taken in await asyncio.gather(*tails[1:]):
            assert {e.topic for e in taken} == {"config", "status"}

    # --- put -----------------------------------------------------------------------------------

    async def test_put_in_any_order(self, log: CompactingLog) -> None:
        """The order in which entries are given does not matter."""
        await make_topics(log)
        assert await log.put(SAMPLE[::-1]) == len(SAMPLE)
        assert await everything(log) == by_place(SAMPLE)

    async def test_put_twice_adds_nothing(self, filled: CompactingLog) -> None:
        """Importing again adds nothing, importing more adds what is new."""
        assert await filled.put(SAMPLE) == 0
        assert await filled.put([]) == 0
        more = [*SAMPLE, entry(9), entry(9), entry(12)]
        assert await filled.put(more) == 2
        assert await everything(filled) == by_place([*SAMPLE, entry(9), entry(12)])
        assert await filled.append([record("config", 0)]) == [Position("config", 0, 13)]

    @pytest.mark.parametrize(
        "changed",
        [
            {"timestamp": T0 + 77},
            {"key": None},
            {"key": b"other"},
            {"value": None},
            {"value": b""},
            {"headers": (("who", b"bob"),)},
            {"aborted": True},
        ],
    )
    async def test_put_of_another_entry(
        self, filled: CompactingLog, changed: dict[str, object]
    ) -> None:
        """An entry that differs in anything from the one at its place: nothing is changed."""
        other = msgspec.structs.replace(SAMPLE[0], **changed)
        with pytest.raises(LogNotUsable, match=r"config@0 .* another entry"):
            await filled.put([entry(20), other])
        assert await everything(filled) == by_place(SAMPLE)

    @pytest.mark.parametrize("offset", [3, 6])
    async def test_put_into_a_gap(self, filled: CompactingLog, offset: int) -> None:
        """Where there was a gap stays a gap: somebody may have read past it already."""
        with pytest.raises(LogNotUsable, match=f"config@{offset} .* gap"):
            await filled.put([entry(offset), entry(30)])
        assert await everything(filled) == by_place(SAMPLE)

    @pytest.mark.parametrize(
        "bad",
        [
            [entry(40), entry(40, value="w")],
            [entry(40), entry(-1)],
            [entry(40), entry(OFFSET_LIMIT)],
            [entry(40), Entry("no-such", 0, 0, T0, None, None)],
            [entry(40), Entry("offsets", 3, 0, T0, None, None)],
        ],
        ids=["two for one place", "negative", "too large", "no topic", "no partition"],
    )
    async def test_put_that_cannot_be(self, filled: CompactingLog, bad: list[Entry]) -> None:
        """Entries without a place to go are refused, and the others with them."""
        with pytest.raises(LogNotUsable):
            await filled.put(bad)
        assert await everything(filled) == by_place(SAMPLE)

    async def test_full_partition(self, filled: CompactingLog) -> None:
        """Behind the highest offset nothing can be appended, and that is told."""
        await filled.put([entry(OFFSET_LIMIT - 1)])
        assert (await filled.ends(["config"]))["config"] == [OFFSET_LIMIT]
        with pytest.raises(LogNotUsable, match="full"):
            await filled.append([record("config", 0)])
        assert await filled.append([record("offsets", 2)]) == [Position("offsets", 2, 3)]

    async def test_put_wakes_a_tail(self, filled: CompactingLog) -> None:
        """Imported entries are tailed like appended ones."""
        waiting = asyncio.ensure_future(take(filled.tail(["config"], {"config": [8]}), 2))
        await asyncio.sleep(0)
        await filled.put([entry(11), entry(15)])
        assert await waiting == [entry(11), entry(15)]

    # --- compaction ----------------------------------------------------------------------------

    async def test_compact_keeps_the_last_of_each_key(self, log: CompactingLog) -> None:
        """Superseded, keyless and aborted entries go; tombstones, starts and ends behave."""
        await make_topics(log)
        await log.put(
            [
                entry(0, "a"),
                entry(1, "b"),
                entry(2, "a", None),
                entry(3, None),
                entry(4, "b", "of an aborted transaction", aborted=True),
                entry(6, "c"),
                entry(7, "d"),
                entry(8, "d", None),
            ]
        )
        assert await log.compact("config") == 4
        kept = [entry(1, "b"), entry(2, "a", None), entry(6, "c"), entry(8, "d", None)]
        assert await everything(log) == kept
        assert await log.compact("config") == 0
        assert await log.compact("config", tombstones=True) == 2
        assert await everything(log) == [entry(1, "b"), entry(6, "c")]
        assert (await log.starts(["config"]))["config"] == [1]
        assert (await log.ends(["config"]))["config"] == [9]
        assert await log.append([record("config", 0)]) == [Position("config", 0, 9)]

    async def test_compact_leaves_the_active_segment(self, log: CompactingLog) -> None:
        """Entries from `below` on are not touched and supersede nothing, as in Kafka."""
        await make_topics(log)
        entries = [entry(0), entry(1), entry(2), entry(3)]
        await log.put(entries)
        assert await log.compact("config", [2]) == 1
        assert await everything(log) == entries[1:]
        with pytest.raises(LogNotUsable):
            await log.compact("config", [2, 2])

    async def test_compact_leaves_other_partitions_and_topics(self, log: CompactingLog) -> None:
        """One key in two partitions is two keys, and only the topic named is compacted."""
        await make_topics(log)
        await log.append([record("offsets", n % 2) for n in range(6)])
        await log.append([record("status", 0) for _ in range(3)])
        assert await log.compact("offsets") == 4
        assert [e.position for e in await entries_of(log.read(["offsets"]))] == [
            Position("offsets", 0, 2),
            Position("offsets", 1, 2),
        ]
        assert len(await entries_of(log.read(["status"]))) == 3
        with pytest.raises(LogNotUsable, match="no-such"):
            await log.compact("no-such")

    async def test_put_after_compaction(self, filled: CompactingLog) -> None:
        """What compaction took does not come back with the next import of the same dump."""
        assert await filled.compact("config") == 4
        before = await everything(filled)
        with pytest.raises(LogNotUsable):
            await filled.put(SAMPLE)
        assert await everything(filled) == before

    async def test_compact_while_reading(self, log: CompactingLog) -> None:
        """A reader in the middle of a log goes on, and sees at least what stays."""
        await make_topics(log)
        await log.append([record("offsets", 0, f"{n % 3}") for n in range(100)])
        await log.append([record("offsets", 1, f"{n % 3}") for n in range(100)])
        batches = log.read(["offsets"])
        seen = list((await anext(batches)).entries())
        await log.compact("offsets")
        seen += await entries_of(batches)
        assert set(await everything(log)) <= set(seen)

    # --- retention -----------------------------------------------------------------------------

    async def test_trim_removes_a_prefix(self, filled: CompactingLog) -> None:
        """Everything before an offset goes; the places of what is left and the ends stay."""
        assert await filled.trim("config", [4]) == 3
        left = [one for one in by_place(SAMPLE) if one.topic != "config" or one.offset >= 4]
        assert await everything(filled) == left
        assert await filled.trim("config", [4]) == 0
        assert (await filled.starts(["config"]))["config"] == [4]
        assert (await filled.ends(["config"]))["config"] == [8]
        assert await filled.append([record("config", 0)]) == [Position("config", 0, 8)]

    async def test_trim_leaves_what_is_not_named(self, filled: CompactingLog) -> None:
        """A partition without an offset, and every other topic."""
        assert await filled.trim("offsets", [10]) == 1
        assert await filled.trim("offsets", []) == 0
        assert await filled.trim("offsets", [0, -5, 0]) == 0
        assert [one.position for one in await entries_of(filled.read(["offsets"]))] == [
            Position("offsets", 2, 0),
            Position("offsets", 2, 2),
        ]
        assert len(await entries_of(filled.read(["config"]))) == len(
            [one for one in SAMPLE if one.topic == "config"]
        )

    async def test_trim_takes_all_and_no_more(self, filled: CompactingLog) -> None:
        """Of an empty partition the end is the start; an offset behind the end means the end."""
        assert await filled.trim("config", [2**39]) == 6
        assert await entries_of(filled.read(["config"])) == []
        assert (
            (await filled.starts(["config"])) == (await filled.ends(["config"])) == {"config": [8]}
        )
        assert await filled.append([record("config", 0)]) == [Position("config", 0, 8)]
        assert len(await entries_of(filled.read(["config"]))) == 1

    async def test_trim_in_slices(self, log: CompactingLog) -> None:
        """A long prefix goes while somebody reads, who sees at least what stays."""
        await make_topics(log)
        await log.append([record("offsets", 0, f"{n}") for n in range(9_000)])
        batches = log.read(["offsets"])
        seen = list((await anext(batches)).entries())
        assert await log.trim("offsets", [8_990]) == 8_990
        seen += await entries_of(batches)
        left = await everything(log)
        assert [one.offset for one in left] == list(range(8_990, 9_000))
        assert set(left) <= set(seen)

    async def test_trim_of_what_is_not_there(self, filled: CompactingLog) -> None:
        """A topic or partition that is missing is told, and nothing goes."""
        with pytest.raises(LogNotUsable, match="no-such"):
            await filled.trim("no-such", [1])
        with pytest.raises(LogNotUsable, match="config"):
            await filled.trim("config", [2, 2])
        assert await everything(filled) == by_place(SAMPLE)

    async def test_put_after_trim(self, filled: CompactingLog) -> None:
        """What retention took does not come back with the next import of the same dump."""
        await filled.trim("config", [2])
        before = await everything(filled)
        with pytest.raises(LogNotUsable):
            await filled.put(SAMPLE)
        assert await everything(filled) == before
