"""`controlplane copy` between embedded logs and real brokers, in both directions."""

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controlplane.core.codec import encode_command
from controlplane.core.commands import StopConnector
from controlplane.core.entry import Entry
from controlplane.core.records import CommandAccepted
from controlplane.core.state import Topics
from controlplane.logs.log import Record
from controlplane.logs.log_copy import COPY_MARK
from controlplane.logs.sqlite import SqliteLog
from tests.cli.command_calls import ROOT, CommandResult, call, refusal
from tests.forked_commands import started
from tests.kafka.consumers import consuming
from tests.kafka.own_service import refused_own, serving_own, worker_file
from tests.kafka.producer import create_topic, delete_topic, reading, writer
from tests.kafka.real_kafka import Broker
from tests.kafka.test_own_topics import contents, live, own_log, records
from tests.kafka.test_serve_own import SOURCE
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.broker]

LONG_AGO_MS = 1_700_000_000_000
"""Time of records that a broker may compact at once. Its markers are years younger, so it begins a
new segment."""
MANY = 60_000
"""Records of a log whose copy takes long enough to be killed."""


async def run(*words: object, **environment: str) -> CommandResult:
    """Run a command in a thread beside the event loop."""
    return await asyncio.to_thread(lambda: call(*words, environment=environment))


