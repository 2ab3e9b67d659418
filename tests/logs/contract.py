"""The contract of every writable log of ours; its reading half is in `reading_contract`.

`LogContract` holds the abilities that Kafka has, too. A module subclasses it and offers two
fixtures: `log`, an empty log, and `filled`, a log that holds `SAMPLE`. `embedded_contract` adds the
abilities of a log without brokers.
"""

import asyncio

import pytest

from controlplane.core.entry import Entry
from controlplane.logs.log import (
    Fenced,
    Log,
    LogNotUsable,
    LogUnavailable,
    Record,
)
from tests.logs.reading_contract import (
    SAMPLE,
    T0,
    TOPICS,
    ReadingContract,
    by_position,
    entries_of,
    everything,
    take,
)


def record(topic: str, partition: int, text: str = "x") -> Record:
    """A record for tests that look only at topic and partition."""
    return Record(topic, partition, T0, text.encode(), b"1")


def entry(
    offset: int, key: str | None = "k", value: str | None = "v", *, aborted: bool = False
) -> Entry:
    """Return an entry of the topic `config`."""
    raw_key, raw_value = (None if text is None else text.encode() for text in (key, value))
    return Entry("config", 0, offset, T0 + offset, raw_key, raw_value, aborted=aborted)


async def make_topics(log: Log) -> None:
    """Create the topics that the sample needs."""
    for topic, partitions in TOPICS.items():
        await log.create_topic(topic, partitions)


