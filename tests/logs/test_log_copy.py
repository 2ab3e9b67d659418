"""Copies between logs: continued after any interruption, refused if the target differs."""

from collections.abc import Sequence

import msgspec
import pytest

from controlplane.core.entry import Entry, Position
from controlplane.core.order import entries_of
from controlplane.core.state import Topics
from controlplane.logs import log_copy
from controlplane.logs.cluster_topics import check_own_topics
from controlplane.logs.log import Fenced, LogNotUsable, Record
from controlplane.logs.log_copy import COPY_MARK, LogCopy, put_all
from controlplane.logs.memory import MemoryLog
from controlplane.logs.position_runs import PositionRun

TOPICS = Topics()
SIZES = {TOPICS.config: 1, TOPICS.offsets: 2, TOPICS.status: 1, TOPICS.commands: 1}
T0 = 1_700_000_000_000


def entry(topic: str, partition: int, offset: int, key: str, value: str | None = "{}") -> Entry:
    """Return a record with the header `h`."""
    headers = (("h", b"x"),)
    octets = None if value is None else value.encode()
    return Entry(topic, partition, offset, T0 + offset, key.encode(), octets, headers=headers)


CONTENT = (
    entry(TOPICS.config, 0, 3, "connector-a"),
    entry(TOPICS.config, 0, 4, "connector-a", "{ }"),
    entry(TOPICS.config, 0, 9, "connector-a", None),
    entry(TOPICS.offsets, 1, 0, "k"),
    entry(TOPICS.offsets, 1, 1, "l"),
    entry(TOPICS.commands, 0, 0, "id-1", None),
)


async def log_of(*entries: Entry, **sizes: int) -> MemoryLog:
    """Return a log in memory with these records."""
    log = MemoryLog()
    for topic, size in (SIZES | sizes).items():
        await log.create_topic(topic, size)
    await log.put(entries)
    return log


async def contents(log: MemoryLog) -> list[Entry]:
    """Return every record of a log, by position."""
    batches = [batch async for batch in log.read(list(await log.topics()))]
    return sorted(entries_of(batches), key=lambda entry: entry.position)


async def copied(source: MemoryLog, target: MemoryLog) -> LogCopy:
    """Run a copy to its end and return it; its progress never decreases."""
    steps: list[tuple[int, int]] = []
    copying = LogCopy(source, target, TOPICS, lambda done, total: steps.append((done, total)))
    await copying.run()
    assert steps == sorted(steps)
    return copying


def expected(*entries: Entry) -> list[Entry]:
    """The records without gaps between them."""
    ends: dict[tuple[str, int], int] = {}
    moved = []
    for original in sorted(entries, key=lambda entry: entry.position):
        place = original.topic, original.partition
        moved.append(msgspec.structs.replace(original, offset=ends.setdefault(place, 0)))
        ends[place] += 1
    return moved