async def embedded(path: Path, names: Topics) -> list[Entry]:
    """Embedded log with every command, and its records."""
    log = await SqliteLog.open(path)
    try:
        await live(log, names, time.time_ns() // 1_000_000)
        return await records(log, await log.topics())
    finally:
        await log.close()


async def filled(path: Path, entries: list[Entry], sizes: dict[str, int]) -> None:
    """Embedded log with these records."""
    log = await SqliteLog.open(path)
    try:
        for name, size in sizes.items():
            await log.create_topic(name, size)
        await log.put(entries)
    finally:
        await log.close()


async def on_kafka(broker: Broker, names: Topics, *, is_decided: bool = True) -> list[Entry]:
    """The committed records on the broker.

    A commit returns before its markers are written: wait until no transaction is open, unless
    `is_decided` is False.
    """
    async with (
        reading(broker.bootstrap) as reader,
        reading(broker.bootstrap, isolation="read_uncommitted") as uncommitted,
    ):
        present = [name for name in await reader.topics() if name in msgspec.structs.astuple(names)]
        async with asyncio.timeout(PATIENCE_S):
            while is_decided and await reader.ends(present) != await uncommitted.ends(present):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return await records(reader, present)


def headers(entries: list[Entry]) -> list[tuple[Any, ...]]:
    """Headers of the records in each partition, in their order."""
    ordered = sorted(entries, key=lambda entry: entry.position)
    return [(entry.topic, entry.partition, entry.headers) for entry in ordered]


def translated(positions: list[dict[str, Any]], entries: list[Entry]) -> list[tuple[Any, ...]]:
    """Records at their offsets in the copy, which the output of `copy` gives."""
    runs = {
        (run["topic"], run["partition"], run["source"] + step): run["target"] + step
        for run in positions
        for step in range(run["records"])
    }
    return [
        (topic, partition, runs[topic, partition, offset], *content)
        for topic, partition, offset, *content in contents(entries)
    ]


async def test_a_copy_there_and_back_keeps_bytes_times_and_headers(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """Bytes, times and headers stay equal in both directions; `serve --own` continues."""
    file, log, back = worker_file(tmp_path, own_topics), tmp_path / "a.db", tmp_path / "b.db"
    entries = await embedded(log, own_topics)
    where = f"kafka://{broker.bootstrap}"
    copied = await run("copy", log, where, "--worker", file, "-o", "json")
    assert copied.code == 0, copied.err
    assert (copied.json["records"], copied.json["added"]) == (len(entries), len(entries))
    on_broker = await on_kafka(broker, own_topics)
    assert translated(copied.json["positions"], entries) == contents(on_broker)
    assert headers(on_broker) == headers(entries)
    again = await run("copy", log, where, "--worker", file)
    assert f"nothing copied: all {len(entries)} records were in {where} already" in again.out
    async with serving_own(broker, file) as (_, client):
        names = (await client.get("/connectors")).json()
        assert "orders" in names
        assert (await client.post("/connectors", json={"name": "n", "config": SOURCE})).is_success
    later_copy = await run("copy", log, where, "--worker", file)
    assert "already has records, and the one at offset" in refusal(later_copy)
    returned = await run("copy", where, back, "--worker", file, "-o", "json")
    assert returned.code == 0, returned.err
    assert returned.json["positions"]
    assert all(run["source"] == run["target"] for run in returned.json["positions"])
    log_back = await SqliteLog.open(back, create=False, read_only=True)
    entries_back = await records(log_back, await log_back.topics())
    await log_back.close()
    on_broker = await on_kafka(broker, own_topics)
    assert contents(entries_back) == contents(on_broker)
    assert headers(entries_back) == headers(on_broker)
    assert "exists already" in refusal(await run("copy", where, back, "--worker", file))


async def test_a_mark_shows_the_owner_of_a_log_without_commands(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """A mark in the command topic shows the topics' owner; readers see no command."""
    file, log = worker_file(tmp_path, own_topics), tmp_path / "a.db"
    config = b'{"properties":{"name":"a","connector.class":"FileStreamSource"}}'
    first = Entry(own_topics.config, 0, 5, LONG_AGO_MS, b"connector-a", config)
    aborted = Entry(own_topics.config, 0, 6, LONG_AGO_MS, b"connector-b", config, aborted=True)
    last = Entry(own_topics.config, 0, 8, LONG_AGO_MS, b"target-state-a", b'{"state":"PAUSED"}')
    sizes = {own_topics.config: 1, own_topics.offsets: 2, own_topics.status: 1}
    await filled(log, [first, aborted, last], sizes)
    where = f"kafka://{broker.bootstrap}"
    copied = await run("copy", log, where, "--worker", file)
    assert copied.code == 0, copied.err
    rows = [line.split() for line in copied.out.splitlines() if own_topics.config in line]
    assert rows == [
        [own_topics.config, "0", "5-5", "0-0", "1"],
        [own_topics.config, "0", "8-8", "1-1", "1"],
    ]
    on_broker, marked = await on_kafka(broker, own_topics), (own_topics.commands, COPY_MARK)
    keys = {(entry.topic, entry.key) for entry in on_broker}
    assert keys == {(own_topics.config, first.key), (own_topics.config, last.key), marked}
    again = await run("copy", log, where, "--worker", file)
    assert "nothing copied: all 2 records" in again.out, again.err
    async with serving_own(broker, file) as (_, client):
        assert (await client.get("/connectors")).json() == ["a"]
        assert (await client.get("/commands")).json()["commands"] == []


async def test_other_topic_names_are_copied(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """Other topic names come from a worker's file for TO or from options, in both directions."""
    log, back, names = tmp_path / "a.db", tmp_path / "b.db", Topics()
    entries = await embedded(log, names)
    file = worker_file(tmp_path, own_topics)
    where = f"kafka://{broker.bootstrap}"
    words = ("copy", log, where, "--to-worker-properties", file)
    copied = await run(*words, "-o", "json")
    assert copied.code == 0, copied.err
    renamed = dict(
        zip(msgspec.structs.astuple(names), msgspec.structs.astuple(own_topics), strict=True)
    )
    assert copied.json["topics"] == renamed
    on_broker = await on_kafka(broker, own_topics)
    moved = [
        (renamed[topic], *content)
        for topic, *content in translated(copied.json["positions"], entries)
    ]
    assert moved == contents(on_broker)
    again = await run(*words)
    assert f"nothing copied: all {len(entries)} records were in {where} already" in again.out
    assert f"{names.config} → {own_topics.config}" in again.out
    async with serving_own(broker, file) as (_, client):
        assert "orders" in (await client.get("/connectors")).json()
    config = ("--to-config-topic", "fleet")
    returned = await run("copy", where, back, "--worker", file, *config, "-o", "json")
    assert returned.code == 0, returned.err
    assert returned.json["topics"][own_topics.config] == "fleet"
    shown = await run("get", "connectors", "-c", back, CONTROLPLANE_CONFIG_STORAGE_TOPIC="fleet")
    assert shown.code == 0, shown


async def test_refused_copies_create_nothing(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """One name for two topics, and an unfinished command, are refused: nothing is created."""
    file, log, names = worker_file(tmp_path, own_topics), tmp_path / "a.db", Topics()
    await embedded(log, names)
    words = ("copy", log, f"kafka://{broker.bootstrap}", "--to-worker-properties", file)
    result = await run(*words, "--to-status-topic", own_topics.config)
    assert f"--to-status-topic: status.storage.topic is {own_topics.config}, and so is" in refusal(
        result
    )
    stop = msgspec.to_builtins(StopConnector("orders"))
    key, value = encode_command(CommandAccepted("cut-off", 1, "alice", stop, {}))
    opened = await SqliteLog.open(log)
    await opened.append([Record(names.commands, 0, 1, key, value)])
    await opened.close()
    assert "FROM has 1 unfinished command" in refusal(await run(*words))
    assert await on_kafka(broker, own_topics) == []


async def test_claimed_topics_are_refused(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """Topics that `serve --own` has claimed are refused, even if it has written no command."""
    file, log = worker_file(tmp_path, own_topics), tmp_path / "a.db"
    names = msgspec.structs.astuple(own_topics)
    record = Entry(own_topics.config, 0, 0, LONG_AGO_MS, b"connector-a", b"{}")
    await filled(log, [record], dict.fromkeys(names, 1))
    target = await own_log(broker, own_topics)
    try:
        for name in names:
            await target.create_topic(name, 1)
        await target.claim()
    finally:
        await target.close()
    result = await run("copy", log, f"kafka://{broker.bootstrap}", "--worker", file)
    assert "the target's topics have been claimed by `serve --own`" in refusal(result)


async def test_a_killed_copy_is_continued(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """`serve --own` refuses half a copy; the same command completes it without doubles."""
    file, log = worker_file(tmp_path, own_topics), tmp_path / "a.db"
    entries = [
        Entry(own_topics.offsets, number % 2, number // 2, LONG_AGO_MS, b"[%d]" % number, b"{}")
        for number in range(MANY)
    ]
    entries.append(Entry(own_topics.config, 0, 0, LONG_AGO_MS, b"connector-a", b"{}"))
    entries.append(Entry(own_topics.commands, 0, 0, LONG_AGO_MS, b"gone", None))
    sizes = {
        own_topics.config: 1,
        own_topics.offsets: 2,
        own_topics.status: 1,
        own_topics.commands: 1,
    }
    await filled(log, entries, sizes)
    where = f"kafka://{broker.bootstrap}"
    copying = await started("copy", str(log), where, "--worker", str(file), cwd=ROOT)
    async with reading(broker.bootstrap) as reader:

        async def begun() -> bool:
            exists = own_topics.offsets in await reader.topics()
            return exists and (await reader.ends([own_topics.offsets]))[own_topics.offsets][0] > 0

        async with asyncio.timeout(PATIENCE_S):
            while not await begun():  # noqa: ASYNC110 - a copy sends no event
                await asyncio.sleep(0.01)
    copying.send_signal(signal.SIGKILL)
    assert await copying.wait() == -signal.SIGKILL
    half = await on_kafka(broker, own_topics, is_decided=False)
    assert 0 < len(half) < len(entries)
    assert "an interrupted copy wrote these records" in refusal(await refused_own(broker, file))
    ended = await run("copy", log, where, "--worker", file, "-o", "json")
    assert ended.code == 0, ended.err
    assert ended.json["records"] == len(entries)
    assert ended.json["added"] <= len(entries) - len(half)
    on_broker = await on_kafka(broker, own_topics)
    assert translated(ended.json["positions"], entries) == contents(on_broker)
    await _killed_on_the_way_back(where, file, on_broker, tmp_path / "back.db")


def files_of(log: Path) -> set[str]:
    """Names of a log's file and of its drafts, as far as they exist."""
    return {path.name for path in log.parent.iterdir() if log.name in path.name}


async def _killed_on_the_way_back(
    where: str, file: Path, on_broker: list[Entry], back: Path
) -> None:
    """Kill a copy to a file: the file does not exist, and the same command makes it."""
    words = ("copy", where, str(back), "--worker", str(file))
    copying = await started(*words, cwd=ROOT)
    async with asyncio.timeout(PATIENCE_S):
        while not files_of(back):  # noqa: ASYNC110 - a copy sends no event
            await asyncio.sleep(0.001)
    copying.send_signal(signal.SIGKILL)
    assert await copying.wait() == -signal.SIGKILL
    assert back.name not in files_of(back)
    ended = await run(*words)
    assert ended.code == 0, ended.err
    log = await SqliteLog.open(back, create=False, read_only=True)
    assert contents(await records(log, await log.topics())) == contents(on_broker)
    await log.close()
    assert files_of(back) == {back.name}


async def test_records_that_the_copy_has_compacted_count_as_copied(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """Records that Kafka has compacted meanwhile count as copied; later ones are copied."""
    settings = {"min__cleanable__dirty__ratio": 0.001, "max__compaction__lag__ms": 1}
    overrides = {f"offset__storage__{key}": value for key, value in settings.items()}
    file, log = worker_file(tmp_path, own_topics, **overrides), tmp_path / "a.db"
    entries = [
        Entry(own_topics.offsets, 0, number, LONG_AGO_MS, b"[%d]" % (number % 3), b"%d" % number)
        for number in range(9)
    ]
    entries.append(Entry(own_topics.config, 0, 0, LONG_AGO_MS, b"connector-a", b"{}"))
    sizes = {own_topics.config: 1, own_topics.offsets: 1, own_topics.status: 1}
    await filled(log, entries, sizes)
    words = ("copy", log, f"kafka://{broker.bootstrap}", "--worker", file)
    assert (await run(*words)).code == 0

    async def compacted() -> bool:
        remaining = [
            entry for entry in await on_kafka(broker, own_topics) if entry.value is not None
        ]
        return len(remaining) == 4

    async with asyncio.timeout(PATIENCE_S):
        while not await compacted():  # noqa: ASYNC110 - a broker sends no event
            await asyncio.sleep(0.05)
    again = await run(*words)
    assert "nothing copied: all 4 records" in again.out, again.err


async def test_unsuitable_targets_are_refused_unchanged(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """Targets with other records, partition counts or group members are refused unchanged."""
    file, log = worker_file(tmp_path, own_topics), tmp_path / "a.db"
    first = Entry(own_topics.config, 0, 0, 1, b"connector-a", b"{}")
    await filled(log, [first], {own_topics.config: 1, own_topics.offsets: 2, own_topics.status: 1})
    where = f"kafka://{broker.bootstrap}"
    words = ("copy", log, where, "--worker", file)
    await create_topic(broker, own_topics.config, 2)
    assert f"topic {own_topics.config} has 2 partitions" in refusal(await run(*words))
    await delete_topic(broker, own_topics.config)
    await create_topic(broker, own_topics.config)
    async with writer(broker) as out:
        await out.put(own_topics.config, 0, b"connector-a", b"{ }", timestamp=1)
    assert f"{own_topics.config}-0 already has records" in refusal(await run(*words))
    async with consuming(broker, own_topics.config, own_topics.config):
        assert f"group {own_topics.config} has 1 member" in refusal(await run(*words))
    assert len(await on_kafka(broker, own_topics)) == 1
