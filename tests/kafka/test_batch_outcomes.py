"""Outcomes of batches without a certain answer: they are looked for, and written once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError
from aiokafka.producer.sender import SendProduceReqHandler
from aiokafka.protocol.produce import ProduceRequest

from controlplane.logs.kafka.appends.producer import SendFailed
from controlplane.logs.kafka.limits import WriteLimits
from controlplane.logs.kafka.log import KafkaLog
from controlplane.logs.kafka.reads.read_back import ReadBackReader
from controlplane.logs.log import Fenced, LogNotUsable, LogUnavailable
from tests.kafka.claimed_logs import ID, Send, interrupt, keys, opened, put
from tests.kafka.producer import settled, writer
from tests.kafka.real_kafka import Broker

pytestmark = [pytest.mark.java, pytest.mark.broker]


@pytest.mark.parametrize("is_sent", [True, False])
async def test_a_batch_without_an_answer_is_written_once(
    log: KafkaLog,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    is_sent: bool,
) -> None:
    """A batch without an answer is looked for; it is written once, and its position returned."""
    epoch = await log.claim()
    await log.append([put(topic, "before")], epoch)

    async def lost(send: Send) -> list[SendFailed]:
        if is_sent:
            await send()
        return [SendFailed((topic, 0), KafkaConnectionError("the answer was lost"))]

    interrupt(monkeypatch, lost)
    written = await log.append([put(topic, "a"), put(topic, "b")], epoch)
    entries = [entry async for batch in log.read([topic]) for entry in batch.entries()]
    offsets = {entry.key: entry.offset for entry in entries}
    assert [position.offset for position in written] == [offsets[b"a"], offsets[b"b"]]
    await log.append([put(topic, "c")], epoch)
    assert await keys(log, topic) == ["a", "b", "before", "c"]


def lose_answer(
    monkeypatch: pytest.MonkeyPatch, then: Callable[[AIOKafkaClient], Awaitable[Any]]
) -> None:
    """Lose the answer to the next produce request; the producer sends it again after `then`."""
    original = AIOKafkaClient.send

    async def lossy(client: AIOKafkaClient, node: Any, request: Any, **options: Any) -> Any:
        answer = await original(client, node, request, **options)
        if isinstance(request, ProduceRequest):
            monkeypatch.setattr(AIOKafkaClient, "send", original)
            await then(client)
            raise KafkaConnectionError("the answer was lost")
        return answer

    monkeypatch.setattr(AIOKafkaClient, "send", lossy)


async def test_a_batch_resent_after_a_claim_is_found(
    log: KafkaLog, rival: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch was written before a claim, and resent after it: the refusal is not its outcome."""
    epoch = await log.claim()
    lose_answer(monkeypatch, lambda _: rival.claim())
    (written,) = await log.append([put(topic, "a", 1)], epoch)
    assert written.partition == 1
    with pytest.raises(Fenced, match=ID):
        await log.append([put(topic, "b", 1)], epoch)
    assert await keys(rival, topic) == ["a"]


async def test_a_refusal_of_a_resent_batch_is_not_its_outcome(
    log: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch was written, and is refused when it is resent: it is looked for."""
    epoch = await log.claim()

    async def refuse(_client: AIOKafkaClient) -> None:
        def answered(refused: SendProduceReqHandler, _response: Any) -> None:
            monkeypatch.undo()
            for batch in refused._batches.values():
                batch.failure(TopicAuthorizationFailedError(topic))

        monkeypatch.setattr(SendProduceReqHandler, "handle_response", answered)

    lose_answer(monkeypatch, refuse)
    await log.append([put(topic, "a")], epoch)
    assert await keys(log, topic) == ["a"]


async def test_a_batch_that_lost_its_leader_is_written_once(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch was written, and aiokafka gives it up because its partition has no leader now."""
    leader_of = ClusterMetadata.leader_for_partition

    async def lose_leader(client: AIOKafkaClient) -> None:
        def leader(cluster: ClusterMetadata, partition: Any) -> Any:
            return -1 if cluster is client.cluster else leader_of(cluster, partition)

        monkeypatch.setattr(ClusterMetadata, "leader_for_partition", leader)

    options: Any = {"batch_topics": frozenset({topic})}
    soon = WriteLimits(request_timeout_ms=1_000)
    async with opened(broker.bootstrap, writing=soon, **options) as log:
        epoch = await log.claim()
        lose_answer(monkeypatch, lose_leader)
        await log.append([put(topic, "a")], epoch)
        assert await keys(log, topic) == ["a"]


async def _answer_lost(send: Send) -> Any:
    await send()
    return [SendFailed(("topic", 0), KafkaConnectionError("the answer was lost"))]


async def _request_lost(_send: Send) -> Any:
    return [SendFailed(("topic", 0), KafkaConnectionError("the request was lost"))]


async def test_a_batch_behind_an_open_transaction_is_found(
    broker: Broker, log: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search for a batch does not end at the open transaction of another producer."""
    epoch = await log.claim()
    async with writer(broker, transactional_id=topic) as other:
        await other.producer.begin_transaction()
        await other.put(topic, 0, b"other", b"v")
        interrupt(monkeypatch, _answer_lost)
        await log.append([put(topic, "a")], epoch)
        await other.end(commit=True)
    await settled(broker, topic)
    assert await keys(log, topic) == ["a", "other"]


async def test_an_aborted_record_does_not_count(
    broker: Broker, log: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search for a batch skips an equal record of an aborted transaction."""
    epoch = await log.claim()
    record = put(topic, "a")
    async with writer(broker, transactional_id=topic) as other:
        await other.producer.begin_transaction()
        await other.put(topic, 0, record.key, record.value)
        await other.end(commit=False)
    await settled(broker, topic)
    interrupt(monkeypatch, _request_lost)
    await log.append([record], epoch)
    assert await keys(log, topic) == ["a"]


async def test_a_failed_search_concerns_its_own_append(
    log: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a batch cannot be looked for, the others that were sent with it are not repeated."""
    epoch = await log.claim()
    await log.append([put(topic, "before")], epoch)

    async def second_answer_lost(send: Send) -> Any:
        return [(await send())[0], *await _request_lost(send)]

    async def unreadable(*_: Any) -> None:
        raise LogNotUsable("the topic may not be read")

    interrupt(monkeypatch, second_answer_lost)
    monkeypatch.setattr(ReadBackReader, "position", unreadable)
    appends = [log.append([put(topic, f"{number}", number)], epoch) for number in (0, 1)]
    written, unknown = await asyncio.gather(*appends, return_exceptions=True)
    assert isinstance(written, list)
    assert isinstance(unknown, LogUnavailable)
    assert await keys(log, topic) == ["0", "1", "before"]
