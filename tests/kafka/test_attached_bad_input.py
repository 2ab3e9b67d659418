"""Attached services and clusters that refuse, hide or hang: one clear sentence each."""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from controlplane.attached.connect_client import WorkerInfo
from controlplane.attached.group_check import check_group
from controlplane.attached.settings import ConnectSettings
from controlplane.core.state import Topics
from controlplane.event_loop import now_ms
from controlplane.logs.kafka.admin.consumer_groups import GroupAdmin, GroupWorker
from controlplane.logs.log import LogError, LogNotUsable
from tests.cli.command_calls import call, shell
from tests.kafka.attached_cluster import BrokerLogin, attached_to, ended, login_of
from tests.kafka.certificates import Certificates
from tests.kafka.conftest import up
from tests.kafka.consumers import POLL_S, consuming, groups_of, join_half
from tests.kafka.producer import create_topic, reading, writer
from tests.kafka.real_kafka import Broker, KafkaWorker, cluster_settings
from tests.kafka.test_consumer_groups import BOB
from tests.kafka.test_verify_against import request_until_done, until
from tests.patience import PATIENCE_S
from tests.ports import free_ports

pytestmark = [pytest.mark.java, pytest.mark.broker]

RELEASE = "3.9.1"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
HOUR_MS = 3_600_000

RunningPair = tuple[Broker, KafkaWorker]

