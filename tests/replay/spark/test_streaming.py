"""Captures by Structured Streaming, killed at bad moments, neither lose nor double records."""

import asyncio
import signal
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from controlplane.core.state import Topics
from controlplane.logs.kafka.reads.reader import KafkaReader
from controlplane.logs.log import LogUnavailable
from replay.archive.archived_cluster import open_cluster
from replay.archive.stores.store import FolderStore
from replay.capture.log_capture import CaptureTarget
from replay.capture.secrets import kept_secrets
from replay.capture.spark_capture import KafkaFrames
from replay.capture.stream_capture import CaptureStream, follow
from replay.errors import ArchiveConflict
from tests.conftest import PROVE
from tests.file_modes import exposed
from tests.kafka.capture_checks import check_whole, left_in
from tests.kafka.conftest import RELEASES
from tests.kafka.producer import NewTopic, reading, writer
from tests.kafka.real_kafka import Broker
from tests.kafka.topic_histories import TopicHistory, removed
from tests.logs.reading_contract import by_position
from tests.patience import PATIENCE_S
from tests.replay.archive.archives import archived
from tests.replay.cli.replay_calls import started, wait_for
from tests.replay.crash_points import before_manifest, behind_manifest, killed_at
from tests.replay.spark.capture_process import little_at_a_time
from tests.replay.spark.class_archive import quick_settings

pytestmark = [
    pytest.mark.java,
    pytest.mark.broker,
    pytest.mark.parametrize("broker", RELEASES if PROVE else RELEASES[-1:], indirect=True),
]

TRIED_AGAIN = "the capture is retried\n"
"""End of the line about an unreachable cluster."""


def arguments(past: TopicHistory, jars: Path, folder: Path) -> tuple[str, ...]:
    """Arguments of `replay` that follow a broker."""
    config, offsets, status, _ = msgspec.structs.astuple(past.topics)
    return (
        *("capture", f"real=kafka://{past.broker.bootstrap}", str(folder / "archive")),
        *("--engine", "spark", "--master", "local[2]", "--jars", str(jars)),
        *("--checkpoint", str(folder / "checkpoint"), "--every", "0.2"),
        *(word for setting in quick_settings().items() for word in ("--conf", "=".join(setting))),
        *("--config-topic", config, "--offsets-topic", offsets, "--status-topic", status),
    )


def batches(checkpoint: Path, kind: str) -> set[str]:
    """Micro-batches that have begun (`offsets`) or are committed (`commits`)."""
    return {path.name for path in checkpoint.glob(f"{kind}/[0-9]*")}


def lines_until(lines: Iterable[str], end: str) -> list[str]:
    """Lines that a process prints, up to the first with this ending."""
    printed = []
    for line in lines:
        printed.append(line)
        if line.endswith(end):
            return printed
    raise AssertionError(printed)


async def test_a_killed_stream_is_continued(
    spark: SparkSession, past: TopicHistory, reader: KafkaReader, kafka_jars: Path, tmp_path: Path
) -> None:
    """A stream killed before the checkpoint's commit continues, and loses or doubles no record.

    Records that Kafka has removed before the next run are a gap. With `PROVE`, an earlier kill
    comes before a manifest names the segments.
    """
    target = little_at_a_time(tmp_path / "archive", past.topics)
    checkpoint = tmp_path / "checkpoint" / "real"
    entries = await past.present_entries()
    replay = ("replay", *arguments(past, kafka_jars, tmp_path))
    if PROVE:
        await asyncio.to_thread(killed_at, before_manifest(0), *replay)
        assert left_in(target, entries).parts == {}
        assert any(target.store.walk(f"cluster=real/topic={past.topics.config}"))
    # The first manifest names the connector's own topic; the second one archives it.
    own_is_there = behind_manifest(1)
    await asyncio.to_thread(killed_at, own_is_there, *replay)
    left = left_in(target, entries)
    assert batches(checkpoint, "offsets") > batches(checkpoint, "commits")
    assert exposed(tmp_path) == []
    await past.write_more()
    await removed(past.broker, past.own, 0, 28)
    source = KafkaFrames(spark, past.broker.bootstrap, {})
    stream = CaptureStream(
        partial(reading, source.bootstrap), target, source, str(checkpoint), None
    )
    await asyncio.to_thread(follow, stream, lambda _: None)
    whole = open_cluster(target.store, "real")
    check_whole(whole, left, await past.present_entries(), await reader.starts(past.names))
    assert [*whole.gaps]


