"""Path of a running source's records to the log: Kafka's `AbstractWorkerSourceTaskTest`.

docs/kafka-unit-tests.md says which test is which.
"""

from typing import Any, cast

import pytest

from controlplane.connect import RecordHeader
from controlplane.connect.data import STRING
from controlplane.connect.transforms import Transformation
from controlplane.core.commands import CreateConnector
from controlplane.logs.kafka.admin.client_topics import ClientTopics
from controlplane.logs.log import LogNotUsable, LogUnavailable
from controlplane.worker.data_topics.client_settings import ProducerSettings
from controlplane.worker.data_topics.clients import ProducerFailure, ProducerRecord
from controlplane.worker.data_topics.kafka_producer import RecordPlacer
from tests.worker.faulty_log import FaultyLog
from tests.worker.scripted_source import ScriptedSource, row, script, scripted
from tests.worker.worker_fixture import (
    entries_in,
    offsets,
    running,
    task_trace,
    until,
    until_state,
    until_values,
    values_in,
)

JSON = "org.apache.kafka.connect.json.JsonConverter"
COMMITTED = "{'p': 1}"
AWAY = LogUnavailable("away")


async def test_keys_and_values_are_converted() -> None:
    """Keys and values each have a converter with its own settings."""
    script.polls.append([row(1, key={"id": 7}, value={"name": "Ada"})])
    config = scripted(key_converter=JSON, value_converter=JSON)
    config |= {f"{role}.converter.schemas.enable": "false" for role in ("key", "value")}
    async with running(ScriptedSource) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until_values(worker.plane.log, "t", [b'{"name":"Ada"}'])
        (entry,) = await entries_in(worker.plane.log, "t")
    assert entry.key == b'{"id":7}'


async def test_the_time_of_a_record_is_kept() -> None:
    """A record without one, or with -1, gets the time of its sending."""
    script.polls.append([row(1, timestamp=1_234), row(2, timestamp=-1), row(3)])
    async with running(ScriptedSource) as worker:
        before = worker.plane.now_ms()
        await worker.plane.execute(CreateConnector("s", scripted()))
        await until_values(worker.plane.log, "t", [b"v1", b"v2", b"v3"])
        first, second, third = [
            entry.timestamp for entry in await entries_in(worker.plane.log, "t")
        ]
    assert first == 1_234
    assert before <= second <= third


async def test_a_time_before_1970_fails_the_task() -> None:
    """The task sends only the records before it."""
    script.polls.append([row(1), row(2, timestamp=-3)])
    async with running(ScriptedSource) as worker:
        await worker.plane.execute(CreateConnector("s", scripted()))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "Invalid timestamp: -3" in task_trace(worker, "s")
        assert await values_in(worker.plane.log, "t") == [b"v1"]
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": 1}})


async def test_headers_are_converted() -> None:
    """Headers keep their order; a name may repeat."""
    headers = (RecordHeader("a", "x", STRING), RecordHeader("n", 7), RecordHeader("a", "y"))
    script.polls.append([row(1, headers=headers)])
    async with running(ScriptedSource) as worker:
        await worker.plane.execute(CreateConnector("s", scripted()))
        await until_values(worker.plane.log, "t", [b"v1"])
        (entry,) = await entries_in(worker.plane.log, "t")
    assert entry.headers == (("a", b"x"), ("n", b"7"), ("a", b"y"))


async def test_an_existing_topic_is_not_created() -> None:
    """The topic keeps its number of partitions."""
    log = FaultyLog()
    await log.create_topic("t", 3)
    script.polls.append([row(1, kafka_partition=2), row(2, kafka_partition=0)])
    async with running(ScriptedSource, log=log) as worker:
        await worker.plane.execute(CreateConnector("s", scripted()))
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": 2}})
        assert [entry.partition for entry in await entries_in(log, "t")] == [0, 2]
    assert log.created.count("t") == 1


class TwoPartitions:
    """Stand-in for `ClientTopics`: brokers with topics of two partitions."""

    async def partitions(self, topic: str, *, auto_create: bool) -> int:
        """Return the number of partitions of a topic, whose name a request must hold."""
        del auto_create
        topic.encode()
        return 2


