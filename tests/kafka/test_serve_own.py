"""A control plane whose only storage is Kafka: commands, restarts, fencing, refusals."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from controlplane.controller.messages import FENCED
from controlplane.core import views
from controlplane.core.codec import decode_command
from controlplane.core.commands import (
    AlterOffsets,
    OffsetChange,
    PutConfig,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.records import CommandAccepted, CommandFinished, Target
from controlplane.core.state import Topics
from controlplane.event_loop import now_ms
from controlplane.plane import ControlPlane, Settings, Surroundings
from tests.cli.command_calls import refusal, shell
from tests.kafka.claimed_logs import opened
from tests.kafka.conftest import NEWEST, RELEASES, unused_name, up
from tests.kafka.consumers import groups_of, java_consumer
from tests.kafka.own_service import refused_own, serving_own, worker_file
from tests.kafka.producer import NewTopic, admin, read_entries, reading, writer
from tests.kafka.real_kafka import USERS, Broker, KafkaWorker, cluster_settings
from tests.kafka.test_command_line import login
from tests.kafka.worker_service import until
from tests.ports import free_ports

pytestmark = [pytest.mark.java, pytest.mark.broker]

SOURCE = {"connector.class": "FileStreamSource", "file": "in.txt", "topic": "lines"}
SINK = {"connector.class": "FileStreamSink", "file": "out.txt"}
PLACE = {"filename": "in.txt"}
READS_BEFORE = 1
"""Connections by which a creation reads a sink's group, before it writes anything."""

HOUR_MS = 3_600_000

AT_ONCE = 8
"""Commands under way when the process is killed."""


def offsets(position: int | None) -> dict[str, Any]:
    """Body that alters the offset of a source."""
    offset = None if position is None else {"position": position}
    return {"offsets": [{"partition": PLACE, "offset": offset}]}


async def ended(client: httpx.AsyncClient) -> bool:
    """True if each command has ended and none is half done."""
    commands = (await client.get("/commands")).json()["commands"]
    return all(command["outcome"] is not None for command in commands)


