"""Batches without a certain answer are looked for, and each is written once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError
from aiokafka.producer.sender import SendProduceReqHandler
from aiokafka.protocol.produce import ProduceRequest

from controlplane.core.entry import TopicPartition
from controlplane.logs.kafka.appends.producer import SendFailed
from controlplane.logs.kafka.limits import WriteLimits
from controlplane.logs.kafka.log import KafkaLog
from controlplane.logs.kafka.reads.read_back import ReadBackReader
from controlplane.logs.log import Fenced, LogNotUsable, LogUnavailable
from tests.conftest import paired
from tests.kafka.claimed_logs import ID, T0, Send, committed, interrupt, keys, opened, put
from tests.kafka.producer import NewTopic, settled, writer
from tests.kafka.real_kafka import Broker

pytestmark = [pytest.mark.java, pytest.mark.broker]


AHEAD_MS = 1_800_000
"""Time by which the clock of the writer is ahead of the broker's."""


def _losing(place: TopicPartition, *, is_sent: bool) -> Callable[[Send], Awaitable[Any]]:
    """Interruption of a batch: its request or its answer is lost."""

    async def lost(send: Send) -> list[SendFailed]:
        if is_sent:
            await send()
        return [SendFailed(place, KafkaConnectionError("the answer was lost"))]

    return lost


@pytest_asyncio.fixture(params=["CreateTime", "LogAppendTime"])
async def timed_topic(request: pytest.FixtureRequest, new_topic: NewTopic) -> str:
    """New topic of two partitions, whose records have the times of the writer or of the broker."""
    return await new_topic(2, message__timestamp__type=request.param)


@pytest.mark.parametrize(
    ("follows", "is_sent"), paired(["a batch", "a transaction", "a claim"], [True, False])
)
async def test_a_batch_without_an_answer_is_written_once(
    broker: Broker,
    timed_topic: str,
    monkeypatch: pytest.MonkeyPatch,
    is_sent: bool,
    follows: str,
) -> None:
    """A batch without an answer is looked for; it is written once, and its position returned.

    The search skips an earlier batch of the same records and times, and compares no times.
    """
    topic = timed_topic
    records = [
        msgspec.structs.replace(put(topic, key), timestamp=T0 + AHEAD_MS) for key in ("a", "b")
    ]
    async with opened(broker.bootstrap, batch_topics=frozenset({topic})) as log:
        epoch = await log.claim()
        await log.append(records, epoch)
        if follows == "a transaction":
            await log.append([*records, put(topic, "other", 1)], epoch)
        elif follows == "a claim":
            epoch = await log.claim()
        earlier = await committed(log, topic)
        interrupt(monkeypatch, _losing((topic, 0), is_sent=is_sent))
        written = await log.append(records, epoch)
        new = [entry for entry in await committed(log, topic) if entry not in earlier]
        assert [entry.key for entry in new] == [b"a", b"b"]
        assert [position.offset for position in written] == [entry.offset for entry in new]
        await log.append([put(topic, "c")], epoch)
        assert len(await committed(log, topic)) == len(earlier) + 3


@pytest.mark.parametrize("is_sent", [True, False])
async def test_an_open_transaction_hides_no_batch(
    broker: Broker, log: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch, is_sent: bool
) -> None:
    """A batch without an answer is found while another producer has an open transaction."""
    epoch = await log.claim()
    async with writer(broker, transactional_id=f"{topic}-other") as other:
        await other.producer.begin_transaction()
        await other.put(topic, 0, b"other", b"v")
        interrupt(monkeypatch, _losing((topic, 0), is_sent=is_sent))
        await log.append([put(topic, "a")], epoch)
        await other.end(commit=True)
    assert await keys(log, topic) == ["a", "other"]


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
    interrupt(monkeypatch, _losing((topic, 0), is_sent=False))
    await log.append([record], epoch)
    assert await keys(log, topic) == ["a"]


async def test_a_failed_search_concerns_its_own_append(
    log: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a batch cannot be looked for, the others that were sent with it are not repeated."""
    epoch = await log.claim()
    await log.append([put(topic, "before")], epoch)

    async def second_answer_lost(send: Send) -> Any:
        return [(await send())[0], *await _losing((topic, 1), is_sent=False)(send)]

    async def unreadable(*_: Any) -> None:
        raise LogNotUsable("the topic may not be read")

    interrupt(monkeypatch, second_answer_lost)
    monkeypatch.setattr(ReadBackReader, "positions", unreadable)
    appends = [log.append([put(topic, f"{number}", number)], epoch) for number in (0, 1)]
    written, unknown = await asyncio.gather(*appends, return_exceptions=True)
    assert isinstance(written, list)
    assert isinstance(unknown, LogUnavailable)
    assert await keys(log, topic) == ["0", "1", "before"]


async def test_appends_that_begin_alike_are_told_apart(
    log: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All records of an append are looked for: another append may have an equal first record."""
    epoch = await log.claim()
    await log.append([put(topic, "before")], epoch)  # so that the next ones share a batch
    interrupt(monkeypatch, _losing((topic, 0), is_sent=True))
    pair, single = [put(topic, "a"), put(topic, "b")], [put(topic, "a")]
    written = await asyncio.gather(log.append(pair, epoch), log.append(single, epoch))
    offsets = [[position.offset for position in positions] for positions in written]
    (first, second), (last,) = offsets
    assert (second, last) == (first + 1, first + 2)
    assert await keys(log, topic) == ["a", "a", "b", "before"]
