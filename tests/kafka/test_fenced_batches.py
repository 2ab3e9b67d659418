"""Single batches of a claimed writer, without a transaction: atomic, fenced, written once."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.transaction import InitProducerIdRequest, InitProducerIdResponse_v0

from controlplane.logs.kafka.appends import fenced_batches
from controlplane.logs.kafka.appends.coordinator import TransactionCoordinator
from controlplane.logs.kafka.appends.producer import SendFailed
from controlplane.logs.kafka.limits import WriteLimits
from controlplane.logs.kafka.log import KafkaLog
from controlplane.logs.kafka.protocol.error_codes import ErrorCode
from controlplane.logs.log import Fenced, LogNotUsable, LogUnavailable, Record
from tests.kafka.claimed_logs import ID, Send, interrupt, keys, opened, put
from tests.kafka.conftest import NEWEST
from tests.kafka.real_kafka import Broker

pytestmark = [pytest.mark.java, pytest.mark.broker]


@pytest.fixture
def transactions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each transaction that a producer of this process begins."""
    begun: list[str] = []
    begin = AIOKafkaProducer.begin_transaction

    async def counted(producer: AIOKafkaProducer) -> None:
        begun.append("begun")
        await begin(producer)

    monkeypatch.setattr(AIOKafkaProducer, "begin_transaction", counted)
    return begun


async def test_only_several_partitions_need_a_transaction(
    log: KafkaLog, topic: str, transactions: list[str]
) -> None:
    """A batch of one partition is sent alone, also just after a transaction in that partition."""
    epoch = await log.claim()
    for number in range(5):
        await log.append([put(topic, f"{number}"), put(topic, f"{number}")], epoch)
        assert len(transactions) == number
        await log.append([put(topic, f"{number}"), put(topic, f"{number}", 1)], epoch)
        assert len(transactions) == number + 1
    assert await keys(log, topic) == sorted("0123401234012340123401234"[:20])


@pytest.mark.parametrize("partition", [0, 1])
async def test_a_claim_fences_batches(
    log: KafkaLog, rival: KafkaLog, topic: str, partition: int
) -> None:
    """A claim fences the older epoch in every partition, even before the claimer writes a batch."""
    epoch = await log.claim()
    await log.append([put(topic, "first", partition)], epoch)
    newest = await rival.claim()
    for _ in range(2):
        with pytest.raises(Fenced, match=ID):
            await log.append([put(topic, "zombie", partition)], epoch)
    await rival.append([put(topic, "second", partition)], newest)
    with pytest.raises(Fenced):
        await log.check_writable(epoch)
    assert await keys(rival, topic) == ["first", "second"]
    await log.append([put(topic, "third", partition)], await log.claim())
    with pytest.raises(Fenced, match=ID):
        await rival.append([put(topic, "zombie", partition)], newest)
    assert await keys(log, topic) == ["first", "second", "third"]


async def test_a_topic_created_after_the_claim_takes_batches(
    broker: Broker, topic: str, transactions: list[str]
) -> None:
    """A topic that is created after the claim takes batches after one transaction.

    The claim of another writer fences these batches, too.
    """
    later = f"{topic}-later"
    options: Any = {"batch_topics": frozenset({topic, later})}
    async with (
        opened(broker.bootstrap, **options) as log,
        opened(broker.bootstrap, **options) as rival,
    ):
        epoch = await log.claim()
        await log.create_topic(later, 1)
        for number in range(3):
            await log.append([put(later, f"{number}")], epoch)
            assert len(transactions) == 1
        await rival.claim()
        with pytest.raises(Fenced, match=ID):
            await log.append([put(later, "zombie")], epoch)
        assert await keys(rival, later) == ["0", "1", "2"]


async def _claimed_before(claim: Callable[[], Awaitable[Any]], send: Send) -> Any:
    await claim()
    return await send()


async def _claimed_after(claim: Callable[[], Awaitable[Any]], send: Send) -> Any:
    await send()
    await claim()
    return [SendFailed(("topic", 0), KafkaConnectionError("the answer was lost"))]


async def _claimed_instead(claim: Callable[[], Awaitable[Any]], _send: Send) -> Any:
    await claim()
    return [SendFailed(("topic", 0), KafkaConnectionError("the request was lost"))]