BRIEF = ConnectSettings(patience_ms=1_000, answer_timeout_ms=1_000, read_on_ms=100, records_ms=100)
"""Limits that an outage reaches soon."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[RunningPair]:
    """Broker with logins, and a worker with a stopped sink."""
    directory = tmp_path_factory.mktemp("kafka")
    async with (
        up(RELEASE, directory, listeners=("SASL_PLAINTEXT",)) as broker,
        KafkaWorker(RELEASE, broker) as worker,
    ):
        config = {"connector.class": SINK, "topics": "lines", "file": str(directory / "out")}
        await request_until_done(worker, "PUT", "/connectors/archive/config", config)
        await until(worker, "/connectors/archive/status", lambda status: bool(status["tasks"]))
        await request_until_done(worker, "PUT", "/connectors/archive/stop")
        await until(worker, "/connectors/archive/status", lambda status: not status["tasks"])
        yield broker, worker


@pytest.mark.parametrize(
    ("user", "password", "sentence"),
    [
        ("bob", None, "topic connect-configs may not be read: allow this user READ and DESCRIBE"),
        ("bob", "wrong", "refuses the name or the password"),
    ],
)
async def test_users_without_rights_are_refused(
    cluster: RunningPair, user: str, password: str | None, sentence: str
) -> None:
    """The service does not start for a user without rights, or with a wrong password."""
    broker, worker = cluster
    login: BrokerLogin = login_of(broker, user, password)
    with pytest.raises(LogError, match=sentence):
        async with attached_to(broker, [worker], login=login):
            raise AssertionError("attached without rights")


def test_serve_without_a_worker_does_not_start() -> None:
    """`serve` without a worker prints one sentence and does not start."""
    worker, broker = free_ports(2)
    words = ("serve", f"kafka://127.0.0.1:{broker}", "--port", "0")
    brief = ("--override", "connect.patience.ms=100")
    result = call(*words, "--connect-url", f"http://127.0.0.1:{worker}", *brief)
    assert result.code == 2, result
    assert "No worker answers: " in result.err
    assert "check --connect-url" in result.err


async def test_serve_without_a_broker_does_not_start(cluster: RunningPair) -> None:
    """The service does not start if workers answer and the broker does not."""
    (port,) = free_ports(1)
    with pytest.raises(LogError, match=f"127.0.0.1:{port}"):
        async with attached_to(cluster[0], [cluster[1]], login=(f"kafka://127.0.0.1:{port}", {})):
            raise AssertionError("attached without a broker")


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("missing-configs", None, "topic missing-configs does not exist"),
        ("deleted", {"cleanup__policy": "delete"}, "topic deleted has cleanup.policy=delete"),
    ],
)
async def test_topics_that_no_worker_would_use_are_refused(
    cluster: RunningPair, name: str, settings: dict[str, Any] | None, sentence: str
) -> None:
    """The service does not start on topics that no worker of the cluster would use."""
    broker, worker = cluster
    if settings is not None:
        await create_topic(broker, name, **settings)
    with pytest.raises(LogError, match=sentence):
        async with attached_to(broker, [worker], topics=Topics(config=name), limits=BRIEF):
            raise AssertionError("attached to such a topic")


async def test_a_split_copy_of_the_config_topic_is_refused(cluster: RunningPair) -> None:
    """The topic has the connectors of the workers, and is refused for its two partitions."""
    broker, worker = cluster
    await create_topic(broker, "split", partitions=2)
    async with reading(broker.bootstrap) as reader, writer(broker) as out:
        async for batch in reader.read([Topics().config]):
            for entry in batch.entries():
                await out.put("split", 0, entry.key, entry.value)
    sentence = f"topic split has 2 partitions, and workers of {RELEASE} use a config topic with one"
    with pytest.raises(LogNotUsable, match=sentence):
        async with attached_to(broker, [worker], topics=Topics(config="split"), limits=BRIEF):
            raise AssertionError("attached to a split topic")


async def test_a_foreign_cluster_is_refused(cluster: RunningPair) -> None:
    """The service refuses a worker of another Connect cluster, at the start and later."""
    broker, worker = cluster
    names = Topics("other-configs", "other-offsets", "other-status")
    other = KafkaWorker(RELEASE, broker, **cluster_settings(names))
    config = {"connector.class": SINK, "file": "x", "topics": "x", "tasks.max": "1"}
    wrong = r"has 1 connector \(only-there\), which the topic lacks; check --connect-url"
    async with attached_to(broker, [worker, other], limits=BRIEF) as rest, other:
        body = {"name": "only-there", "config": config}
        assert (await other.rest.post("/connectors", json=body)).status_code == httpx.codes.CREATED
        with pytest.raises(LogNotUsable, match=wrong):
            async with attached_to(broker, [other], limits=BRIEF):
                raise AssertionError("attached to another cluster")
        assert (await rest.get("/connectors")).json() == ["archive"]
        await worker.hang()
        read = await rest.put(f"/connector-plugins/{SINK}/config/validate", json=config)
        command = await rest.put("/connectors/misplaced/config", json=config)
        await worker.go_on()
        assert (await other.rest.get("/connectors")).json() == ["only-there"]
    assert (read.is_server_error, command.is_server_error) == (True, True)
    for answer in (read, command):
        assert re.search(f"{other.url} is a worker .* {wrong}", answer.json()["message"])
    async with attached_to(broker, [worker]) as rest:
        assert (await rest.put("/connectors/archive/stop")).is_success


async def test_the_topic_of_an_equal_cluster_is_refused(cluster: RunningPair) -> None:
    """A topic with the worker's connectors is refused if the worker's group has read more."""
    broker, worker = cluster
    async with httpx.AsyncClient(base_url=worker.url, timeout=PATIENCE_S) as foreign:
        config = (await foreign.get("/connectors/archive")).json()["config"]
    await create_topic(broker, "equal-configs")
    async with writer(broker) as out:
        key, value = b"connector-archive", json.dumps({"properties": config}).encode()
        await out.put("equal-configs", 0, key, value)
    async with groups_of(broker.bootstrap) as groups:
        notes: list[str] = []
        (member,) = await described(groups, "connect-cluster")
        infos = [WorkerInfo(worker.url, RELEASE, None)]
        for group_id in (None, "connect-cluster"):
            await check_group(groups, infos, "connect-configs", group_id, notes.append)
        with pytest.raises(LogNotUsable, match="of group connect-cluster instead of another:"):
            await check_group(groups, infos, "connect-configs", "another", notes.append)
        hidden = [WorkerInfo("http://behind-nat:8083", RELEASE, None)]
        await check_group(groups, hidden, "equal-configs", "another", notes.append)
    async with groups_of(broker.address("SASL_PLAINTEXT"), BOB) as groups:  # without rights
        assert await groups.connect_groups() == {}
        await check_group(groups, infos, "equal-configs", "another", notes.append)
    assert notes == []
    sentence = (
        f"its group connect-cluster has read a config topic up to offset {member.config_offset}, "
        "and this topic ends at 1; check --connect-url"
    )
    with pytest.raises(LogNotUsable, match=sentence):
        async with attached_to(broker, [worker], topics=Topics(config="equal-configs")):
            raise AssertionError("attached to another cluster")


async def test_a_wrong_group_id_is_refused(cluster: RunningPair, tmp_path: Path) -> None:
    """`serve` refuses a file with another `group.id`; it warns that it cannot check each worker."""
    broker, worker = cluster
    async with groups_of(broker.bootstrap) as groups:
        await described(groups, "connect-cluster")
    await join_half(broker, "half-joined")
    file = tmp_path / "worker.properties"
    file.write_text(re.sub("(?m)^group.id=.*", "group.id=another", worker.config.read_text()))
    hidden = worker.url.replace("127.0.0.1", "localhost")  # no worker advertises this URL
    words = ("serve", f"kafka://{broker.bootstrap}", "--port", "0", "--worker-properties", file)
    result = await asyncio.to_thread(shell, *words, "--connect-url", f"{hidden},{worker.url}")
    assert result.code == 2, result
    sentence = "is a worker of group connect-cluster instead of another: check --connect-url and"
    assert f"{worker.url} {sentence} group.id" in result.err.splitlines()[-1]
    (note,) = (line for line in result.err.splitlines() if "not checked" in line)
    assert note == (
        f"Warning: kafka://{broker.bootstrap}: the group.id of {hidden} is not checked, because "
        "these Connect groups rebalance or have no workers: half-joined. "
        "Start again later if the group.id may be wrong"
    )


async def described(groups: GroupAdmin, group: str) -> tuple[GroupWorker, ...]:
    """Workers of a group, once it does not rebalance."""
    async with asyncio.timeout(PATIENCE_S):
        while not (workers := (await groups.connect_groups())[group]):  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
    return workers


OFFSETS: tuple[tuple[str, int], ...] = (("lines", -1), ("lines", 999_999), ("missing", 0))


@pytest.mark.parametrize(("topic", "offset"), OFFSETS)
async def test_offsets_out_of_range_get_the_workers_answer(
    cluster: RunningPair, topic: str, offset: int
) -> None:
    """The worker judges offsets of a sink; the service passes its answer on word for word."""
    partition = {"kafka_topic": topic, "kafka_partition": 0}
    body = {"offsets": [{"partition": partition, "offset": {"kafka_offset": offset}}]}
    broker, worker = cluster
    path = "/connectors/archive/offsets"
    async with attached_to(broker, [worker]) as rest:
        ours = await rest.patch(path, json=body)
        async with httpx.AsyncClient(base_url=worker.url, timeout=PATIENCE_S) as foreign:
            theirs = await foreign.patch(path, json=body)
        row = await ended(rest)
    assert (ours.status_code, ours.json()) == (theirs.status_code, theirs.json())
    assert (row["outcome"] == "done") is ours.is_success, row
    assert row["compared"] == "as planned"


async def test_a_group_that_is_still_active_refuses_a_reset(cluster: RunningPair) -> None:
    """The worker fails to reset offsets while the sink's group has a member; it writes nothing."""
    broker, worker = cluster
    async with (
        attached_to(broker, [worker]) as rest,
        consuming(broker, "lines", "connect-archive"),
    ):
        answer = await rest.delete("/connectors/archive/offsets")
        row = await ended(rest)
    sentence = (
        "Failed to reset consumer group offsets for connector archive either because its tasks"
    )
    assert answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR
    assert answer.json()["message"].startswith(sentence)
    assert (row["outcome"], row["compared"], row["records"]) == ("failed", "as planned", [])
    assert row["reason"] == answer.json()["message"]