async def test_state_outlives_the_process(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """The next process has the state, which is in Kafka's topics alone."""
    file = worker_file(tmp_path, own_topics, config__storage__min__cleanable__dirty__ratio=0.1)
    async with serving_own(broker, file) as (service, client):
        created = await client.post("/connectors", json={"name": "a", "config": SOURCE})
        assert created.status_code == httpx.codes.CREATED, created.text
        assert (await client.put("/connectors/a/stop")).is_success
        assert (await client.patch("/connectors/a/offsets", json=offsets(7))).is_success
        assert (await client.put("/connectors/b/config", json=SOURCE)).is_success
        assert (await client.delete("/connectors/b")).is_success
        assert (await client.get("/")).json()["kafka_cluster_id"]
        before = [(await client.get(f"/connectors/a{end}")).json() for end in ("", "/offsets")]
        assert (await service.end(signal.SIGTERM))[0] == 0
    async with serving_own(broker, file) as (_, client):
        assert (await client.get("/connectors")).json() == ["a"]
        after = [(await client.get(f"/connectors/a{end}")).json() for end in ("", "/offsets")]
        assert after == before
    async with reading(broker.bootstrap) as reader:
        partition_counts = await reader.topics()
        sizes = [
            partition_counts[topic]
            for topic in (own_topics.config, own_topics.offsets, own_topics.commands)
        ]
        assert sizes == [1, 5, 1]
    async with admin(broker) as client:
        topic = ConfigResource(ConfigResourceType.TOPIC, own_topics.config)
        described = await client.describe_configs([topic])
        configs = {name: value for name, value, *_ in described[0].resources[0][4]}
    assert configs["cleanup.policy"] == "compact"
    assert configs["min.cleanable.dirty.ratio"] == "0.1"


async def test_a_second_process_fences_the_first(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """The fenced process answers with Connect's message, continues to read, and writes nothing."""
    file = worker_file(tmp_path, own_topics)
    async with serving_own(broker, file) as (_, first), serving_own(broker, file) as (_, second):
        body = {"name": "a", "config": SOURCE}
        fenced = await first.post("/compat/3.9/connectors", json=body)
        assert fenced.status_code == httpx.codes.INTERNAL_SERVER_ERROR
        assert fenced.json()["message"] == FENCED
        refused = await first.put("/connectors/a/config", json=SOURCE)
        assert "another writer has claimed" in refused.json()["message"]
        assert (await first.get("/health")).json()["status"] == "unhealthy"
        assert (await second.get("/connectors")).json() == []
        assert (await second.post("/connectors", json=body)).is_success

        async def follows() -> bool:
            answer = await first.get("/connectors")
            assert "commands are refused" in answer.headers["x-controlplane-notice"]
            return bool(answer.json() == ["a"])

        await until(follows)


@NEWEST
async def test_a_kill_loses_no_acknowledged_command(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """Acknowledged commands stay, and none is half done, after `kill -9` at any time."""
    file = worker_file(tmp_path, own_topics)
    acknowledged: set[str] = set()
    for life in range(3):
        async with serving_own(broker, file) as (service, client):
            assert await ended(client)
            listed = (await client.get("/connectors")).json()
            assert acknowledged <= {*listed}
            for name in listed:
                answer = (await client.get(f"/connectors/{name}/offsets")).json()
                assert answer["offsets"] == {"source": offsets(3)["offsets"]}

            async def create(name: str) -> None:
                initial = offsets(3)["offsets"]
                body = {"name": name, "config": SOURCE, "initial_offsets": initial}
                answer = await client.post("/connectors", json=body)
                assert answer.is_success, (answer.status_code, answer.text)
                acknowledged.add(name)

            names = (f"c{life}-{number}" for number in range(3 * AT_ONCE))
            tasks = [asyncio.create_task(create(name)) for name in names]
            await asyncio.wait(tasks[:AT_ONCE], return_when=asyncio.FIRST_COMPLETED)
            await service.end(signal.SIGKILL)
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert not [end for end in ends if isinstance(end, AssertionError)], ends
    assert acknowledged


class Forwarder:
    """Server that forwards connections to a broker, and at times accepts them without an answer."""

    def __init__(self, broker: Broker, forwarded: int) -> None:
        """`forwarded` is the number of connections that reach the broker; later ones are silent."""
        self.silent_to = asyncio.Event()
        """Set once a connection gets no answer."""
        self._broker = broker.bootstrap.split(":")
        self._forwarded: float = forwarded

    def forward_all(self) -> None:
        """Forward every connection from now on."""
        self._forwarded = float("inf")

    @asynccontextmanager
    async def address(self) -> AsyncIterator[str]:
        """Listen on a free port and yield the address."""
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            yield f"{host}:{port}"

    async def _serve(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        self._forwarded -= 1
        if self._forwarded < 0:
            self.silent_to.set()
            await reader.read()
            out.close()
            return
        host, port = self._broker
        from_broker, to_broker = await asyncio.open_connection(host, int(port))
        await asyncio.gather(_pump(reader, to_broker), _pump(from_broker, out))


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while octets := await source.read(1 << 16):
        sink.write(octets)
    sink.close()


async def test_a_kill_before_the_end_of_an_answered_command(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """The next process records the ends that the killed one had not written, as done."""
    file = worker_file(tmp_path, own_topics, controller__end__delay__ms=HOUR_MS)
    async with serving_own(broker, file) as (service, client):
        assert (await client.post("/connectors", json={"name": "a", "config": SOURCE})).is_success
        assert (await client.put("/connectors/a/stop")).is_success
        await service.end(signal.SIGKILL)
    async with reading(broker.bootstrap) as reader:
        entries = await read_entries(reader, [own_topics.commands])
        records = [decode_command(entry.key, entry.value) for entry in entries]
    kinds = [CommandAccepted, CommandFinished, CommandAccepted]  # the second end is not there
    assert [type(record) for record in records] == kinds
    async with serving_own(broker, file) as (_, client):
        commands = (await client.get("/commands")).json()["commands"]
        assert [(row["command"], row["outcome"]) for row in commands] == [
            ("create", "done"),
            ("stop", "done"),
        ]
        assert (await client.patch("/connectors/a/offsets", json=offsets(7))).is_success  # STOPPED


async def test_the_next_process_completes_a_killed_creation(
    broker: Broker, own_topics: Topics, topic: str, tmp_path: Path
) -> None:
    """A process is killed before a new sink's group has its offsets; the next process sets them."""
    file, group = worker_file(tmp_path, own_topics), unused_name()
    forwarder = Forwarder(broker, forwarded=READS_BEFORE)
    async with forwarder.address() as address:
        config = {
            **SINK,
            "topics": topic,
            "consumer.override.group.id": group,
            "admin.override.bootstrap.servers": address,
        }
        change = {"partition": {"kafka_topic": topic, "kafka_partition": 0}}
        initial = [{**change, "offset": {"kafka_offset": 5}}]
        async with groups_of(broker.bootstrap) as groups:
            async with serving_own(broker, file) as (service, client):
                body = {"name": "s", "config": config, "initial_offsets": initial}
                creation = asyncio.create_task(client.post("/connectors", json=body))
                await forwarder.silent_to.wait()
                await service.end(signal.SIGKILL)
                with pytest.raises(httpx.TransportError):
                    await creation
            assert await groups.committed(group) == {}
            forwarder.forward_all()
            async with serving_own(broker, file) as (_, client):
                assert await ended(client)
                assert (await client.get("/connectors")).json() == ["s"]
                answer = (await client.get("/connectors/s/offsets")).json()
                assert answer["offsets"] == {"sink": initial}
            assert await groups.committed(group) == {(topic, 0): 5}


async def test_a_kill_of_the_broker_leaves_no_command_half_done(
    own_topics: Topics, tmp_path: Path
) -> None:
    """A command during an outage is completed after it, or has failed; the service continues."""
    async with up(RELEASES[-1], tmp_path) as broker:
        file = worker_file(tmp_path, own_topics)
        async with serving_own(broker, file) as (_, client):
            body = {"name": "a", "config": SOURCE, "initial_offsets": offsets(3)["offsets"]}
            await broker.hang()
            creation = asyncio.create_task(client.post("/connectors", json=body))
            await broker.kill9()
            await broker.start()
            answer = await creation

            async def writable() -> bool:
                health = (await client.get("/health")).json()
                return bool(health["status"] == "healthy") and await ended(client)

            await until(writable)
            listed = (await client.get("/connectors")).json()
            assert listed == (["a"] if answer.is_success else [])
            if listed:
                shown = (await client.get("/connectors/a/offsets")).json()
                assert shown["offsets"] == {"source": offsets(3)["offsets"]}
            assert (await client.put("/connectors/b/config", json=SOURCE)).is_success


async def test_a_connect_cluster_is_left_alone(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """Topics of a Connect cluster, running or not, are refused and stay unchanged."""
    worker = KafkaWorker(
        broker.release,
        broker,
        **cluster_settings(own_topics),
    )
    file = worker_file(tmp_path, own_topics)
    async with reading(broker.bootstrap, isolation="read_uncommitted") as reader:
        async with worker, groups_of(broker.bootstrap) as groups:

            async def joined() -> bool:
                return bool((await groups.members(own_topics.config)).hosts)

            await until(joined)  # a worker answers before it joins
            sentence = refusal(await refused_own(broker, file))
            assert f"group {own_topics.config} has 1 member of the protocol connect, on" in sentence
            created = await worker.rest.post("/connectors", json={"name": "a", "config": SOURCE})
            assert created.is_success
            await worker.stop()
        written = await reader.ends([own_topics.config])
        sentence = refusal(await refused_own(broker, file))
        assert "another Connect cluster or an interrupted copy wrote these records" in sentence
        assert own_topics.commands not in await reader.topics()
        assert await reader.ends([own_topics.config]) == written


@NEWEST
async def test_topics_that_a_worker_would_refuse_are_refused(
    broker: Broker, own_topics: Topics, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Topics that a worker would refuse are refused before the log is claimed."""
    file = worker_file(tmp_path, own_topics)
    split, deleting = await new_topic(2), await new_topic(1, cleanup__policy="delete")
    for wrong, sentence in (
        (("--config-topic", split), f"topic {split} has 2 partitions and must have one"),
        (("--status-topic", deleting), f"topic {deleting} has cleanup.policy=delete"),
        (("--override", "config.storage.replication.factor=3"), "too few brokers"),
        (("--override", "config.storage.no.such=1"), "cannot be created"),
    ):
        result = await refused_own(broker, file, *wrong)
        assert result.code == 2
        assert sentence in result.err.strip().splitlines()[-1], result


async def test_records_of_another_program_are_read(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """A record of another program is read like any other, and the next command uses it."""
    file = worker_file(tmp_path, own_topics)
    async with serving_own(broker, file) as (_, client):
        body = {"name": "a", "config": SOURCE}
        assert (await client.post("/connectors", json=body)).is_success
        async with writer(broker) as out:
            await out.put(own_topics.config, 0, b"connector-a", None)

        async def gone() -> bool:
            return bool((await client.get("/connectors")).json() == [])

        await until(gone)
        assert (await client.put("/connectors/a/stop")).status_code == httpx.codes.NOT_FOUND


async def test_missing_broker_and_access_give_one_sentence(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """A stopped broker, a user without rights, and a wrong password give one sentence each."""
    file = worker_file(tmp_path, own_topics)
    (nowhere,) = free_ports(1)
    quick = ("--port", "0", "--override", "reader.connect.timeout.ms=1000")
    arguments = (f"kafka://127.0.0.1:{nowhere}", "--own", "--worker", str(file), *quick)
    result = await asyncio.to_thread(shell, "serve", *arguments)
    assert f"127.0.0.1:{nowhere}" in refusal(result)
    for line in login("bob"):
        file.write_text(f"{file.read_text('utf-8')}{line}\n", "utf-8")
    own = ("--worker", str(file), "--port", "0")
    where = f"kafka://{broker.address('SASL_PLAINTEXT')}"
    result = await asyncio.to_thread(shell, "serve", where, "--own", *own)
    assert result.code == 2
    assert f"allow this user DESCRIBE on group {own_topics.config}" in result.err.splitlines()[-1]
    file.write_text(file.read_text("utf-8").replace(USERS["bob"], "other-secret"), "utf-8")
    result = await asyncio.to_thread(shell, "serve", where, "--own", *own)
    assert "refuses the name or the password" in result.err.splitlines()[-1]
    assert "other-secret" not in result.err
    async with reading(broker.bootstrap) as reader:
        assert not {own_topics.config, own_topics.commands} & {*await reader.topics()}


def skewed(by_ms: int) -> int:
    """Time of a wrong clock."""
    return now_ms() + by_ms


async def test_a_wrong_clock_changes_no_outcome(broker: Broker, own_topics: Topics) -> None:
    """A wrong clock that later goes back changes no outcome, no order and no fencing."""
    settings = Settings(topics=own_topics)
    for number, skew_ms in enumerate((HOUR_MS, -HOUR_MS), 1):
        around = Surroundings(now_ms=partial(skewed, skew_ms))
        async with (
            opened(broker.bootstrap, transactional_id=own_topics.config) as log,
            ControlPlane.open(log, settings, around) as plane,
        ):
            await plane.execute(PutConfig("a", {**SOURCE, "topic": f"t{number}"}))
            await plane.execute(StopConnector("a"))
            await plane.execute(AlterOffsets("a", (OffsetChange(PLACE, {"position": number}),)))
            await plane.execute(ResumeConnector("a"))
            state = plane.state
            assert state.config.connectors["a"]["topic"] == f"t{number}"
            assert state.config.targets["a"] is Target.STARTED
            shown = [view.offset for view in views.source_offsets(state, "a")]
            assert shown == [{"position": number}]


@pytest.mark.parametrize("broker", RELEASES[-1:], indirect=True)
async def test_a_group_of_the_new_protocol_is_refused(
    broker: Broker, own_topics: Topics, topic: str, tmp_path: Path
) -> None:
    """Members of a group of KIP-848 are seen: the service refuses the group's name."""
    file, group = worker_file(tmp_path, own_topics), own_topics.config
    consumer = java_consumer(broker, topic, group, group__protocol="consumer")
    consumer.start()
    try:
        async with groups_of(broker.bootstrap) as groups:

            async def joined() -> bool:
                return bool((await groups.members(group)).hosts)

            await until(joined)
        sentence = refusal(await refused_own(broker, file))
    finally:
        await consumer.end()
    assert f"group {group} has 1 member of the protocol consumer, on 127.0.0.1" in sentence
    async with reading(broker.bootstrap) as reader:
        assert not {own_topics.config, own_topics.commands} & {*await reader.topics()}
    async with serving_own(broker, file) as (_, client):
        assert (await client.get("/connectors")).json() == []