class LogContract(ReadingContract):
    """Contract of a writable log. Needs the fixtures `log` and `filled`."""

    takes_records_without_keys = True
    """False for compacted topics of real brokers."""

    async def test_is_a_log(self, log: Log) -> None:
        """The log has all methods of the protocol."""
        assert isinstance(log, Log)

    async def test_a_new_log_is_empty(self, log: Log) -> None:
        """A new log has no topics, and nothing to read."""
        assert dict(await log.topics()) == {}
        assert await everything(log) == []

    # --- topics --------------------------------------------------------------------------------

    async def test_an_existing_topic_can_be_created_again(self, filled: Log) -> None:
        """Creating an existing topic with the same number of partitions changes nothing."""
        await make_topics(filled)
        assert await everything(filled) == by_position(SAMPLE)

    @pytest.mark.parametrize("partitions", [1, 2, 4, 0, -1, 10**9])
    async def test_another_number_of_partitions_is_refused(
        self, filled: Log, partitions: int
    ) -> None:
        """Creating an existing topic with another or an invalid number of partitions is refused."""
        with pytest.raises(LogNotUsable, match="offsets"):
            await filled.create_topic("offsets", partitions)
        assert dict(await filled.topics()) == TOPICS

    # --- append --------------------------------------------------------------------------------

    async def test_append_returns_positions(self, filled: Log) -> None:
        """Positions come in the order of the records, and reads find the records there."""
        records = [
            record("offsets", 2, "a"),
            record("config", 0, "b"),
            record("offsets", 2, "c"),
        ]
        before = await filled.ends(TOPICS)
        positions = await filled.append(records)
        assert [position[:2] for position in positions] == [
            ("offsets", 2),
            ("config", 0),
            ("offsets", 2),
        ]
        assert before["offsets"][2] <= positions[0].offset < positions[2].offset
        keys = {entry.position: entry.key for entry in await everything(filled)}
        assert [keys[position] for position in positions] == [appended.key for appended in records]
        ends = await filled.ends(TOPICS)
        assert (ends["offsets"][:2], ends["status"]) == (before["offsets"][:2], before["status"])

    async def test_own_records_lie_before_the_ends(self, log: Log) -> None:
        """After `append` has returned, the ends lie behind the record, and a read reaches it."""
        await make_topics(log)
        for number in range(20):
            positions = await log.append([record("config", 0, str(number)), record("offsets", 1)])
            ends = await log.ends(["config", "offsets"])
            assert all(ends[topic][part] > offset for topic, part, offset in positions)
            read = await entries_of(log.read(["config", "offsets"], stop=ends))
            assert {*positions} <= {entry.position for entry in read}

    async def test_append_keeps_every_byte(self, log: Log) -> None:
        """Reads return the appended records to the byte, with repeated and null headers."""
        await make_topics(log)
        headers = (("", b""), ("who", None), ("who", b"\xff"), ("€😀", b"x" * 70_000))
        records = [Record("status", 1, T0, None, None)] * self.takes_records_without_keys + [
            Record("status", 1, T0 - 7, b"", b"", headers),
            Record("status", 1, 0, bytes(range(256)), b"\0" * 300_000),
        ]
        await log.append(records)
        assert [
            Record(e.topic, e.partition, e.timestamp, e.key, e.value, e.headers)
            for e in await entries_of(log.read(["status"]))
        ] == records

    async def test_an_empty_append_leaves_no_trace(self, filled: Log) -> None:
        """An empty batch is no error and leaves no trace."""
        assert await filled.append([]) == []
        assert await everything(filled) == by_position(SAMPLE)

    @pytest.mark.parametrize(
        ("topic", "partition"),
        [("no-such", 0), ("no-such", -1), ("offsets", 3), ("config", -1)],
    )
    async def test_append_is_all_or_nothing(self, filled: Log, topic: str, partition: int) -> None:
        """If one record has no valid place, no record of the batch is appended."""
        with pytest.raises(LogNotUsable, match=topic):
            await filled.append([record("config", 0), record(topic, partition)])
        assert await everything(filled) == by_position(SAMPLE)
        (position,) = await filled.append([record("config", 0)])
        assert position.offset >= 8

    async def test_concurrent_appends_do_not_mix(self, log: Log) -> None:
        """Batches of concurrent appenders do not mix or get lost, and have distinct positions."""
        await make_topics(log)
        batches = [[record("config", 0, f"{n}.{i}") for i in range(n % 7)] for n in range(200)]
        answers = await asyncio.gather(*(log.append(batch) for batch in batches))
        keys = {e.position: e.key for e in await everything(log)}
        for batch, positions in zip(batches, answers, strict=True):
            assert [keys.pop(position) for position in positions] == [r.key for r in batch]
            offsets = [position.offset for position in positions]
            assert offsets == sorted({*offsets})
        assert not keys

    async def test_cancelled_append_is_whole_or_absent(self, log: Log) -> None:
        """A cancelled append leaves all of its records or none; other appends go on."""
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

    async def test_ends_decide_a_cancelled_append(self, log: Log) -> None:
        """After a cancelled append the ends are final: its record lies before them, or nowhere."""
        await make_topics(log)
        appends = [asyncio.ensure_future(log.append([record("config", 0)])) for _ in range(20)]
        await asyncio.sleep(0)
        for appending in appends:
            appending.cancel()
        await asyncio.gather(*appends, return_exceptions=True)
        ends = await log.ends(["config"])
        await log.append([record("status", 0)])
        assert dict(await log.ends(["config"])) == dict(ends)

    async def test_close_completes_or_refuses_appends(self, log: Log) -> None:
        """An append before `close` succeeds or raises `LogUnavailable`; a later one raises it."""
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

    async def test_only_the_newest_epoch_writes(self, filled: Log) -> None:
        """A claim fences every older epoch; no record of a fenced batch is appended."""
        old, new = await filled.claim(), await filled.claim()
        assert new != old
        for epoch in (old, new + 1, -1, 0):
            with pytest.raises(Fenced):
                await filled.append([record("config", 0)], epoch)
        assert await everything(filled) == by_position(SAMPLE)
        (position,) = await filled.append([record("config", 0)], new)
        assert position.offset >= 8

    async def test_a_claim_decides_older_appends(self, log: Log) -> None:
        """After a claim the ends are final: appends of older epochs lie before them, or nowhere."""
        await make_topics(log)
        old = await log.claim()
        appends = [asyncio.ensure_future(log.append([record("config", 0)], old)) for _ in range(20)]
        await asyncio.sleep(0)
        await log.claim()
        ends = await log.ends(["config"])
        results = await asyncio.gather(*appends, return_exceptions=True)
        fenced = [result for result in results if isinstance(result, BaseException)]
        assert all(isinstance(error, Fenced) for error in fenced)
        read = await entries_of(log.read(["config"], stop=ends))
        assert len(read) == len(results) - len(fenced)
        assert dict(await log.ends(["config"])) == dict(ends)

    async def test_no_epoch_is_not_fenced(self, filled: Log) -> None:
        """Writers without an epoch are never fenced."""
        await filled.claim()
        (position,) = await filled.append([record("config", 0)])
        assert position.offset >= 8

    async def test_a_fenced_append_affects_no_other(self, log: Log) -> None:
        """A fenced append does not affect others that are committed together with it."""
        await make_topics(log)
        old, new = await log.claim(), await log.claim()
        epochs = [new, old, None] * 20
        results = await asyncio.gather(
            *(log.append([record("config", 0)], epoch) for epoch in epochs), return_exceptions=True
        )
        assert [isinstance(result, Fenced) for result in results] == [False, True, False] * 20
        assert len(await entries_of(log.read(["config"]))) == 40

    # --- tail ----------------------------------------------------------------------------------

    async def test_tail_follows(self, filled: Log) -> None:
        """A waiting tail returns every later append once, in order."""
        ends = await filled.ends(TOPICS)
        tail = filled.tail(TOPICS, ends)
        for round_ in range(5):
            waiting = asyncio.ensure_future(take(tail, 3))
            await asyncio.sleep(0)
            batch = [record("config", 0, f"{round_}.{i}") for i in range(3)]
            await filled.append(batch)
            assert [e.key for e in await waiting] == [r.key for r in batch]

    async def test_tails_are_independent(self, filled: Log) -> None:
        """Tails are independent; cancelling one does not affect the others."""
        ends = await filled.ends(TOPICS)
        tails = [asyncio.ensure_future(take(filled.tail(TOPICS, ends), 2)) for _ in range(5)]
        await asyncio.sleep(0)
        tails[0].cancel()
        await filled.append([record("config", 0), record("status", 1)])
        for taken in await asyncio.gather(*tails[1:]):
            assert {e.topic for e in taken} == {"config", "status"}
