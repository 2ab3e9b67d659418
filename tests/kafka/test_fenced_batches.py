"""Single batches of a claimed writer, without a transaction: atomic, fenced, written once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError

from controlplane.core.entry import TopicPartition
from controlplane.logs.kafka.appends.coordinator import TransactionCoordinator
from controlplane.logs.kafka.appends.producer import KafkaProducer, SendFailed
from controlplane.logs.kafka.limits import WriteLimits
from controlplane.logs.kafka.log import KafkaLog
from controlplane.logs.log import Fenced, LogNotUsable, LogUnavailable
from tests.kafka.claimed_logs import ID, T0, committed, keys, opened, put
from tests.kafka.conftest import NEWEST
from tests.kafka.producer import NewTopic, writer
from tests.kafka.real_kafka import Broker

pytestmark = [pytest.mark.java, pytest.mark.broker]

Send = Callable[..., Awaitable[list[int | SendFailed]]]


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


def interrupt(monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., Any]) -> None:
    """Replace the next `send_each` of a producer by `interruption(send)`."""
    original = KafkaProducer.send_each

    async def interrupted(producer: KafkaProducer, batches: Any) -> Any:
        monkeypatch.setattr(KafkaProducer, "send_each", original)
        return await interruption(lambda: original(producer, batches))

    monkeypatch.setattr(KafkaProducer, "send_each", interrupted)


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
    """After a claim, every partition refuses batches of the older epoch; the claimer wrote none."""
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
    """The answer says whether the batch lies before the claim; nothing follows it."""
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


@pytest.mark.parametrize("is_sent", [True, False])
@pytest.mark.parametrize("follows", ["a batch", "a transaction", "a claim"])
async def test_a_batch_without_an_answer_is_written_once(
    broker: Broker,
    timed_topic: str,
    monkeypatch: pytest.MonkeyPatch,
    is_sent: bool,
    follows: str,
) -> None:
    """A batch without an answer is looked for; it is written once, and its position returned.

    An earlier batch of the same records and times does not count, nor do the broker's times.
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
    """A writer whose claim gets no markers may not continue: another one may still write."""
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
