"""`controlplane standalone` whose connectors have their topics on a broker."""

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.worker.standalone.offset_file_format import decode_offsets
from tests.cli.command_calls import refusal
from tests.cli.standalone_process import (
    StandaloneProcess,
    ended_worker,
    running_from,
    running_worker,
    until_last_line,
    until_lines,
    until_position,
    write_json,
    write_properties,
)
from tests.kafka.conftest import unused_name, up
from tests.kafka.consumers import groups_of
from tests.kafka.producer import reading
from tests.kafka.real_kafka import CLUSTER_ID, Broker, GivenBroker, StandaloneWorker
from tests.kafka.worker_service import until, until_failed, until_values, values_in
from tests.patience import PATIENCE_S
from tests.ports import free_ports

RELEASE = "3.9.1"

pytestmark = [pytest.mark.java, pytest.mark.broker]
SHARED = pytest.mark.parametrize("broker", [RELEASE], indirect=True)
"""Mark: the test uses the shared broker."""

JSON = "org.apache.kafka.connect.json.JsonConverter"
SHIPPED: Mapping[str, str] = {
    "bootstrap.servers": "localhost:9092",
    "key.converter": JSON,
    "value.converter": JSON,
    "key.converter.schemas.enable": "true",
    "value.converter.schemas.enable": "true",
    "offset.storage.file.filename": "/tmp/connect.offsets",
    "offset.flush.interval.ms": "10000",
}
"""Settings of the file `connect-standalone.properties` that Kafka ships."""


class Pipeline:
    """Connector files of a source and a sink: lines go from a file through a topic to a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.topic = unused_name()
        self.names = unused_name(), unused_name()
        """Names of source and sink: a group of an earlier test must not be found."""
        self.out = folder / "out.txt"
        self.offsets = folder / "connect.offsets"

    def source(self, **settings: str) -> Path:
        """Write the file of the source; `__` in a setting's name is a dot."""
        file = str(self.folder / "in.txt")
        return self._write_config(
            self.names[0], "FileStreamSource", file, topic=self.topic, **settings
        )

    def sink(self, **settings: str) -> Path:
        """Write the file of the sink."""
        file = str(self.out)
        return self._write_config(
            self.names[1], "FileStreamSink", file, topics=self.topic, **settings
        )

    def _write_config(self, name: str, connector: str, file: str, **settings: str) -> Path:
        config = {"name": name, "connector.class": connector, "tasks.max": "1", "file": file}
        dotted = {key.replace("__", "."): value for key, value in settings.items()}
        return write_json(self.folder / f"{connector}.json", config | dotted)

    def write(self, text: str) -> None:
        """Append lines to the file of the source."""
        with (self.folder / "in.txt").open("a") as lines:
            lines.write(text)

    @property
    def committed(self) -> Mapping[bytes | None, bytes | None]:
        """Keys and values of the offsets file."""
        return decode_offsets(self.offsets.read_bytes())


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """Pipeline with its own topic and names."""
    return Pipeline(tmp_path)


@asynccontextmanager
async def running(
    broker: Broker, pipeline: Pipeline, *files: Path, **settings: str
) -> AsyncIterator[tuple[StandaloneProcess, httpx.AsyncClient]]:
    """Run our worker on the broker; `__` in a setting's name is a dot."""
    dotted = {key.replace("__", "."): value for key, value in settings.items()}
    overrides = {"bootstrap.servers": broker.bootstrap, **dotted}
    async with (
        running_worker(pipeline.folder, *files, settings=overrides) as worker,
        httpx.AsyncClient(base_url=worker.url, timeout=PATIENCE_S) as client,
    ):
        yield worker, client


