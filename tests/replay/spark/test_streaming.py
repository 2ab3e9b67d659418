"""A capture by Structured Streaming: killed at bad moments it neither loses nor doubles."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from controlplane.core.entry import Entry
from controlplane.core.state import Topics
from replay.archive.cluster import open_cluster
from replay.archive.store import Folder
from replay.archive.verify import verified
from replay.capture.capture import Target
from replay.capture.secrets import kept
from replay.capture.spark import Source
from replay.capture.streaming import Stream, follow
from replay.errors import ArchiveConflict
from tests.conftest import PROVE, ROOT
from tests.kafka.conftest import RELEASES
from tests.kafka.real import Broker
from tests.kafka.writing import in_order, reading, settled, writer
from tests.replay.spark.conftest import QUICK
from tests.replay.spark.test_capture import NewTopic
from tests.replay.test_appending import archived

pytestmark = [
    pytest.mark.java,
    pytest.mark.broker,
    pytest.mark.parametrize("broker", RELEASES if PROVE else RELEASES[-1:], indirect=True),
]

PATIENCE_S = 90
LOOK_S = 0.005
"""So soon that what has just been written is not yet told of elsewhere."""


class Captures:
    """`replay capture` as a process of its own, into one archive."""

    def __init__(self, broker: Broker, topics: Topics, jars: Path, folder: Path) -> None:
        self.archive = folder / "archive"
        names = ("config", topics.config), ("offsets", topics.offsets), ("status", topics.status)
        self._words = [
            *(sys.executable, "-m", "replay", "capture", f"real=kafka://{broker.bootstrap}"),
            *(str(self.archive), "--engine", "spark", "--master", "local[2]"),
            *("--jars", str(jars), "--checkpoint", str(folder / "checkpoint"), "--every", "0.2"),
            *(word for setting in QUICK.items() for word in ("--conf", "=".join(setting))),
            *(word for field, name in names for word in (f"--{field}-topic", name)),
        ]

    @contextmanager
    def started(self) -> Iterator["subprocess.Popen[str]"]:
        """One that runs; gone afterwards as by `kill -9`, and its JVM with it."""
        pipe = subprocess.PIPE
        with subprocess.Popen(
            self._words,
            cwd=ROOT,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=pipe,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                os.killpg(process.pid, signal.SIGKILL)

    async def kill_when(self, found: Callable[[], bool]) -> None:
        """Start one and kill it as soon as something is so."""
        with self.started() as process:
            async with asyncio.timeout(PATIENCE_S):
                while not found():
                    if process.poll() is not None:
                        assert process.stderr is not None
                        raise AssertionError(process.stderr.read())
                    await asyncio.sleep(LOOK_S)

    def count(self, pattern: str) -> int:
        """How many such files the archive has."""
        return len([*self.archive.glob(f"cluster=real/{pattern}")])


async def test_killed_it_goes_on(
    spark: SparkSession, broker: Broker, new_topic: NewTopic, kafka_jars: Path, tmp_path: Path
) -> None:
    """Once before its segments count, once before the checkpoint knows that they do."""
    topics = Topics(await new_topic(), await new_topic(2), await new_topic(2))
    captures = Captures(broker, topics, kafka_jars, tmp_path)
    entries: list[Entry] = []
    async with writer(broker) as out:
        for number in range(20):
            await out.put(topics.config, 0, b"connector-%d" % number, b'{"properties":{}}')
            await out.put(topics.offsets, number % 2, b'["a",{"n":%d}]' % number, b"1")
        await captures.kill_when(lambda: captures.count("topic=*/*/segment-*") > 0)
        entries += await aborted(broker, topics)
        await captures.kill_when(lambda: captures.count("_manifest/*") > 0)
        own = await new_topic()
        names_it = b'{"properties":{"name":"own","offsets.storage.topic":"%s"}}' % own.encode()
        await out.put(topics.config, 0, b"connector-own", names_it)
        await out.put(own, 0, b'["own",{}]', b"2")
        entries += await aborted(broker, topics)
    target = Target(Folder(str(captures.archive)), "real", topics, kept(topics))
    opening = partial(reading, broker.bootstrap)
    checkpoint = str(tmp_path / "checkpoint" / "real")
    stream = Stream(opening, target, Source(spark, broker.bootstrap, {}), checkpoint, None)
    await asyncio.to_thread(follow, stream, lambda _: None)
    entries += out.written
    cluster = open_cluster(Folder(str(captures.archive)), "real")
    assert archived(cluster) == in_order(entries)
    assert (verified(cluster).flaws, verified(cluster).gaps) == ((), ())
    assert own in cluster.ends


async def test_a_stream_and_its_archive_belong_together(
    spark: SparkSession, broker: Broker, new_topic: NewTopic, kafka_jars: Path, tmp_path: Path
) -> None:
    """A topic that is named later is found; a checkpoint that is further is not believed."""
    topics = Topics(await new_topic(), await new_topic(), await new_topic())
    source = Source(spark, broker.bootstrap, {})
    added = []

    async def follow_into(name: str) -> None:
        target = Target(Folder(str(tmp_path / name)), "real", topics, kept(topics))
        opening = partial(reading, broker.bootstrap)
        stream = Stream(opening, target, source, str(tmp_path / "checkpoint"), None)
        await asyncio.to_thread(follow, stream, lambda captured: added.append(captured.added))

    own = await new_topic()
    async with writer(broker) as out:
        names_it = b'{"properties":{"offsets.storage.topic":"%s"}}' % own.encode()
        await out.put(topics.config, 0, b"connector-own", names_it)
        await out.put(own, 0, b'["own",{}]', b"2")
        await follow_into("archive")
        assert added == [1, 1]
        await out.put(topics.config, 0, b"connector-b", b"{}")
        for _ in range(2):
            await follow_into("archive")
        with pytest.raises(ArchiveConflict, match=r"says up to \d: it is of another archive"):
            await follow_into("other")
    assert added == [1, 1, 1]
    cluster = open_cluster(Folder(str(tmp_path / "archive")), "real")
    assert archived(cluster) == in_order(out.written)


async def aborted(broker: Broker, topics: Topics) -> list[Entry]:
    """Records of a transaction that was aborted, at the end of a partition."""
    transaction = f"t-{topics.config}"
    async with writer(broker, transactional_id=transaction) as out:
        await out.producer.begin_transaction()
        await out.put(topics.status, 0, b"status-task-a-0", b"{}")
        found = await out.end(commit=False)
    await settled(broker, transaction)
    return found