async def test_a_repeated_batch_ends_no_look(
    spark: SparkSession, broker: Broker, new_topic: NewTopic, kafka_jars: Path, tmp_path: Path
) -> None:
    """A repeated batch keeps its old end, so it ends no look of a partition that has grown."""
    topics = Topics(await new_topic(), await new_topic(), await new_topic())
    connections = []

    def opening_once() -> AbstractAsyncContextManager[KafkaReader]:
        """Connect for the positions, and fail for the first batch."""
        connections.append(broker.bootstrap)
        if len(connections) == 1 + 1:
            raise LogUnavailable("the broker is away")
        return reading(broker.bootstrap)

    target = CaptureTarget(FolderStore(str(tmp_path)), "real", topics, kept_secrets(topics))
    source = KafkaFrames(spark, broker.bootstrap, {})
    stream = CaptureStream(opening_once, target, source, str(tmp_path / "checkpoint"), None)
    async with writer(broker) as out:
        await out.put(topics.config, 0, b"connector-a", b"{}")
        with pytest.raises(LogUnavailable):
            await asyncio.to_thread(follow, stream, lambda _: None)
        await out.put(topics.config, 0, b"connector-a", b"{}")
    await asyncio.to_thread(follow, stream, lambda _: None)
    looks = {
        (reach.topic, reach.end): not reach.partial
        for manifest in open_cluster(target.store, "real").chain.manifests
        for reach in manifest.reaches
    }
    assert looks == {
        (topics.config, 1): False,
        (topics.config, 2): True,
        (topics.offsets, 0): True,
        (topics.status, 0): True,
    }


@pytest.mark.prove
async def test_an_unreachable_cluster_stops_no_other(
    past: TopicHistory, kafka_jars: Path, tmp_path: Path
) -> None:
    """The unreachable cluster is retried while the other is archived; Ctrl-C ends both captures."""
    name, *rest = arguments(past, kafka_jars, tmp_path)
    with started(name, "nobody=kafka://127.0.0.1:1", *rest) as capture:
        assert capture.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            lines = await asyncio.to_thread(lines_until, capture.stderr, TRIED_AGAIN)
        first = tmp_path / "archive" / "cluster=real" / "_manifest" / "0000000001.json"
        await asyncio.to_thread(wait_for, first)
        capture.send_signal(signal.SIGINT)
        lines += await asyncio.to_thread(capture.stderr.readlines)
        assert await asyncio.to_thread(capture.wait) == 130
    again = {line.partition(": ")[0] for line in lines if line.endswith(TRIED_AGAIN)}
    assert again == {"nobody"}


async def test_a_stream_and_its_archive_belong_together(
    spark: SparkSession, broker: Broker, new_topic: NewTopic, kafka_jars: Path, tmp_path: Path
) -> None:
    """The stream finds a topic that a captured config names.

    A checkpoint ahead of the archive is refused.
    """
    topics = Topics(await new_topic(), await new_topic(), await new_topic())
    source = KafkaFrames(spark, broker.bootstrap, {})
    added = []

    async def follow_into(name: str) -> None:
        target = CaptureTarget(
            FolderStore(str(tmp_path / name)), "real", topics, kept_secrets(topics)
        )
        opening = partial(reading, broker.bootstrap)
        stream = CaptureStream(opening, target, source, str(tmp_path / "checkpoint"), None)
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
        with pytest.raises(ArchiveConflict, match=r"says \d: it belongs to another archive"):
            await follow_into("other")
    assert added == [1, 1, 1]
    cluster = open_cluster(FolderStore(str(tmp_path / "archive")), "real")
    assert archived(cluster) == by_position(out.written)