@SHARED
async def test_files_of_a_java_worker_work_unchanged(broker: Broker, pipeline: Pipeline) -> None:
    """Kafka's own worker and connector files work; a Java worker continues after ours."""
    folder = pipeline.folder
    files = pipeline.source(), pipeline.sink()
    properties = write_properties(folder / "connect-standalone.properties", SHIPPED)
    overridden = {
        "bootstrap.servers": broker.bootstrap,
        "offset.storage.file.filename": str(pipeline.offsets),
        "plugin.path": "controlplane.connectors",
        "connectors.folders": str(folder),
    }
    options = tuple(
        word for pair in overridden.items() for word in ("--override", "{}={}".format(*pair))
    )
    pipeline.write("one\ntwo\n")
    async with running_from(properties, *files, options=options) as worker:
        assert worker.lines[2] == (
            f"Source offsets are in {pipeline.offsets}, topics in kafka://{broker.bootstrap}"
        )
        await until_lines(pipeline.out, "one", "two")
        code, output = await worker.end(signal.SIGTERM)
    assert code == 0, output

    pipeline.write("three\n")
    async with running_from(properties, *files, options=options) as worker:
        await until_lines(pipeline.out, "one", "two", "three")
        assert (await worker.end(signal.SIGTERM))[0] == 0
    key = f'["{pipeline.names[0]}",{{"filename":"{folder / "in.txt"}"}}]'.encode()
    assert pipeline.committed == {key: b'{"position":14}'}

    pipeline.write("four\n")
    same = {key.replace(".", "__"): value for key, value in {**SHIPPED, **overridden}.items()}
    del same["plugin__path"], same["bootstrap__servers"]
    async with StandaloneWorker(RELEASE, broker, folder, *files, **same) as java:
        await until_lines(pipeline.out, "one", "two", "three", "four")
        await java.stop()
    assert pipeline.committed == {key: b'{"position":19}'}
    schema = '{"schema":{"type":"string","optional":false},"payload":"%s"}'
    lines = [schema % line for line in ("one", "two", "three", "four")]
    assert await values_in(broker, pipeline.topic) == lines


@SHARED
async def test_offsets_of_a_sink_are_read_altered_and_reset(
    broker: Broker, pipeline: Pipeline
) -> None:
    """The sink's offsets are read, altered and reset in the group `connect-NAME`."""
    name, group = pipeline.names[1], f"connect-{pipeline.names[1]}"
    offsets = f"/connectors/{name}/offsets"
    place = {"kafka_topic": pipeline.topic, "kafka_partition": 0}
    pipeline.write("one\ntwo\n")
    async with (
        groups_of(broker.bootstrap) as groups,
        running(broker, pipeline, pipeline.source(), pipeline.sink()) as (_, client),
    ):
        assert (await client.get("/compat/3.9")).json()["kafka_cluster_id"] == CLUSTER_ID
        await until_lines(pipeline.out, "one", "two")

        async def shows_offset() -> Any:
            answer = (await client.get(f"/compat/3.9{offsets}")).json()
            return answer == {"offsets": [{"partition": place, "offset": {"kafka_offset": 2}}]}

        await until(shows_offset)
        assert (await client.put(f"/connectors/{name}/stop")).is_success
        change = {"offsets": [{"partition": place, "offset": {"kafka_offset": 1}}]}

        async def altered() -> bool:  # its member has to leave the group first
            return (await client.patch(offsets, json=change)).is_success

        await until(altered)
        assert await groups.committed(group) == {(pipeline.topic, 0): 1}
        assert (await client.put(f"/connectors/{name}/resume")).is_success
        await until_lines(pipeline.out, "one", "two", "two")
        assert (await client.put(f"/connectors/{name}/stop")).is_success

        async def reset() -> bool:
            return (await client.delete(offsets)).is_success

        await until(reset)
        assert await groups.committed(group) == {}


@SHARED
async def test_topics_of_sources_and_dead_letters_are_created(
    broker: Broker, pipeline: Pipeline
) -> None:
    """Topics are created: a source's by `topic.creation.*`, and one for dead letters."""
    dead, own = unused_name(), unused_name()
    creation = {
        "topic__creation__default__partitions": "3",
        "topic__creation__default__replication__factor": "1",
        "offsets__storage__topic": own,
    }
    tolerant = {
        "value__converter": JSON,
        "errors__tolerance": "all",
        "errors__deadletterqueue__topic__name": dead,
        "errors__deadletterqueue__topic__replication__factor": "1",
    }
    pipeline.write("no JSON\n")
    files = pipeline.source(**creation), pipeline.sink(**tolerant)
    async with running(broker, pipeline, *files) as (_, client):
        await until_values(broker, dead, ["no JSON"])
        await until_position(client, pipeline.names[0], 8)
    async with reading(broker.bootstrap) as reader:
        topics = await reader.topics()
    assert (topics[pipeline.topic], topics[dead]) == (3, 1)
    assert not {own, "connect-offsets", "connect-configs", "connect-status"} & {*topics}


