"""Offsets of sources on the cluster of their producer, which has other brokers than the worker."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from controlplane.connect import Source, key
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector, DeleteConnector
from controlplane.core.plan import Draft
from controlplane.core.state import Topics
from controlplane.logs.kafka.appends.fenced_batches import FencedBatches
from controlplane.logs.kafka.appends.transactions import Transactions
from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.limits import ReadLimits, WriteLimits
from controlplane.logs.kafka.reads.read_back import ReadBackReader
from controlplane.logs.log import Fenced, Record
from controlplane.settings.security import KafkaSecurity
from controlplane.worker import factory
from controlplane.worker.data_topics.kafka_offsets import BrokerOffsetWriter, ClaimedOffsetWriter
from tests.conftest import PROVE, sampled, seeded
from tests.kafka.broker_worker import worker_on
from tests.kafka.conftest import NEWEST, RELEASES, unused_name, up
from tests.kafka.own_service import serving_own
from tests.kafka.producer import create_topic, reading
from tests.kafka.real_kafka import Broker
from tests.kafka.test_worker_kills import generator, orders_in
from tests.kafka.worker_service import (
    connectors_file,
    create,
    records_in,
    starts_of_first_task,
    task_states,
    until,
    until_failed,
    until_running,
)
from tests.worker.numbered_records import CountingSource
from tests.worker.worker_fixture import config_of, task_trace, until_state
from tests.worker.worker_fixture import until as until_true

pytestmark = [pytest.mark.java, pytest.mark.broker, NEWEST]

KILLS, RATE = (3, 100) if PROVE else (2, 40)
"""Lives of the process; orders per second and task in the tests about fencing."""
ORDERS, OUTAGE_RATE = ("300", 1_000) if PROVE else ("60", 15)
"""Orders of each task, and their number per second: the outage comes before the last one."""
FILES = "org.apache.kafka.common.config.provider.FileConfigProvider"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def far(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Broker]:
    """Second cluster. Tests that stop it start it again."""
    async with up(RELEASES[0], tmp_path_factory.mktemp("far")) as broker:
        yield broker


def on(far: Broker, own_topic: str | None) -> dict[str, str]:
    """Settings of a source whose producer has these brokers, perhaps with a topic of its own."""
    overrides = {"producer.override.bootstrap.servers": far.bootstrap}
    return overrides | ({} if own_topic is None else {"offsets.storage.topic": own_topic})


async def stored(broker: Broker, topic: str, connector: str) -> dict[str, Any]:
    """Last committed offset of each partition of a connector in a topic; None: removed."""
    values = {}
    for raw_key, value in await records_in(broker, topic):
        name, partition = json.loads(raw_key or b"")
        if name == connector:
            values[json.dumps(partition)] = None if value is None else json.loads(value)
    return values


async def shown_offsets(client: httpx.AsyncClient, name: str) -> list[Any]:
    """Partitions and offsets that the REST API shows, sorted."""
    answer = await client.get(f"/connectors/{name}/offsets")
    assert answer.is_success, answer.text
    listed = answer.json()["offsets"]["source"]
    return sorted(((pair["partition"], pair["offset"]) for pair in listed), key=str)


async def stop(client: httpx.AsyncClient, name: str) -> None:
    """Stop a connector, and wait until it has no tasks."""
    assert (await client.put(f"/connectors/{name}/stop")).is_success

    async def stopped() -> bool:
        return await task_states(client, name) == ["STOPPED"]

    await until(stopped)


async def resume(client: httpx.AsyncClient, name: str) -> None:
    """Resume a connector, and wait until its tasks run."""
    assert (await client.put(f"/connectors/{name}/resume")).is_success
    await until_running(client, name)


# --- exactly once ---------------------------------------------------------------------------------


@pytest.mark.parametrize("has_own_topic", sampled([False, True], True))
async def test_killed_workers_double_no_record(
    broker: Broker, far: Broker, own_topics: Topics, tmp_path: Path, has_own_topic: bool
) -> None:
    """The far cluster has each record once, with its offset in the same transaction."""
    data, draw = unused_name(), seeded(f"kills with two clusters, {has_own_topic}")
    own_topic = f"{data}-offsets" if has_own_topic else None
    file = connectors_file(tmp_path, own_topics, exactly__once__source__support="enabled")
    for life in range(KILLS):
        async with serving_own(broker, file) as (service, client):
            if not life:
                await create(client, {"source": generator(data) | on(far, own_topic)})
            await until_running(client, "source")
            await asyncio.sleep(draw.uniform(0.2, 1.0))
            service.process.kill()
    async with serving_own(broker, file) as (_, client):
        await until_running(client, "source")
        await stop(client, "source")
        committed = {
            partition["task"]: offset["order"]
            for partition, offset in await shown_offsets(client, "source")
        }
    orders = await orders_in(far, data)
    assert sum(committed.values()) > 0
    assert {*orders.values()} == {1}
    assert {*orders} == {
        (task, number) for task, upto in committed.items() for number in range(upto)
    }
    offsets_topic = own_topic or own_topics.offsets
    far_offsets = await stored(far, offsets_topic, "source")
    assert far_offsets == {
        f'{{"task": {task}}}': {"order": upto} for task, upto in committed.items()
    }
    async with reading(broker.bootstrap) as reader:
        assert not {data, own_topic} & {*await reader.topics()}


async def test_a_process_that_hangs_is_fenced_there(
    broker: Broker, far: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """Another process runs the connector; tasks of the hung one write nothing later."""
    data = unused_name()
    file = connectors_file(tmp_path, own_topics, exactly__once__source__support="enabled")

    async def has_orders(least: int) -> bool:
        return len(await records_in(far, data)) >= least

    async with serving_own(broker, file) as (hanging, client):
        await create(client, {"source": generator(data, RATE) | on(far, None)})
        await until(lambda: has_orders(1))
        hanging.process.send_signal(signal.SIGSTOP)
        async with serving_own(broker, file) as (_, other):
            await until_running(other, "source")
            hanging.process.send_signal(signal.SIGCONT)
            least = len(await records_in(far, data)) + 2 * RATE
            await until(lambda: has_orders(least))
            counts = await orders_in(far, data)
    assert {*counts.values()} == {1}
    for task in (0, 1):
        numbers = {number for of_task, number in counts if of_task == task}
        assert numbers == {*range(len(numbers))}


async def test_a_start_ignores_an_old_copy(
    broker: Broker, far: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """Answers and tasks follow the far cluster, not older values in the worker's topic."""
    data = unused_name()
    config = {**generator(data), "count": "5", **on(far, None)}
    file = connectors_file(tmp_path, own_topics, exactly__once__source__support="enabled")

    async def all_there() -> bool:
        return len(await orders_in(far, data)) == 10

    async with serving_own(broker, file) as (_, client):
        await create(client, {"source": config})
        await until(all_there)
        await stop(client, "source")
        for task in (0, 1):
            offset_key = f'["source",{{"task":{task}}}]'.encode()
            await _append(broker, own_topics.offsets, offset_key, b'{"order":1}')
        only_here = b'["source",{"task":9}]'
        await _append(broker, own_topics.offsets, only_here, b'{"order":4}')
        expected = [({"task": 0}, {"order": 5}), ({"task": 1}, {"order": 5})]

        async def is_shown() -> bool:
            return await shown_offsets(client, "source") == [
                *expected,
                ({"task": 9}, {"order": 4}),
            ]

        await until(is_shown)
        await resume(client, "source")
        await create(client, {"source": config | {"count": "7"}})

        async def more_there() -> bool:
            return len(await orders_in(far, data)) == 14

        await until(more_there)
    assert {*(await orders_in(far, data)).values()} == {1}