async def test_a_wrong_clock_changes_no_outcome(cluster: RunningPair, tmp_path: Path) -> None:
    """A wrong clock that later goes back changes no outcome and no order."""
    broker, worker = cluster
    trail = tmp_path / "trail.db"
    clocks = (lambda: now_ms() + HOUR_MS, lambda: now_ms() - HOUR_MS)
    for number, clock in enumerate(clocks, 1):
        async with attached_to(broker, [worker], trail=trail, clock=clock) as rest:
            assert (await rest.put("/connectors/archive/pause")).is_success
            assert (await ended(rest))["compared"] == "as planned"
            assert (await rest.put("/connectors/archive/stop")).is_success
            assert (await ended(rest))["compared"] == "as planned"
            rows = (await rest.get("/commands?connector=archive")).json()["commands"]
        sent = [row["command"] for row in rows if row["principal"] is not None]
        assert sent == ["pause", "stop"] * number


async def test_an_expired_certificate_prevents_requests(tmp_path: Path) -> None:
    """The service sends no request to a worker with an expired certificate."""
    identity = await asyncio.to_thread(Certificates(tmp_path).expired)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(identity)
    served = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
    async with served:
        url = f"https://127.0.0.1:{served.sockets[0].getsockname()[1]}"
        words = ("serve", "kafka://127.0.0.1:1", "--port", "0", "--connect-url", url)
        options = ("--connect-ca-file", identity, "--override", "connect.patience.ms=100")
        result = await asyncio.to_thread(shell, *words, *options)
    assert result.code == 2, result
    sentence = result.err.splitlines()[-1]
    assert (
        f"{url} does not answer (its certificate is refused: certificate has expired)" in sentence
    )
    assert "Traceback" not in result.err


async def test_the_broker_stops_during_a_command(cluster: RunningPair, tmp_path: Path) -> None:
    """A worker without its broker does not answer in time: the outcome is reported as unknown."""
    broker, worker = cluster
    async with attached_to(broker, [worker], trail=tmp_path / "trail.db", limits=BRIEF) as rest:
        await broker.kill9()
        answer = await rest.put("/connectors/archive/pause")
        await broker.start()
        row = await ended(rest)
    assert answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR
    assert "The request may still be done; check before you repeat it" in answer.json()["message"]
    assert row["outcome"] == "unknown"
