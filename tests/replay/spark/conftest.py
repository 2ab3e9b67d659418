"""One Spark session for all tests: its start costs as much as most tests together."""

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replay.engine.spark.location import SparkLocation
from replay.engine.spark.session import session
from tests.kafka.conftest import broker, new_topic, past, reader
from tests.replay.spark.class_archive import quick_settings, record_classes

__all__ = ["broker", "new_topic", "past", "reader"]

ROOT = Path(__file__).parents[3]
JARS = ROOT / ".cache" / "spark-jars"


@cache
def trouble() -> str:
    """Fetch the jars of Spark's Kafka source; return the reason if unavailable, else ""."""
    command = [ROOT / "tools" / "spark-jars", JARS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Session on this machine, started with the jars because they cannot be added later."""
    jars = [] if trouble() else sorted(JARS.glob("*.jar"))
    record_classes()
    conf = quick_settings() | {"spark.jars": ",".join(map(str, jars))}
    with session(SparkLocation("local[2]", conf)) as started:
        yield started


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """Folder of the jars; tests without them are skipped."""
    if trouble():
        pytest.skip(trouble())
    return JARS