async def _append(broker: Broker, topic: str, key_: bytes, value: bytes) -> None:
    """Append a record to each partition of a topic as a foreign writer does."""
    async with reading(broker.bootstrap) as reader:
        partitions = (await reader.topics())[topic]
    async with claimed_writer(broker, unused_name()) as writer:
        await writer.append(
            [Record(topic, number, 1_000, key_, value) for number in range(partitions)]
        )


@asynccontextmanager
async def claimed_writer(broker: Broker, transactional_id: str) -> AsyncIterator[Transactions]:
    """Producer that has claimed a transactional id; closed at the end."""
    limits, reading_limits = WriteLimits(), ReadLimits()
    cluster = Cluster(addresses(broker.bootstrap), KafkaSecurity(), reading_limits)
    batches = FencedBatches(cluster, limits)
    read_back = ReadBackReader(cluster, reading_limits)
    writer = Transactions(cluster, transactional_id, limits, batches, read_back)
    try:
        await writer.claim()
        yield writer
    finally:
        await writer.close()
        await cluster.close()


async def test_a_new_generation_fences_the_old_one_there(
    broker: Broker, far: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """A leftover producer of a task that no longer exists is fenced on the far cluster."""
    data, group = unused_name(), unused_name()
    await create_topic(far, data, 1, cleanup__policy="delete")
    config = generator(data, RATE) | on(far, None)
    file = connectors_file(
        tmp_path, own_topics, exactly__once__source__support="enabled", group__id=group
    )
    async with serving_own(broker, file) as (_, client):
        await create(client, {"source": config})
        async with claimed_writer(far, f"{group}-source-1") as zombie:
            await zombie.append([Record(data, 0, 1_000, None, b"first")])
            starts = await starts_of_first_task(broker, own_topics, "source")
            changed = config | {"tasks.max": "1"}
            assert (await client.put("/connectors/source/config", json=changed)).is_success

            # Until the first task has started again, its status is that of the old generation.
            async def restarted() -> bool:
                return await starts_of_first_task(broker, own_topics, "source") > starts

            await until(restarted)
            with pytest.raises(Fenced):
                await zombie.append([Record(data, 0, 1_000, None, b"late")])


# --- at least once --------------------------------------------------------------------------------


class ForgettingSource(Source):
    """Commits an offset, and removes it again with the next record."""

    config = (key("topic"),)

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield two records; the second one removes the offset of the first."""
        part = {"source": "forgetful"}
        yield task.record("1", part, {"at": 1})
        yield task.idle(0.3)
        yield task.record("2", part, None)
        while True:
            yield task.idle(0.05)


async def test_values_reach_the_copy_last_and_removals_first(
    broker: Broker, far: Broker, own_topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values go to the own topic first and to the copy last; removals go to the copy first."""
    writes: list[tuple[str, bytes | None]] = []

    def note_writes(kind: type[BrokerOffsetWriter | ClaimedOffsetWriter]) -> None:
        write: Any = kind.write_offsets

        async def noted(writer: object, offsets: Sequence[Draft]) -> None:
            await write(writer, offsets)
            writes.extend((draft.topic, draft.value) for draft in offsets)

        monkeypatch.setattr(kind, "write_offsets", noted)

    note_writes(BrokerOffsetWriter)
    note_writes(ClaimedOffsetWriter)
    name = unused_name()
    own_topic = f"{name}-offsets"
    config = config_of(ForgettingSource, topic=name) | on(far, own_topic)
    async with worker_on(broker, own_topics, ForgettingSource) as worker:
        await worker.plane.execute(CreateConnector(name, config))
        await until_true(lambda: len(writes) >= 4)
    copy, remote = own_topics.offsets, f"@{own_topic}"
    assert writes == [(remote, b'{"at":1}'), (copy, b'{"at":1}'), (copy, None), (remote, None)]
    assert await stored(far, own_topic, name) == {'{"source": "forgetful"}': None}
    assert await stored(broker, copy, name) == {'{"source": "forgetful"}': None}


async def test_a_restart_continues_at_least_once(
    broker: Broker, far: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """A restarted worker reads the own topic there; the copy alone would make it begin again."""
    data = unused_name()
    config = {**generator(data), "count": "5", **on(far, f"{data}-offsets")}
    file = connectors_file(tmp_path, own_topics, offset__flush__interval__ms=20)

    async def committed(count: int) -> None:
        async def reached() -> bool:
            values = (await stored(far, f"{data}-offsets", "source")).values()
            return [value["order"] for value in values] == [count, count]

        await until(reached)

    async with serving_own(broker, file) as (_, client):
        await create(client, {"source": config})
        await committed(5)
    for task in (0, 1):
        await _append(
            broker, own_topics.offsets, f'["source",{{"task":{task}}}]'.encode(), b'{"order":1}'
        )
    async with serving_own(broker, file) as (_, client):
        await create(client, {"source": config | {"count": "7"}})
        await committed(7)
    assert sorted((await orders_in(far, data)).values()) == [1] * 14


# --- GET, PATCH and DELETE ------------------------------------------------------------------------


@pytest.mark.parametrize("support", ["enabled", "disabled"])
async def test_offsets_are_altered_and_reset_there(
    broker: Broker, far: Broker, own_topics: Topics, tmp_path: Path, support: str
) -> None:
    """The answers and the tasks follow the far cluster; the worker's topic has the copy.

    Without exactly-once support, a config provider gives the address of the far cluster.
    """
    data = unused_name()
    own_topic = f"{data}-offsets"
    config = {**generator(data), "count": "3", **on(far, own_topic)}
    (tmp_path / "far").write_text(f"servers={far.bootstrap}\n", "utf-8")
    if support == "disabled":
        config["producer.override.bootstrap.servers"] = f"${{file:{tmp_path}/far:servers}}"
    file = connectors_file(
        tmp_path,
        own_topics,
        exactly__once__source__support=support,
        offset__flush__interval__ms=20,
        config__providers="file",
        config__providers__file__class=FILES,
    )
    path = "/connectors/source/offsets"
    async with serving_own(broker, file) as (_, client):
        await create(client, {"source": config})

        async def all_committed() -> bool:
            return await shown_offsets(client, "source") == [
                ({"task": 0}, {"order": 3}),
                ({"task": 1}, {"order": 3}),
            ]

        await until(all_committed)
        await stop(client, "source")
        changes = [
            {"partition": {"task": 0}, "offset": {"order": 2}},
            {"partition": {"task": 1}, "offset": None},
        ]
        answer = await client.patch(path, json={"offsets": changes})
        assert answer.is_success, answer.text
        assert await shown_offsets(client, "source") == [({"task": 0}, {"order": 2})]
        expected = {'{"task": 0}': {"order": 2}, '{"task": 1}': None}
        assert await stored(far, own_topic, "source") == expected
        assert await stored(broker, own_topics.offsets, "source") == expected
        await resume(client, "source")
        await until(all_committed)
        orders = await orders_in(far, data)
        assert orders == {(0, 0): 1, (0, 1): 1, (0, 2): 2, (1, 0): 2, (1, 1): 2, (1, 2): 2}
        await stop(client, "source")
        answer = await client.delete(path)
        assert answer.is_success, answer.text
        assert await shown_offsets(client, "source") == []
        gone = {'{"task": 0}': None, '{"task": 1}': None}
        assert await stored(far, own_topic, "source") == gone
        assert await stored(broker, own_topics.offsets, "source") == gone


async def test_initial_offsets_are_set_there(
    broker: Broker, far: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """A creation with offsets removes those of an earlier connector on both clusters."""
    data = unused_name()
    config = {**generator(data), "count": "3", **on(far, None)}
    file = connectors_file(tmp_path, own_topics, exactly__once__source__support="enabled")
    async with serving_own(broker, file) as (_, client):
        await create(client, {"source": config})

        async def all_there() -> bool:
            return len(await orders_in(far, data)) == 6

        await until(all_there)
        assert (await client.delete("/connectors/source")).is_success
        offsets = [{"partition": {"task": 1}, "offset": {"order": 2}}]
        body = {
            "name": "source",
            "config": config,
            "initial_state": "STOPPED",
            "initial_offsets": offsets,
        }
        answer = await client.post("/connectors", json=body)
        assert answer.is_success, answer.text
        assert await shown_offsets(client, "source") == [({"task": 1}, {"order": 2})]
        expected = {'{"task": 0}': None, '{"task": 1}': {"order": 2}}
        assert await stored(far, own_topics.offsets, "source") == expected
        assert await stored(broker, own_topics.offsets, "source") == expected


# --- the other cluster is down --------------------------------------------------------------------


async def test_a_cluster_that_is_down_at_the_start_fails_the_task(
    broker: Broker, far: Broker, own_topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task fails with the reason after a time-out; a deletion and other connectors go on."""
    monkeypatch.setattr(factory, "OFFSETS_PATIENCE_MS", 1_000)
    name, local = unused_name(), unused_name()
    config = config_of(CountingSource, topic=name) | on(far, f"{name}-offsets")
    await far.kill9()
    try:
        async with worker_on(broker, own_topics, CountingSource) as worker:
            await worker.plane.execute(CreateConnector(name, config))
            near = config_of(CountingSource, topic=local)
            await worker.plane.execute(CreateConnector("near", near))
            await until_state(worker, "near", "RUNNING", "RUNNING")
            await until_state(worker, name, "RUNNING", "FAILED")
            assert f"no broker listens at {far.bootstrap}" in task_trace(worker, name)
            await worker.plane.execute(DeleteConnector(name))
            await worker.removed(name)
    finally:
        await far.start()


@pytest.mark.prove
async def test_a_cluster_that_goes_down_later_refuses_offset_requests(
    broker: Broker, far: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """Requests about offsets are refused with the reason, and change nothing; tasks wait."""
    data = unused_name()
    config = generator(data, OUTAGE_RATE) | {"count": ORDERS} | on(far, f"{data}-offsets")
    file = connectors_file(tmp_path, own_topics, exactly__once__source__support="enabled")
    async with serving_own(broker, file) as (_, client):
        await create(client, {"source": config, "stopped": config | {"count": "2"}})
        await until(lambda: _has_offsets(client, "stopped"))
        await stop(client, "stopped")
        copies = await stored(broker, own_topics.offsets, "stopped")
        await far.kill9()
        try:
            path = "/connectors/stopped/offsets"
            down = f"no broker listens at {far.bootstrap}"
            answers = await asyncio.gather(
                client.get(path), client.delete(path), client.get("/connectors")
            )
            assert [answer.status_code for answer in answers] == [500, 500, 200]
            assert down in answers[0].json()["message"]
            assert down in answers[1].json()["message"]
            assert await stored(broker, own_topics.offsets, "stopped") == copies
            assert await task_states(client, "source") == ["RUNNING"] * 3
            assert (await client.post("/connectors/source/restart?includeTasks=true")).is_success
        finally:
            await far.start()

        async def all_there() -> bool:
            if "FAILED" in await task_states(client, "source"):
                trace = await until_failed(client, "source")
                assert down in trace
                await client.post("/connectors/source/restart?includeTasks=true&onlyFailed=true")
            orders = await orders_in(far, data)
            return all(orders[task, int(ORDERS) - 1] for task in (0, 1))

        await until(all_there)
        counts = await orders_in(far, data)
        # The stopped connector wrote the first two orders of each task, too.
        assert {count for (_, number), count in counts.items() if number > 1} == {1}
        assert (await client.delete("/connectors/stopped/offsets")).is_success
        assert await shown_offsets(client, "stopped") == []


async def _has_offsets(client: httpx.AsyncClient, name: str) -> bool:
    return len(await shown_offsets(client, name)) == 2
