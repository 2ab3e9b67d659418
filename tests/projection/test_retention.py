"""Retention: which records are removed after some time, and which stay at any age."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controlplane.core.codec import encode_command
from controlplane.core.codec.status import encode_status
from controlplane.core.entry import Entry
from controlplane.core.records import (
    ActiveTopic,
    Activity,
    CommandAccepted,
    CommandFinished,
    CommandRecord,
)
from controlplane.core.releases.profiles import Profile
from controlplane.core.topic_names import GROUPS_TOPIC
from controlplane.logs.log import EmbeddedLog, ReadableLog
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog
from controlplane.projection.retention import DAY_MS, FOREVER, RetentionSettings, retain
from tests.projection.loaded_state import state_of

CONFIG, OFFSETS, STATUS, COMMANDS = (
    f"connect-{name}" for name in ("configs", "offsets", "status", "commands")
)
NOW_MS = 100 * DAY_MS


@pytest.fixture(params=["memory", "sqlite"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EmbeddedLog]:
    """An empty log with its topics, of either kind."""
    log: EmbeddedLog
    log = MemoryLog() if request.param == "memory" else await SqliteLog.open(tmp_path / "log.db")
    for topic, partitions in {CONFIG: 1, OFFSETS: 2, STATUS: 1, COMMANDS: 1}.items():
        await log.create_topic(topic, partitions)
    yield log
    await log.close()


def command(offset: int, record: CommandRecord, day: int) -> Entry:
    """A record of the command topic that was written on a day."""
    return Entry(COMMANDS, 0, offset, day * DAY_MS, *encode_command(record))


def run(first: int, command_id: str, day: int, *, finishes: bool = True) -> list[Entry]:
    """Records of a command, from beginning to end."""
    began = command(first, CommandAccepted(command_id, 0, "ana", {}), day)
    ended = command(first + 1, CommandFinished(command_id, 1, {}), day)
    return [began, ended] if finishes else [began]


async def offsets_in(log: ReadableLog, topic: str) -> list[int]:
    """Return the offsets of a topic's records."""
    return [entry.offset async for batch in log.read([topic]) for entry in batch.entries()]


async def test_old_commands_are_removed(log: EmbeddedLog) -> None:
    """Retention removes commands up to the first young one, and no other record."""
    config = Entry(CONFIG, 0, 0, 0, b"connector-c", b'{"properties":{}}')
    again = Entry(CONFIG, 0, 1, 0, b"connector-c", b'{"properties":{}}')
    await log.put([config, again, *run(0, "a", 60), *run(2, "b", 69), *run(4, "c", 70)])
    assert await retain(log, await state_of(log), NOW_MS) == 4
    assert await offsets_in(log, COMMANDS) == [4, 5]
    assert await offsets_in(log, CONFIG) == [0, 1]
    assert await retain(log, await state_of(log), NOW_MS) == 0
    assert list((await state_of(log)).commands) == ["c"]


async def test_an_unfinished_command_stays(log: EmbeddedLog) -> None:
    """An unfinished command and all later records stay: recovery needs them."""
    await log.put([*run(0, "a", 1), *run(2, "b", 1, finishes=False), *run(3, "c", 1)])
    assert await retain(log, await state_of(log), NOW_MS) == 2
    assert await offsets_in(log, COMMANDS) == [2, 3, 4]
    await log.put([command(5, CommandFinished("b", 1, {}), 99)])
    assert await retain(log, await state_of(log), NOW_MS) == 3
    assert await offsets_in(log, COMMANDS) == [5]


async def test_records_behind_the_state_stay(log: EmbeddedLog) -> None:
    """Retention keeps records that the state has not read: they may begin an unfinished command."""
    await log.put(run(0, "a", 1))
    state = await state_of(log)
    await log.put(run(2, "b", 1, finishes=False))
    assert await retain(log, state, NOW_MS) == 2
    assert await offsets_in(log, COMMANDS) == [2]


async def test_superseded_records_are_removed_if_configured(log: EmbeddedLog) -> None:
    """Retention keeps young records, and the last old record of each key."""
    days = [1, 2, 3, 95, 96]
    await log.put(
        [Entry(CONFIG, 0, n, day * DAY_MS, b"connector-c", b"{}") for n, day in enumerate(days)]
        + [
            Entry(OFFSETS, at, n, n * DAY_MS, b'["c",{"p":%d}]' % at, b"{}")
            for at in (0, 1)
            for n in range(3 + at)
        ]
        + run(0, "a", 1)
    )
    retention = RetentionSettings(commands_ms=FOREVER, superseded_ms=10 * DAY_MS)
    assert await retain(log, await state_of(log), NOW_MS, retention) == 2 + 2 + 3
    assert await offsets_in(log, CONFIG) == [2, 3, 4]
    assert await offsets_in(log, OFFSETS) == [2, 3]
    assert await offsets_in(log, COMMANDS) == [0, 1]


async def test_old_records_of_connectors_are_removed(log: EmbeddedLog) -> None:
    """Retention removes old records of active topics. Other topics may hold offsets and stay.

    A group's last committed offset stays at any age; retention removes older ones.
    """
    for topic in ("orders", "offsets-of-gone", GROUPS_TOPIC):
        await log.create_topic(topic, 1)
        days = (1, 90, 99)
        await log.put([Entry(topic, 0, n, day * DAY_MS, b"k", b"v") for n, day in enumerate(days)])
    use = ActiveTopic("c", "orders", Activity("orders", "c", 0, 1))
    key, value = encode_status(use, Profile.of("kip"))
    await log.put([Entry(STATUS, 0, 0, 1, key, value)])
    assert await retain(log, await state_of(log), NOW_MS) == 2 + 2
    assert await offsets_in(log, "orders") == [2]
    assert await offsets_in(log, "offsets-of-gone") == [0, 1, 2]
    assert await offsets_in(log, GROUPS_TOPIC) == [2]


async def test_unlimited_retention_removes_nothing(log: EmbeddedLog) -> None:
    """With unlimited retention, no command is removed."""
    await log.put(run(0, "a", 1))
    everything = RetentionSettings(commands_ms=FOREVER)
    assert await retain(log, await state_of(log), NOW_MS, everything) == 0
    assert await offsets_in(log, COMMANDS) == [0, 1]


class ForeignLog:
    """Foreign log, which can only be read."""

    def __init__(self, log: ReadableLog) -> None:
        self.topics, self.starts, self.ends = log.topics, log.starts, log.ends
        self.read, self.tail, self.close = log.read, log.tail, log.close


async def test_a_foreign_log_is_left_alone(log: EmbeddedLog) -> None:
    """The owner of a foreign log decides its retention."""
    await log.put(run(0, "a", 1))
    assert await retain(ForeignLog(log), await state_of(log), NOW_MS) == 0
    assert await offsets_in(log, COMMANDS) == [0, 1]
