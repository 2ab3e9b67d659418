"""The contract of a log without brokers: its abilities beyond those of Kafka.

A module subclasses `EmbeddedContract` and offers a fixture `log`: an empty log.
"""

import asyncio

import msgspec
import pytest

from controlplane.core.entry import Entry, Position
from controlplane.logs.log import OFFSET_LIMIT, EmbeddedLog, LogNotUsable, Record
from tests.logs.contract import LogContract, entry, make_topics, record
from tests.logs.reading_contract import (
    SAMPLE,
    T0,
    TOPICS,
    by_position,
    entries_of,
    everything,
    take,
    until_ends,
)


class EmbeddedContract(LogContract):
    """Contract of a log without brokers. Needs a fixture `log`."""

    @pytest.fixture
    async def filled(self, log: EmbeddedLog) -> EmbeddedLog:
        """The log that the reading half reads."""
        await make_topics(log)
        await log.put(SAMPLE)
        return log

    async def test_is_an_embedded_log(self, log: EmbeddedLog) -> None:
        """The log has all methods of the protocol."""
        assert isinstance(log, EmbeddedLog)

    async def test_partitions_can_be_added_and_not_removed(self, filled: EmbeddedLog) -> None:
        """Partitions can be added, but never removed; existing records stay."""
        await filled.add_partitions("offsets", 5)
        await filled.add_partitions("offsets", 2)
        assert dict(await filled.topics()) == TOPICS | {"offsets": 5}
        assert await filled.append([record("offsets", 4)]) == [Position("offsets", 4, 0)]
        assert len(await everything(filled)) == len(SAMPLE) + 1
        with pytest.raises(LogNotUsable, match="no-such"):
            await filled.add_partitions("no-such", 5)
        with pytest.raises(LogNotUsable, match="offsets"):
            await filled.add_partitions("offsets", 10**9)

    async def test_the_first_missing_partition_is_named(self, filled: EmbeddedLog) -> None:
        """The error names the first of several records without a partition."""
        for first, second in ((7, 5), (5, 7)):
            with pytest.raises(LogNotUsable, match=f"partition {first} does not exist"):
                await filled.append([record("offsets", first), record("offsets", second)])

    async def test_append_keeps_odd_bytes(self, log: EmbeddedLog) -> None:
        """Reads return the appended records: headers with odd names, empty and missing bytes."""
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

    async def test_a_tail_returns_nothing_below_its_start(self, filled: EmbeddedLog) -> None:
        """A tail never returns entries below its start, even if they come later."""
        tail = filled.tail(["config"], {"config": [10]})
        waiting = asyncio.ensure_future(take(tail, 1))
        await asyncio.sleep(0)
        for _ in range(3):
            await filled.append([record("config", 0)])
        assert [e.offset for e in await waiting] == [10]

    async def test_offsets_have_no_gaps(self, filled: EmbeddedLog) -> None:
        """Positions are consecutive: no marker takes an offset."""
        records = [record("offsets", 2), record("config", 0), record("offsets", 2)]
        assert await filled.append(records) == [
            Position("offsets", 2, 3),
            Position("config", 0, 8),
            Position("offsets", 2, 4),
        ]
        ends = {"config": [9], "offsets": [1, 0, 5], "status": [0, 0]}
        assert dict(await filled.ends(TOPICS)) == ends
        batches = [[record("config", 0)] * 7 for _ in range(50)]
        for positions in await asyncio.gather(*(filled.append(batch) for batch in batches)):
            offsets = [position.offset for position in positions]
            assert offsets == list(range(offsets[0], offsets[0] + 7))

    # --- put -----------------------------------------------------------------------------------

    async def test_imported_entries_may_come_in_any_order(self, log: EmbeddedLog) -> None:
        """The order of imported entries does not matter."""
        await make_topics(log)
        assert await log.put(SAMPLE[::-1]) == len(SAMPLE)
        assert await everything(log) == by_position(SAMPLE)

    async def test_put_twice_adds_nothing(self, filled: EmbeddedLog) -> None:
        """Importing the same entries again adds nothing; new entries are added."""
        assert await filled.put(SAMPLE) == 0
        assert await filled.put([]) == 0
        entries = [*SAMPLE, entry(9), entry(9), entry(12)]
        assert await filled.put(entries) == 2
        assert await everything(filled) == by_position([*SAMPLE, entry(9), entry(12)])
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
    async def test_an_import_of_another_entry_is_refused(
        self, filled: EmbeddedLog, changed: dict[str, object]
    ) -> None:
        """An entry that differs from the one at its place makes the whole import fail."""
        other = msgspec.structs.replace(SAMPLE[0], **changed)
        with pytest.raises(LogNotUsable, match=r"config@0 .* another entry"):
            await filled.put([entry(20), other])
        assert await everything(filled) == by_position(SAMPLE)

    @pytest.mark.parametrize("offset", [3, 6])
    async def test_an_import_into_a_gap_is_refused(self, filled: EmbeddedLog, offset: int) -> None:
        """An entry for a gap is refused: a reader may have passed the gap already."""
        with pytest.raises(LogNotUsable, match=f"config@{offset} .* gap"):
            await filled.put([entry(offset), entry(30)])
        assert await everything(filled) == by_position(SAMPLE)

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
    async def test_an_import_without_a_valid_place_is_refused(
        self, filled: EmbeddedLog, bad: list[Entry]
    ) -> None:
        """Entries without a valid place are refused, and so is the rest of the import."""
        with pytest.raises(LogNotUsable):
            await filled.put(bad)
        assert await everything(filled) == by_position(SAMPLE)

    async def test_a_full_partition_refuses_appends(self, filled: EmbeddedLog) -> None:
        """An append after the highest offset raises `LogNotUsable`."""
        await filled.put([entry(OFFSET_LIMIT - 1)])
        assert (await filled.ends(["config"]))["config"] == [OFFSET_LIMIT]
        with pytest.raises(LogNotUsable, match="full"):
            await filled.append([record("config", 0)])
        assert await filled.append([record("offsets", 2)]) == [Position("offsets", 2, 3)]

    async def test_put_wakes_a_tail(self, filled: EmbeddedLog) -> None:
        """A tail returns imported entries like appended ones."""
        waiting = asyncio.ensure_future(take(filled.tail(["config"], {"config": [8]}), 2))
        await asyncio.sleep(0)
        await filled.put([entry(11), entry(15)])
        assert await waiting == [entry(11), entry(15)]

    # --- compaction ----------------------------------------------------------------------------

    async def test_compact_keeps_the_last_of_each_key(self, log: EmbeddedLog) -> None:
        """Compaction keeps the last entry of a key; only `tombstones=True` removes tombstones."""
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

    async def test_compact_leaves_the_active_segment(self, log: EmbeddedLog) -> None:
        """Entries from `below` on stay and supersede nothing, as in Kafka."""
        await make_topics(log)
        entries = [entry(0), entry(1), entry(2), entry(3)]
        await log.put(entries)
        assert await log.compact("config", [2]) == 1
        assert await everything(log) == entries[1:]
        with pytest.raises(LogNotUsable):
            await log.compact("config", [2, 2])

    async def test_compact_leaves_other_partitions_and_topics(self, log: EmbeddedLog) -> None:
        """Compaction treats equal keys in two partitions as two, and only touches its topic."""
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

    async def test_an_import_does_not_restore_compacted_records(self, filled: EmbeddedLog) -> None:
        """Importing the same dump again does not restore compacted records."""
        assert await filled.compact("config") == 4
        before = await everything(filled)
        with pytest.raises(LogNotUsable):
            await filled.put(SAMPLE)
        assert await everything(filled) == before

    async def test_a_reader_continues_during_a_compaction(self, log: EmbeddedLog) -> None:
        """A reader in the middle of a log continues, and sees at least the remaining records."""
        await make_topics(log)
        await log.append([record("offsets", 0, f"{n % 3}") for n in range(100)])
        await log.append([record("offsets", 1, f"{n % 3}") for n in range(100)])
        batches = log.read(["offsets"])
        entries_seen = list((await anext(batches)).entries())
        await log.compact("offsets")
        entries_seen += await entries_of(batches)
        assert set(await everything(log)) <= set(entries_seen)

    # --- retention -----------------------------------------------------------------------------

    async def test_trim_removes_a_prefix(self, filled: EmbeddedLog) -> None:
        """Trimming removes entries before the offset; other positions and the ends stay."""
        assert await filled.trim("config", [4]) == 3
        left = [
            sample
            for sample in by_position(SAMPLE)
            if sample.topic != "config" or sample.offset >= 4
        ]
        assert await everything(filled) == left
        assert await filled.trim("config", [4]) == 0
        assert (await filled.starts(["config"]))["config"] == [4]
        assert (await filled.ends(["config"]))["config"] == [8]
        assert await filled.append([record("config", 0)]) == [Position("config", 0, 8)]

    async def test_trim_leaves_unnamed_partitions(self, filled: EmbeddedLog) -> None:
        """Trimming leaves partitions without an offset, and every other topic."""
        assert await filled.trim("offsets", [10]) == 1
        assert await filled.trim("offsets", []) == 0
        assert await filled.trim("offsets", [0, -5, 0]) == 0
        assert [kept.position for kept in await entries_of(filled.read(["offsets"]))] == [
            Position("offsets", 2, 0),
            Position("offsets", 2, 2),
        ]
        assert len(await entries_of(filled.read(["config"]))) == len(
            [sample for sample in SAMPLE if sample.topic == "config"]
        )

    async def test_trim_takes_all_and_no_more(self, filled: EmbeddedLog) -> None:
        """An empty partition starts at its end; an offset behind the end means the end."""
        assert await filled.trim("config", [2**39]) == 6
        assert await entries_of(filled.read(["config"])) == []
        assert (
            (await filled.starts(["config"])) == (await filled.ends(["config"])) == {"config": [8]}
        )
        assert await filled.append([record("config", 0)]) == [Position("config", 0, 8)]
        assert len(await entries_of(filled.read(["config"]))) == 1

    async def test_a_reader_sees_at_least_the_remaining_entries_of_a_trim(
        self, log: EmbeddedLog
    ) -> None:
        """A reader during the trim of a long prefix sees at least the remaining entries."""
        await make_topics(log)
        await log.append([record("offsets", 0, f"{n}") for n in range(9_000)])
        batches = log.read(["offsets"])
        entries_seen = list((await anext(batches)).entries())
        assert await log.trim("offsets", [8_990]) == 8_990
        entries_seen += await entries_of(batches)
        left = await everything(log)
        assert [kept.offset for kept in left] == list(range(8_990, 9_000))
        assert set(left) <= set(entries_seen)

    async def test_a_tail_passes_removed_records(self, filled: EmbeddedLog) -> None:
        """If the last records were removed, an empty batch reaches the end."""
        tail = filled.tail(["config", "offsets"], {})
        await filled.trim("config", [8])
        await filled.trim("offsets", [1, 0, 3])
        reached = {("config", 0): 8, ("offsets", 0): 1, ("offsets", 2): 3}
        batches = await until_ends(tail, reached)
        assert not any(map(len, batches))
        await filled.append([record("config", 0)])
        assert [appended.offset for appended in await take(tail, 1)] == [8]

    async def test_trim_refuses_missing_topics_and_partitions(self, filled: EmbeddedLog) -> None:
        """A missing topic or partition raises `LogNotUsable`, and nothing is removed."""
        with pytest.raises(LogNotUsable, match="no-such"):
            await filled.trim("no-such", [1])
        with pytest.raises(LogNotUsable, match="config"):
            await filled.trim("config", [2, 2])
        assert await everything(filled) == by_position(SAMPLE)

    async def test_an_import_does_not_restore_trimmed_records(self, filled: EmbeddedLog) -> None:
        """Importing the same dump again does not restore records that retention removed."""
        await filled.trim("config", [2])
        before = await everything(filled)
        with pytest.raises(LogNotUsable):
            await filled.put(SAMPLE)
        assert await everything(filled) == before
