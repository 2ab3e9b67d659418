"""`KAFKA_BOOTSTRAP`: the tests use a broker that runs already, and start none."""

import asyncio
import os
import re
import sys

import pytest

from controlplane.logs.kafka.reads.reader import KafkaReader
from tests.jars import ROOT
from tests.kafka.real_kafka import GIVEN_BROKER, GIVEN_RELEASE, Broker

pytestmark = [pytest.mark.java, pytest.mark.broker]

TEST = "tests/kafka/test_reader.py::test_an_empty_topic_has_ends_and_starts_of_0"
"""A short test that creates one topic."""

OF_RUN = re.compile(r"topic-[0-9a-f]{8}-\d+")
"""Names of topics that a run on an existing broker creates."""


async def test_a_run_uses_the_given_broker(broker: Broker, reader: KafkaReader) -> None:
    """A run of pytest passes on this broker, and leaves its topic there."""
    assert not [name for name in await reader.topics() if OF_RUN.fullmatch(name)]
    # Variables of the outer run would make the inner one a worker of it.
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    selection = {GIVEN_BROKER: broker.bootstrap, GIVEN_RELEASE: broker.release}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TEST),
        cwd=ROOT,
        env=inherited | selection,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    assert b"1 passed" in printed
    assert len([name for name in await reader.topics() if OF_RUN.fullmatch(name)]) == 1
