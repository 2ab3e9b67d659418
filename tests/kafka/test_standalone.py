"""Java's standalone worker and ours take turns on one offsets file."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from controlplane.logs.kafka.reads.reader import KafkaReader
from controlplane.worker.standalone.offset_file_format import decode_offsets
from tests.cli.standalone_process import (
    OUT,
    ended_worker,
    running_worker,
    until_lines,
    until_position,
    write_json,
    write_properties,
)
from tests.kafka.conftest import unused_name
from tests.kafka.real_kafka import Broker, StandaloneWorker

RELEASE = "3.9.1"

pytestmark = [
    pytest.mark.java,
    pytest.mark.broker,
    pytest.mark.parametrize("broker", [RELEASE], indirect=True),
]


class SharedFile:
    """File of lines, and the offsets of its source."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.topic = unused_name()
        self.input = folder / "in.txt"
        self.offsets = folder / "connect.offsets"
        self.source = write_properties(
            folder / "lines.properties",
            {
                "name": "lines",
                "connector.class": "FileStreamSource",
                "file": str(self.input),
                "topic": self.topic,
            },
        )

    def write(self, text: str) -> None:
        """Append to the file of lines."""
        with self.input.open("a") as lines:
            lines.write(text)

    async def read_by_java(self, broker: Broker, position: int) -> None:
        """Let the Java worker read up to a position, then stop it in order."""
        settings = {"offset__storage__file__filename": self.offsets}
        worker = StandaloneWorker(RELEASE, broker, self.folder, self.source, **settings)
        async with worker:
            await until_position(worker.rest, "lines", position, path="")
            await worker.stop()

    async def read_by_us(self, *expected: str) -> None:
        """Let our worker read until its sink has these lines, then stop it."""
        sink = write_json(self.folder / "out.json", {**OUT, "topics": self.topic})
        settings: Mapping[str, str] = {"connectors.folders": str(self.folder)}
        async with running_worker(self.folder, self.source, sink, settings=settings) as worker:
            await until_lines(self.folder / "out.txt", *expected)
            assert (await worker.end())[0] == 0

    async def in_kafka(self, broker: Broker) -> list[bytes | None]:
        """Values of the topic on the broker."""
        reader = await KafkaReader.open(broker.bootstrap)
        try:
            return [
                entry.value
                async for batch in reader.read([self.topic])
                for entry in batch.entries()
            ]
        finally:
            await reader.close()


async def test_each_worker_continues_at_the_others_offset(broker: Broker, tmp_path: Path) -> None:
    """Each worker continues at the other's offset: no line is doubled or lost."""
    shared = SharedFile(tmp_path)
    shared.write("one\ntwo\n")
    await shared.read_by_java(broker, 8)
    key = f'["lines",{{"filename":"{shared.input}"}}]'.encode()
    assert decode_offsets(shared.offsets.read_bytes()) == {key: b'{"position":8}'}

    shared.write("three\n")
    await shared.read_by_us("three")
    assert decode_offsets(shared.offsets.read_bytes()) == {key: b'{"position":14}'}

    shared.write("four\n")
    await shared.read_by_java(broker, 19)
    assert await shared.in_kafka(broker) == [b"one", b"two", b"four"]


@pytest.mark.parametrize(
    "content",
    ['{"connector.class": "FileStreamSource"}', '{"name": "a", "connector.class": "Nobody"}', "{"],
    ids=["no name", "unknown class", "no JSON"],
)
async def test_a_bad_file_ends_both_with_one_code(
    broker: Broker, tmp_path: Path, content: str
) -> None:
    """Both workers exit with code 3 for each bad connector file."""
    file = tmp_path / "a.json"
    file.write_text(content)
    settings = {"offset__storage__file__filename": tmp_path / "connect.offsets"}
    java = StandaloneWorker(RELEASE, broker, tmp_path, file, **settings)
    assert await java.exit_code() == 3, java.printed
    await java.rest.aclose()
    assert (await asyncio.to_thread(ended_worker, tmp_path, file)).code == 3
