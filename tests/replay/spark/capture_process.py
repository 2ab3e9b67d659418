"""Process that captures with Spark's Kafka source in several commits; tests kill it at some step.

Run as a module; the arguments are ARCHIVE JARS BOOTSTRAP CONFIG OFFSETS STATUS COMMANDS.
"""

import asyncio
import sys
from pathlib import Path

from controlplane.core.state import Topics
from replay.capture.log_capture import CaptureResult, CaptureTarget
from replay.capture.spark_capture import KafkaFrames, SparkCapture
from replay.cli.execution.spark_captures import with_jars
from replay.engine.spark.location import SparkLocation
from tests.kafka.capture_crashes import target_in
from tests.kafka.producer import reading
from tests.replay.spark.class_archive import quick_settings

COMMIT_RECORDS = 40
"""Records of each commit: more than in tests without Spark, as a commit costs two Spark jobs."""


def little_at_a_time(folder: Path, topics: Topics) -> CaptureTarget:
    """Capture target with `COMMIT_RECORDS` records per commit."""
    return target_in(folder, topics)._replace(commit_records=COMMIT_RECORDS)


async def capture(source: KafkaFrames, target: CaptureTarget) -> CaptureResult:
    """Capture topics with Spark into an archive."""
    async with reading(source.bootstrap) as reader:
        return await SparkCapture(reader, target, source).run()


def main(archive: str, jars: str, bootstrap: str, *names: str) -> None:
    """Capture the topics of a broker with Spark."""
    target = little_at_a_time(Path(archive), Topics(*names))
    with with_jars(SparkLocation("local[2]", quick_settings()), Path(jars)) as session:
        asyncio.run(capture(KafkaFrames(session, bootstrap, {}), target))


if __name__ == "__main__":
    main(*sys.argv[1:])