@SHARED
async def test_settings_of_the_connector_win_over_the_workers(
    broker: Broker, pipeline: Pipeline
) -> None:
    """The connector's client settings win over the worker's (KIP-458)."""
    group = unused_name()
    pipeline.write("one\n")
    files = (
        pipeline.source(producer__override__max__request__size="8"),
        pipeline.sink(consumer__override__group__id=group),
    )
    settings = {"producer__max__request__size": "1"}
    async with (
        running(broker, pipeline, *files, **settings) as (_, client),
        groups_of(broker.bootstrap) as groups,
    ):
        await until_lines(pipeline.out, "one")

        async def committed() -> bool:
            return await groups.committed(group) == {(pipeline.topic, 0): 1}

        await until(committed)
        pipeline.write("a longer line\n")
        assert "larger than 8" in await until_failed(client, pipeline.names[0])


@SHARED
@pytest.mark.prove
async def test_a_killed_worker_loses_no_line(broker: Broker, pipeline: Pipeline) -> None:
    """After each kill the next worker continues from the file and the group."""
    lines = [str(number) for number in range(20_000)]
    pipeline.write("\n".join(lines) + "\n")
    soon = {
        "consumer.session.timeout.ms": "6000",  # a killed member holds its partitions for this time
        "consumer.max.poll.records": "100",
    }
    files = pipeline.source(batch__size="50"), pipeline.sink()
    for _ in range(2):
        before = content(pipeline.offsets)
        async with running(broker, pipeline, *files, **soon) as (worker, _):
            await until_changed(pipeline.offsets, before)
            await worker.end(signal.SIGKILL)
    async with running(broker, pipeline, *files, **soon):
        await until_last_line(pipeline.out, lines[-1])
    assert [*dict.fromkeys(pipeline.out.read_text().splitlines())] == lines


def content(file: Path) -> bytes:
    """Bytes of a file; none if it does not exist."""
    return file.read_bytes() if file.exists() else b""


async def until_changed(file: Path, before: bytes) -> None:
    """Wait until a file's content differs from an earlier one."""

    async def changed() -> bool:
        return content(file) != before

    await until(changed)


@pytest.mark.prove
async def test_lines_of_an_outage_arrive_once(pipeline: Pipeline, tmp_path: Path) -> None:
    """Lines that are read during a broker outage reach topic and sink once."""
    async with up(RELEASE, tmp_path / "own") as broker:
        pipeline.write("one\n")
        async with running(broker, pipeline, pipeline.source(), pipeline.sink()) as (_, client):
            await until_last_line(pipeline.out, "one")
            await broker.stop()
            pipeline.write("two\n")
            await broker.start()
            await until_last_line(pipeline.out, "two")
            await until_position(client, pipeline.names[0], 8)
        assert await values_in(broker, pipeline.topic) == ["one", "two"]


class TestNoBroker:
    """A worker without brokers ends, and has created nothing."""

    async def test_the_exit_code_is_javas(self, pipeline: Pipeline) -> None:
        """Both workers exit with code 2; ours names the unreachable address in one sentence."""
        (port,) = free_ports(1)
        nowhere = f"127.0.0.1:{port}"
        impatient = {"default__api__timeout__ms": 2_000, "request__timeout__ms": 1_000}
        settings = {"offset__storage__file__filename": pipeline.offsets, **impatient}
        broker = GivenBroker(nowhere, RELEASE, pipeline.folder)
        java = StandaloneWorker(RELEASE, broker, pipeline.folder, **settings)
        assert await java.exit_code() == 2, java.printed
        await java.rest.aclose()

        ours = {"bootstrap.servers": nowhere, "reader.admin.patience.ms": "500"}
        result = await asyncio.to_thread(ended_worker, pipeline.folder, settings=ours)
        assert refusal(result) == (
            f"no broker listens at {nowhere} (connection refused): check address and broker"
        )
        assert not pipeline.offsets.exists()
