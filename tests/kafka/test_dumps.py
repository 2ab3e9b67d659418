"""Dumps by each release's console consumer are read back to the byte."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from controlplane.logs.dumps import read_dump
from tests.jars import java
from tests.kafka.conftest import NEWEST
from tests.kafka.producer import NewTopic, writer
from tests.kafka.real_kafka import QUIET, Broker, broker_runtime, quick_jvm
from tests.logs.reading_contract import by_position
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.broker, NEWEST]

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
"""Class of the console consumer."""

COLUMNS = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key")


def consume(broker: Broker, topic: str, records: int) -> bytes:
    """Output of the console consumer of the broker's release for a topic."""
    option = "--formatter-property" if broker.release.startswith("4.") else "--property"
    path = broker_runtime(broker.release)
    assert isinstance(path, str)
    command = [
        *(str(java()), *quick_jvm("broker", path), "-cp", path, QUIET),
        *(CONSUMER, "--bootstrap-server", broker.bootstrap, "--topic", topic),
        *("--from-beginning", "--max-messages", str(records)),
        *(part for name in COLUMNS for part in (option, f"print.{name}=true")),
    ]
    return subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_S).stdout


async def test_output_of_the_console_consumer_is_read_as_written(
    broker: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Null, empty and non-UTF-8 bytes, headers and own timestamps are read as written."""
    topic = await new_topic(2, cleanup__policy="delete")  # a compacted one refuses null keys
    async with writer(broker) as out:
        await out.put_nothing(topic, 0)
        await out.put(topic, 0, b"connector-a", b'{"properties":{"a":"b"}}', timestamp=5)
        await out.put(topic, 0, b"\xff\x01", b'\xed\xa0\xbd\x7f"\\/\x08\r\x00 \xe2\x88\x85')
        await out.put(topic, 1, b"k", None, headers=(("a", b"1"), ("a", None), ("x", b"\xfe")))
        await out.put(topic, 1, b"", b"")
        await out.put(topic, 1, b'["c",{"a":"b,c:d"}]', b'{"pos":1}')
    printed = tmp_path / "printed"
    printed.write_bytes(await asyncio.to_thread(consume, broker, topic, len(out.written)))
    dump = read_dump(printed, topic=topic)
    assert dump.problems == []
    assert dump.entries == by_position(out.written)