async def test_a_topic_that_no_request_can_hold_is_refused() -> None:
    """On brokers, only the record with this topic is refused; other records are placed."""
    topics = cast(ClientTopics, TwoPartitions())
    placer = RecordPlacer(topics, ProducerSettings(), lambda: 1)
    with pytest.raises(ProducerFailure, match="has a name that no topic can have"):
        await placer.placed(ProducerRecord("\ud800", None, b"v"))
    assert (await placer.placed(ProducerRecord("t", None, b"v", 1))).partition == 1


@pytest.mark.parametrize("failing", ["topic_failures", "creation_failures"])
async def test_records_wait_for_a_topic_that_cannot_be_created_yet(failing: str) -> None:
    """The records wait in order; those of an existing topic are not sent twice."""
    log = FaultyLog()
    await log.create_topic("t", 1)
    async with running(ScriptedSource, log=log) as worker:
        await worker.plane.execute(CreateConnector("s", scripted()))
        await until_state(worker, "s", "RUNNING", "RUNNING")
        getattr(log, failing).extend([AWAY, AWAY])
        script.polls.append([row(1), row(2), row(3, topic="other")])
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": 3}})
        assert await values_in(log, "t") == [b"v1", b"v2"]
        assert await values_in(log, "other") == [b"v3"]
        assert not getattr(log, failing)
    assert log.created.count("other") == 1


@pytest.mark.parametrize("failing", ["topic_failures", "creation_failures"])
async def test_a_topic_that_can_never_be_created_fails_the_task(failing: str) -> None:
    """The task is FAILED with the log's reason; no offset of its records is committed."""
    log = FaultyLog()
    async with running(ScriptedSource, log=log) as worker:
        await worker.plane.execute(CreateConnector("s", scripted()))
        await until_state(worker, "s", "RUNNING", "RUNNING")
        getattr(log, failing).extend([LogNotUsable("unauthorized")] * 5)
        script.polls.append([row(1), row(2)])
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "unauthorized" in task_trace(worker, "s")
        assert offsets(worker, "s") == {}


async def test_a_topic_that_another_task_creates_meanwhile_is_used() -> None:
    """A topic that appears after the start of the task is used as it is."""
    log = FaultyLog()
    async with running(ScriptedSource, log=log) as worker:
        await worker.plane.execute(CreateConnector("s", scripted()))
        await until_state(worker, "s", "RUNNING", "RUNNING")
        await log.topics()
        await log.create_topic("t", 2)
        script.polls.append([row(1, kafka_partition=1)])
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": 1}})
        assert (await log.topics())["t"] == 2


async def test_a_missing_topic_is_created_once() -> None:
    """The first record sent to the topic creates it."""
    log = FaultyLog()
    script.polls.extend([[row(1), row(2)], [row(3)]])
    async with running(ScriptedSource, log=log) as worker:
        await worker.plane.execute(CreateConnector("s", scripted()))
        await until_values(log, "t", [b"v1", b"v2", b"v3"])
    assert log.created.count("t") == 1


class CountingFilter(Transformation):
    """Drops the first two records, and counts its calls."""

    def apply(self, record: Any) -> Any:
        """Note the value; drop `v1` and `v2`."""
        filter_inputs.append(record.value)
        return None if record.value in {"v1", "v2"} else record


filter_inputs: list[str] = []


async def test_a_retry_transforms_no_record_twice() -> None:
    """A retry only sends the record again; in Kafka it also transforms the record again.

    In both, a record that was filtered out is not filtered again.
    """
    filter_inputs.clear()
    log = FaultyLog()
    log.failures["t"] = [AWAY, AWAY]
    script.polls.append([row(1), row(2), row(3)])
    config = scripted(transforms="f")
    config |= {"transforms.f.type": f"{CountingFilter.__module__}.CountingFilter"}
    async with running(ScriptedSource, log=log, others=[CountingFilter]) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until_values(log, "t", [b"v3"])
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": 3}})
        await until(lambda: len(script.acknowledged) == 3)
    assert filter_inputs == ["v1", "v2", "v3"]
    filtered = [value for value, metadata in script.acknowledged if metadata is None]
    assert filtered == ["v1", "v2"]
