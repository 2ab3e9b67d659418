"""Killed captures by Spark's Kafka source, with their JVM, neither lose nor double records."""

import asyncio
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from controlplane.logs.kafka.reads.reader import KafkaReader
from replay.archive.archived_cluster import ArchivedCluster
from replay.archive.verification import verified
from replay.capture.spark_capture import KafkaFrames
from tests.kafka.capture_checks import check_whole, left_in
from tests.kafka.topic_histories import TopicHistory, removed
from tests.replay.archive.archives import archived
from tests.replay.crash_points import before_manifest, behind_manifest, killed_at, killed_when
from tests.replay.spark.capture_process import capture, little_at_a_time

pytestmark = [
    pytest.mark.java,
    pytest.mark.broker,
    pytest.mark.prove,  # two minutes; `test_streaming` kills one in `make test`
]

CAPTURING = "tests.replay.spark.capture_process"

MOMENTS = (before_manifest(1), behind_manifest(0))
"""Points at which a capture of several parts is killed; each costs the start of a JVM."""


async def test_a_killed_capture_neither_loses_nor_doubles(
    spark: SparkSession, past: TopicHistory, reader: KafkaReader, kafka_jars: Path, tmp_path: Path
) -> None:
    """The capture is killed while tasks write, and right before and after a manifest appears.

    Only segments that a manifest lists belong to the archive.
    """
    target = little_at_a_time(tmp_path, past.topics)
    names = msgspec.structs.astuple(past.topics)
    words = (CAPTURING, str(tmp_path), str(kafka_jars), past.broker.bootstrap, *names)
    entries = await past.present_entries()
    lefts: list[ArchivedCluster] = []

    def tasks_write() -> bool:
        return any(tmp_path.rglob("segment-*"))

    await asyncio.to_thread(killed_when, tasks_write, *words)
    lefts.append(left_in(target, entries))
    for moment in MOMENTS:
        await asyncio.to_thread(killed_at, moment, *words)
        lefts.append(left_in(target, entries))
    await past.write_more()
    await removed(past.broker, past.own, 0, 28)
    captured = await capture(KafkaFrames(spark, past.broker.bootstrap, {}), target)
    check_whole(
        captured.cluster, lefts[-1], await past.present_entries(), await reader.starts(past.names)
    )
    assert [*captured.cluster.gaps]
    counts = [len(left.chain.manifests) for left in lefts]
    assert [after - before for before, after in pairwise(counts)] == [1] * len(MOMENTS)
    assert len(archived(lefts[-1])) < len(entries), "it was killed before its end each time"
    assert verified(lefts[1]).leftovers