async def test_an_append_of_a_copy_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers count, too, so that records with large headers come in several appends."""
    headers = (("h", b"x" * 1_000),)
    records = [
        Entry(TOPICS.status, 0, offset, T0, b"k", b"{}", headers=headers) for offset in range(20)
    ]
    target = await log_of()
    sizes: list[int] = []
    append = target.append

    async def counted(records: Sequence[Record], epoch: int | None = None) -> Sequence[Position]:
        sizes.append(len(records))
        return await append(records, epoch)

    monkeypatch.setattr(log_copy, "BATCH_BYTES", 5_000)
    monkeypatch.setattr(target, "append", counted)
    await copied(await log_of(*records), target)
    assert sizes == [5, 5, 5, 5, 1]  # the last one marks the copy


@pytest.mark.parametrize("cut", range(5))
async def test_a_copy_continues_after_any_cut(cut: int) -> None:
    """A copy continues after the first records of the source, and copies no record twice."""
    source, target = await log_of(*CONTENT), await log_of(*expected(*CONTENT[:cut]))
    copying = await copied(source, target)
    assert (copying.runs.records, copying.added) == (len(CONTENT), len(CONTENT) - cut)
    assert await contents(target) == expected(*CONTENT)
    assert copying.runs.all == [
        PositionRun(TOPICS.commands, 0, 0, 0),
        PositionRun(TOPICS.config, 0, 3, 0, 2),
        PositionRun(TOPICS.config, 0, 9, 2),
        PositionRun(TOPICS.offsets, 1, 0, 0, 2),
    ]
    assert (await copied(source, target)).added == 0


async def test_compacted_records_may_be_missing() -> None:
    """Records that the source has compacted since may be missing; others may not."""
    source, whole = await log_of(*CONTENT), expected(*CONTENT)
    compacted = [entry for entry in whole if entry.value != b"{}" or entry.topic != TOPICS.config]
    target = await log_of(*compacted)
    assert (await copied(source, target)).runs.records == len(CONTENT) - 1
    torn = await log_of(*(entry for entry in whole if entry.key != b"k"))
    with pytest.raises(LogNotUsable, match="connect-offsets-1 already has records, and lacks some"):
        await copied(source, torn)


async def test_compacted_tombstones_may_be_missing() -> None:
    """A copy may lack a deleted key with its tombstone, unless it ends before the tombstone."""
    content = [
        entry(TOPICS.offsets, 0, 0, "deleted"),
        entry(TOPICS.offsets, 0, 1, "other"),
        entry(TOPICS.offsets, 0, 2, "deleted", None),
        entry(TOPICS.offsets, 0, 3, "last"),
        entry(TOPICS.offsets, 0, 4, "more"),
    ]
    source = await log_of(*content)
    target = await log_of(content[1], content[3])
    assert (await copied(source, target)).runs.records == 3
    torn = await log_of(content[1])
    with pytest.raises(LogNotUsable, match="connect-offsets-0 already has records, and lacks some"):
        await copied(source, torn)


@pytest.mark.parametrize(
    "change", [{"value": b"["}, {"timestamp": 1}, {"key": b"other"}, {"headers": ()}]
)
async def test_other_records_are_refused(change: dict[str, object]) -> None:
    """A record that differs in any field makes the copy fail; the target stays unchanged."""
    first, *_ = expected(*CONTENT)[1:]
    target = await log_of(msgspec.structs.replace(first, **change))
    before = await contents(target)
    with pytest.raises(LogNotUsable, match="connect-configs-0 already has records, and the one at"):
        await copied(await log_of(*CONTENT), target)
    assert await contents(target) == before


async def test_a_complete_copy_is_not_continued() -> None:
    """A complete copy is never continued: the command topic, which is written last, is there."""
    target = await log_of(*expected(*CONTENT))
    source = await log_of(*CONTENT, entry(TOPICS.status, 0, 0, "status-connector-a"))
    with pytest.raises(
        LogNotUsable, match="older complete copy, without offset 0 of connect-status-0"
    ):
        await copied(source, target)


class OvertakenLog(MemoryLog):
    """Log that another copy completes before the first claim."""

    source: MemoryLog | None = None

    async def claim(self) -> int:
        """Let the other copy run first, once."""
        source, self.source = self.source, None
        if source is not None:
            await copied(source, self)
        return await super().claim()


@pytest.mark.parametrize("content", [CONTENT, CONTENT[:-1]])
async def test_a_copy_that_another_one_overtakes_appends_nothing(
    content: tuple[Entry, ...],
) -> None:
    """Commands, or the mark, are appended once, although two copies run."""
    source, target = await log_of(*content), OvertakenLog()
    for topic, size in SIZES.items():
        await target.create_topic(topic, size)
    target.source = source
    assert (await copied(source, target)).added == 0
    assert len(await contents(target)) == len(CONTENT)


async def test_a_copy_without_commands_ends_with_a_mark() -> None:
    """A copy without commands ends with a mark, which no later copy takes for a foreign record."""
    source, target = await log_of(*CONTENT[:-1]), await log_of()
    assert (await copied(source, target)).marked
    assert (await contents(target))[0].key == COPY_MARK
    again = await copied(source, target)
    assert (again.marked, again.added, again.runs.records) == (True, 0, len(CONTENT) - 1)


@pytest.mark.parametrize("commands", [0, 1])
@pytest.mark.parametrize("is_open", [False, True])
async def test_a_copy_continues_after_an_aborted_last_append(commands: int, is_open: bool) -> None:
    """Aborted commands, or an aborted mark, complete no copy: neither for `run` nor for `serve`."""
    content = CONTENT[: len(CONTENT) - 1 + commands]
    last = CONTENT[-1] if commands else entry(TOPICS.commands, 0, 0, COPY_MARK.decode(), None)
    aborted = msgspec.structs.replace(last, aborted=True)
    target = await log_of(*expected(*CONTENT[:-1]))
    claim = target.claim

    async def abort() -> None:
        """Abort the last append of an interrupted copy."""
        await target.put([aborted])
        await target.add_marker(TOPICS.commands, 0)

    async def aborting_claim() -> int:
        """End the open transaction of the earlier copy, as a claim on Kafka does."""
        await abort()
        return await claim()

    if is_open:
        target.claim = aborting_claim  # type: ignore[method-assign]
    else:
        await abort()
    with pytest.raises(LogNotUsable, match=r"already have records, and the command topic .* is"):
        await check_own_topics(target, TOPICS)
    copying = LogCopy(await log_of(*content), target, TOPICS, lambda *_: None)
    await copying.run()
    assert (copying.runs.records, copying.added) == (len(content), commands)
    assert copying.marked == (not commands)
    await check_own_topics(target, TOPICS)
    target.claim = claim  # type: ignore[method-assign]
    assert (await copied(await log_of(*content), target)).added == 0


async def test_other_partitions_are_refused() -> None:
    """Another number of partitions is refused: it determines a key's partition."""
    target = await log_of(**{TOPICS.offsets: 3})
    with pytest.raises(LogNotUsable, match="connect-offsets has 3 partitions and must have 2"):
        await copied(await log_of(*CONTENT), target)


async def test_the_writer_of_the_target_is_fenced() -> None:
    """The copy fences the target's former writer, so it can add nothing."""
    target = await log_of()
    epoch = await target.claim()
    await copied(await log_of(*CONTENT), target)
    with pytest.raises(Fenced):
        await target.append([Record(TOPICS.config, 0, T0, b"k", b"v")], epoch)


async def test_a_copy_into_an_embedded_log_keeps_offsets() -> None:
    """A copy into an embedded log keeps offsets, gaps and aborted marks."""
    aborted = msgspec.structs.replace(entry(TOPICS.config, 0, 6, "connector-b"), aborted=True)
    source, target = await log_of(*CONTENT, aborted), MemoryLog()
    runs = await put_all(source, target, TOPICS, lambda *_: None)
    assert await contents(target) == await contents(source)
    assert runs.records == len(CONTENT) + 1
    assert all(run.source == run.target for run in runs.all)