@pytest.mark.parametrize("interruption", [_claimed_before, _claimed_after, _claimed_instead])
async def test_a_claim_during_a_batch_decides_it(
    log: KafkaLog,
    rival: KafkaLog,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    interruption: Callable[..., Any],
) -> None:
    """The answer says whether the batch lies before the claim; later batches are refused."""
    epoch = await log.claim()
    interrupt(monkeypatch, lambda send: interruption(rival.claim, send))
    is_written = interruption is _claimed_after
    if is_written:
        ((name, partition, _),) = await log.append([put(topic, "zombie", 1)], epoch)
        assert (name, partition) == (topic, 1)
    else:
        with pytest.raises(Fenced, match=ID):
            await log.append([put(topic, "zombie", 1)], epoch)
    with pytest.raises(Fenced, match=ID):
        await log.append([put(topic, "later", 1)], epoch)
    assert await keys(log, topic) == ["zombie"] * is_written


async def test_a_cancelled_append_is_decided_first(
    log: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled append is decided before the next one."""
    epoch = await log.claim()
    begun, released = asyncio.Event(), asyncio.Event()

    async def delayed(send: Send) -> Any:
        begun.set()
        await released.wait()
        return await send()

    interrupt(monkeypatch, delayed)
    caller = asyncio.create_task(log.append([put(topic, "abandoned")], epoch))
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    following = asyncio.create_task(log.append([put(topic, "next")], epoch))
    released.set()
    await following
    entries = [entry async for batch in log.read([topic]) for entry in batch.entries()]
    assert [entry.key for entry in entries] == [b"abandoned", b"next"]


async def test_a_batch_that_took_too_long_is_not_sent_later(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append whose time has passed sends nothing more; the next one continues."""
    limits = WriteLimits(append_timeout_ms=3_000)
    options: Any = {"batch_topics": frozenset({topic}), "writing": limits}
    async with opened(broker.bootstrap, **options) as log:
        epoch = await log.claim()
        released = asyncio.Event()

        async def delayed(send: Send) -> Any:
            await released.wait()
            return await send()

        interrupt(monkeypatch, delayed)
        with pytest.raises(LogUnavailable):
            await log.append([put(topic, "late")], epoch)
        released.set()
        for key in ("next", "last"):
            await log.append([put(topic, key)], epoch)
        assert await keys(log, topic) == ["last", "next"]


async def test_waiting_appends_share_batches(
    log: KafkaLog, topic: str, transactions: list[str]
) -> None:
    """Appends that wait share batches; a refused record fails only its own append."""
    epoch = await log.claim()
    appends = [[put(topic, f"{number:02}", number % 2)] for number in range(40)]
    appends[13] = [put(topic, "large", 1, bytes(2 << 20))]
    results = await asyncio.gather(
        *(log.append(records, epoch) for records in appends), return_exceptions=True
    )
    assert [isinstance(result, LogNotUsable) for result in results].index(True) == 13
    assert await keys(log, topic) == [f"{number:02}" for number in range(40) if number != 13]
    positions = [result[0] for result in results if isinstance(result, list)]
    assert len({*positions}) == len(appends) - 1
    assert transactions  # the appends of the refused batch were repeated one by one


async def test_an_incomplete_claim_ends_older_epochs(
    log: KafkaLog, rival: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that fails before its markers ends the writer's older epochs: a rival may write."""
    epoch = await log.claim()
    newest = await rival.claim()
    await rival.append([put(topic, "rival")], newest)

    async def unavailable(*_: Any) -> None:
        raise LogUnavailable("no coordinator")

    with monkeypatch.context() as patch:
        patch.setattr(TransactionCoordinator, "add_partitions", unavailable)
        with pytest.raises(LogUnavailable, match="no coordinator"):
            await log.claim()
    for second in (0, 1):
        with pytest.raises(Fenced, match=ID):
            await log.append([put(topic, "old"), put(topic, "old", second)], epoch)
    await log.append([put(topic, "claimed")], await log.claim())
    with pytest.raises(Fenced, match=ID):
        await rival.append([put(topic, "zombie")], newest)
    assert await keys(log, topic) == ["claimed", "rival"]


async def test_a_claim_that_another_writer_overtakes_is_repeated(
    log: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator refuses a new epoch if another request changes it; the claim asks again."""
    send = AIOKafkaClient.send
    refusals = [47, 47]

    async def overtaken(client: AIOKafkaClient, node: Any, request: Any, **options: Any) -> Any:
        if isinstance(request, InitProducerIdRequest) and refusals:
            return InitProducerIdResponse_v0(0, refusals.pop(), -1, -1)
        return await send(client, node, request, **options)

    monkeypatch.setattr(AIOKafkaClient, "send", overtaken)
    epoch = await log.claim()
    assert not refusals
    await log.append([put(topic, "claimed")], epoch)
    assert await keys(log, topic) == ["claimed"]


async def test_an_old_confirmation_requires_a_transaction(
    broker: Broker, topic: str, transactions: list[str]
) -> None:
    """If the last transaction is too old, the next append is a transaction, too."""
    limits = WriteLimits(confirmation_max_age_ms=0)
    options: Any = {"batch_topics": frozenset({topic}), "writing": limits}
    async with opened(broker.bootstrap, **options) as log:
        epoch = await log.claim()
        for number in range(3):
            await log.append([put(topic, "a")], epoch)
            assert len(transactions) == number + 1


@NEWEST
async def test_records_of_two_batches_need_a_transaction(
    log: KafkaLog, topic: str, transactions: list[str]
) -> None:
    """Records that need two batches are a transaction."""
    epoch = await log.claim()
    await log.append([put(topic, "a", value=bytes(400 << 10)) for _ in range(2)], epoch)
    assert len(transactions) == 1


async def test_a_claim_leaves_out_missing_topics(broker: Broker, topic: str) -> None:
    """A claim leaves out topics that do not exist."""
    async with opened(broker.bootstrap, batch_topics=frozenset({topic, "missing"})) as log:
        epoch = await log.claim()
        await log.append([put(topic, "a")], epoch)
        with pytest.raises(LogNotUsable, match="missing does not exist"):
            await log.append([put("missing", "a")], epoch)
        assert await keys(log, topic) == ["a"]


async def test_a_claim_needs_the_confirmation_of_its_markers(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim fails if the coordinator does not confirm that the markers are written."""

    async def unconfirmed(*_: Any, **__: Any) -> int:
        return -1

    with monkeypatch.context() as patch:
        patch.setattr(TransactionCoordinator, "end", unconfirmed)
        with pytest.raises(LogUnavailable, match="cannot write its markers"):
            await log.claim()
    await log.claim()


async def test_a_claim_includes_partitions_that_the_coordinator_learns_late(
    log: KafkaLog, rival: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim waits until the coordinator knows all partitions that exist."""
    epoch = await log.claim()
    original = TransactionCoordinator.add_partitions

    async def unknown(_coordinator: Any, _identity: Any, partitions: Any) -> dict[Any, int]:
        monkeypatch.setattr(TransactionCoordinator, "add_partitions", original)
        return dict.fromkeys(partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    monkeypatch.setattr(TransactionCoordinator, "add_partitions", unknown)
    await rival.claim()
    with pytest.raises(Fenced, match=ID):
        await log.append([put(topic, "zombie", 2)], epoch)
    assert await keys(rival, topic) == []


async def test_a_host_that_was_suspended_confirms_its_epoch(
    broker: Broker, topic: str, transactions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The age of the last transaction includes the time in which the host was suspended."""
    limits = WriteLimits(confirmation_max_age_ms=60_000)
    options: Any = {"batch_topics": frozenset({topic}), "writing": limits}
    async with opened(broker.bootstrap, **options) as log:
        epoch = await log.claim()
        awake_s = time.time() + 600
        monkeypatch.setattr(fenced_batches, "time", SimpleNamespace(time=lambda: awake_s))
        for _ in range(2):
            await log.append([Record(topic, 0, round(awake_s * 1_000), b"a", b"v")], epoch)
            assert len(transactions) == 1


async def test_records_of_long_ago_need_a_transaction(
    log: KafkaLog, topic: str, transactions: list[str]
) -> None:
    """A partition forgets a writer whose last record is old; a marker has the present time."""
    epoch = await log.claim()
    await log.append([Record(topic, 0, 1, b"a", b"v")], epoch)
    assert len(transactions) == 1


async def test_the_last_epochs_need_transactions(
    log: KafkaLog, topic: str, transactions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Near its last epoch a writer uses transactions: a new producer id fences no batch."""
    epoch = await log.claim()
    await log.append([put(topic, "a")], epoch)
    assert transactions == []
    monkeypatch.setattr(fenced_batches, "EPOCH_MAX", -1)
    await log.append([put(topic, "a")], epoch)
    assert len(transactions) == 1
