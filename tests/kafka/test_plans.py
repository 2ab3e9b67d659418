"""Plans of `replay compat` with kcat, executed by a shell on a real broker."""

import os
import shutil
import subprocess
from collections import defaultdict

import pytest

from controlplane.core.codec.offsets import encode_partition
from controlplane.core.entry import Entry, Position
from controlplane.core.order import entries_of
from controlplane.logs.kafka.reads.reader import KafkaReader
from replay.compat.preparation import UNWRAPPED, append_command, copied, copied_topic, offsets_of
from tests.kafka.producer import NewTopic, writer
from tests.kafka.real_kafka import Broker
from tests.patience import PATIENCE_S

pytestmark = [
    pytest.mark.java,
    pytest.mark.broker,
    pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed"),
]

Content = tuple[bytes | None, bytes | None]

NAMES = ("orders", "größe/ümläut 😀", "a'; rm -rf $HOME #", '100% \\t "quoted"\\n', "--all")


def run_line(broker: Broker, command: str) -> None:
    """Run a line of a plan; any output is an error."""
    environment = os.environ | {"BROKERS": broker.bootstrap}
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


async def read(reader: KafkaReader, topic: str) -> list[Entry]:
    """All records of a topic."""
    return list(entries_of([batch async for batch in reader.read([topic])]))


async def contents(reader: KafkaReader, topic: str) -> list[Content]:
    """Keys and values, in order."""
    return [(entry.key, entry.value) for entry in await read(reader, topic)]


@pytest.mark.parametrize("name", NAMES)
async def test_a_record_is_written(
    broker: Broker, reader: KafkaReader, new_topic: NewTopic, name: str
) -> None:
    """A line writes an empty task set, and a tombstone, for any connector name."""
    topic = await new_topic(2)
    key = f"commit-{name}"
    run_line(broker, append_command(topic, 1, key, '{"tasks":0}'))
    run_line(broker, append_command(topic, 1, key, ""))
    assert await contents(reader, topic) == [
        (key.encode(), b'{"tasks":0}'),
        (key.encode(), None),
    ]
    assert {entry.partition for entry in await read(reader, topic)} == {1}


async def test_records_are_appended_once_more(
    broker: Broker, reader: KafkaReader, new_topic: NewTopic
) -> None:
    """Records and a tombstone are appended byte for byte, in the order of the line.

    Tools other than workers may have written values with line breaks.
    """
    topic = await new_topic()
    records = [
        (b"task-a-0", b'{"properties":{"password":"s\\t3%s\\ncret \xc3\xa9"}}'),
        (b"task-a-1", b'{\n\t"properties":{}\r\n}\n'),
        (b"other", b"1"),
        (b"commit-a", b'{"tasks":2}'),
        (b"connector-a", b'{"properties":{"n":"2"}}'),
        (b"target-state-a", None),
    ]
    async with writer(broker) as plain:
        for key, value in records:
            await plain.put(topic, 0, key, value)
    run_line(broker, copied(tuple(Position(topic, 0, offset) for offset in (0, 1, 3, 5))))
    expected = [*records, records[0], records[1], records[3], records[5]]
    assert await contents(reader, topic) == expected


async def test_offsets_are_copied_where_kafka_puts_them(
    broker: Broker, reader: KafkaReader, new_topic: NewTopic
) -> None:
    """Each key and tombstone goes to the partition that a worker's producer chooses.

    Offsets of other connectors are not copied.
    """
    source, target, theirs = await new_topic(1), await new_topic(5), await new_topic(5)
    offsets: list[Content] = []
    for number in range(20):
        key = encode_partition("größe", {"file": f"f{number}\t", "n": number})
        offsets += [(key, b'{"position":%d}' % number), (key, None if number % 3 else b"{}")]
    async with writer(broker) as plain:
        for offset in offsets:
            await plain.put(source, 0, *offset)
            await plain.producer.send_and_wait(theirs, key=offset[0], value=offset[1])
        for other in ("größ", "größer", '"größe"'):
            await plain.put(source, 0, encode_partition(other, {"file": '["größe",'}), b"{}")
    run_line(broker, copied_topic(source, target, through=offsets_of("größe")))
    copies, chosen = await by_partition(reader, target), await by_partition(reader, theirs)
    assert copies == chosen
    assert len(copies) > 1


async def test_envelopes_are_taken_off(
    broker: Broker, reader: KafkaReader, new_topic: NewTopic
) -> None:
    """Keys and values lose their envelopes; tombstones, and records without envelopes, stay."""
    source, target = await new_topic(1), f"{await new_topic(1)}-plain"
    wrapped = b'{"schema":{"type":"struct","field":"payload"},"payload":%s}'
    payload = b'{"at":1700000000000000001,"payload":{"schema":"}"}}'
    key = encode_partition("größe", {"file": "f\t"})
    async with writer(broker) as plain:
        await plain.put(source, 0, wrapped % key, wrapped % payload)
        await plain.put(source, 0, wrapped % key, None)
        await plain.put(source, 0, b"commit-a", b'{"tasks":2}')
    run_line(broker, copied_topic(source, target, UNWRAPPED))
    expected = [(key, payload), (key, None), (b"commit-a", b'{"tasks":2}')]
    assert await contents(reader, target) == expected


async def by_partition(reader: KafkaReader, topic: str) -> dict[int, list[Content]]:
    """Keys and values of each partition."""
    contents: dict[int, list[Content]] = defaultdict(list)
    for entry in await read(reader, topic):
        contents[entry.partition].append((entry.key, entry.value))
    return dict(contents)
