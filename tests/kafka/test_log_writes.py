"""Writes to a real cluster: fencing at every point, producer failures, topics, security."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import IllegalOperation, KafkaConnectionError

from controlplane.logs.kafka.appends.coordinator import TransactionCoordinator
from controlplane.logs.kafka.limits import WriteLimits
from controlplane.logs.kafka.log import KafkaLog, TopicDefaults
from controlplane.logs.log import Fenced, LogNotUsable, LogUnavailable, Record
from controlplane.settings.security import KafkaSecurity, Sasl, Secret, Tls
from tests.kafka.claimed_logs import ID, T0, committed, keys, opened, put
from tests.kafka.producer import NewTopic, admin
from tests.kafka.real_kafka import SASL, USERS, Broker
from tests.logs.reading_contract import entries_of
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.broker]

# --- fencing --------------------------------------------------------------------------------------

Interruption = Callable[[Callable[[], Awaitable[Any]], Callable[[], Awaitable[Any]]], Any]


async def _claims_first(claim: Callable[[], Awaitable[Any]], go_on: Any) -> Any:
    await claim()
    return await go_on()


async def _claims_behind(claim: Callable[[], Awaitable[Any]], go_on: Any) -> Any:
    await go_on()
    await claim()
    raise KafkaConnectionError("the answer was lost")


async def _claims_instead(claim: Callable[[], Awaitable[Any]], go_on: Any) -> Any:
    await claim()
    raise KafkaConnectionError("the request was lost")


ZOMBIES: dict[str, tuple[str, Interruption, bool]] = {
    "before the transaction": ("begin_transaction", _claims_first, False),
    "before the first batch": ("send_batch", _claims_first, False),
    "between send and commit": ("commit_transaction", _claims_first, False),
    "commit asked, request lost": ("commit_transaction", _claims_instead, False),
    "commit done, answer lost": ("commit_transaction", _claims_behind, True),
}
"""Call of the producer, what a rival does there, and whether the batch is committed."""


@pytest.mark.parametrize("point", ZOMBIES)
async def test_a_zombie_writes_nothing(
    log: KafkaLog,
    rival: KafkaLog,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    """A claim of another writer at any point fences this one; only a finished commit stays."""
    call, interruption, committed = ZOMBIES[point]
    epoch = await log.claim()
    await log.append([put(topic, "first")], epoch)
    _interrupt(monkeypatch, call, rival.claim, interruption)
    batch = [put(topic, "zombie"), put(topic, "zombie", 1)]
    if committed:
        assert [position[:2] for position in await log.append(batch, epoch)] == [
            (topic, 0),
            (topic, 1),
        ]
    else:
        with pytest.raises(Fenced, match=ID):
            await log.append(batch, epoch)
    for _ in range(2):
        with pytest.raises(Fenced, match=ID):
            await log.append([put(topic, "later")], epoch)
    with pytest.raises(Fenced):
        await log.check_writable(epoch)
    assert await keys(log, topic) == ["first"] + ["zombie", "zombie"] * committed
    await log.append([put(topic, "claimed again")], await log.claim())
    assert "claimed again" in await keys(log, topic)


def _interrupt(
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    claim: Callable[[], Awaitable[Any]],
    interruption: Interruption,
) -> None:
    """Let another writer claim during the next such call of an aiokafka producer."""
    original = getattr(AIOKafkaProducer, call)

    async def interrupted(producer: AIOKafkaProducer, *arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(AIOKafkaProducer, call, original)
        return await interruption(claim, lambda: original(producer, *arguments, **options))

    monkeypatch.setattr(AIOKafkaProducer, call, interrupted)


async def test_a_rival_is_not_fenced_by_a_renewed_producer(
    log: KafkaLog,
    rival: KafkaLog,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rival that claims while the writer renews its producer is not fenced by that."""
    epoch = await log.claim()
    bump = TransactionCoordinator.bump
    claimed: list[int] = []

    async def after_a_claim(*arguments: Any) -> Any:
        monkeypatch.setattr(TransactionCoordinator, "bump", bump)
        claimed.append(await rival.claim())
        return await bump(*arguments)

    monkeypatch.setattr(TransactionCoordinator, "bump", after_a_claim)
    with pytest.raises(LogNotUsable, match=r"max\.message\.bytes"):
        await log.append([put(topic, "large", value=bytes(2 << 20)), put(topic, "x", 1)], epoch)
    with pytest.raises(Fenced):
        await log.append([put(topic, "zombie")], epoch)
    await rival.append([put(topic, "rival")], claimed[0])
    assert await keys(rival, topic) == ["rival"]


@pytest.mark.parametrize("claimed", [True, False])
async def test_ends_decide_a_cancelled_transaction(
    log: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch, claimed: bool
) -> None:
    """After a cancelled append, `ends` waits until its transaction is committed."""
    epoch = await log.claim() if claimed else None
    batch = [put(topic, "a"), put(topic, "b", 1)]
    await log.append(batch, epoch)
    committing, commit = asyncio.Event(), AIOKafkaProducer.commit_transaction

    async def slow_commit(producer: AIOKafkaProducer) -> None:
        committing.set()
        await asyncio.sleep(0.2)
        await commit(producer)

    monkeypatch.setattr(AIOKafkaProducer, "commit_transaction", slow_commit)
    appending = asyncio.create_task(log.append(batch, epoch))
    await committing.wait()
    appending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await appending
    ends = await log.ends([topic])
    assert len(await entries_of(log.read([topic], stop=ends))) == 4


async def test_check_writable_detects_another_claim(
    log: KafkaLog, rival: KafkaLog, topic: str
) -> None:
    """The check detects a claim of another writer without writing."""
    epoch = await log.claim()
    await log.append([put(topic, "first")], epoch)
    ends = await log.ends([topic])
    await log.check_writable()
    await log.check_writable(epoch)
    await rival.claim()
    with pytest.raises(Fenced):
        await log.check_writable(epoch)
    await log.check_writable()
    assert max((await log.ends([topic]))[topic]) <= max(ends[topic]) + 1  # a marker, at most


# --- failures of a producer -----------------------------------------------------------------------


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("partitions", [1, 2])
async def test_a_refused_record_fails_its_batch(
    log: KafkaLog, topic: str, *, beside: bool, partitions: int
) -> None:
    """A refused record fails its batch; the producer continues with the next one."""
    epoch = None if beside else await log.claim()
    large = [put(topic, "large", value=bytes(2 << 20))]
    if partitions > 1:
        large.insert(0, put(topic, "small", 1))
    for number in range(3):
        with pytest.raises(LogNotUsable, match=rf"{topic} .*max\.message\.bytes"):
            await log.append(large, epoch)
        await log.append([put(topic, f"{number}"), put(topic, f"{number}")], epoch)
        await log.append([put(topic, f"{number}"), put(topic, f"{number}", 1)], epoch)
    assert await keys(log, topic) == sorted("000011112222")


async def test_a_refused_record_fails_only_its_own_append(log: KafkaLog, topic: str) -> None:
    """In a shared batch, only the append with the refused record fails."""
    epoch = await log.claim()
    batches = [[put(topic, f"{number}")] for number in range(9)]
    batches[5] = [put(topic, "large", value=bytes(2 << 20))]
    results = await asyncio.gather(
        *(log.append(batch, epoch) for batch in batches), return_exceptions=True
    )
    assert [isinstance(result, LogNotUsable) for result in results].index(True) == 5
    assert await keys(log, topic) == [str(number) for number in range(9) if number != 5]


async def test_a_compacted_topic_refuses_a_record_without_a_key(log: KafkaLog, topic: str) -> None:
    """A compacted topic refuses a record without a key, and the sentence says so."""
    with pytest.raises(LogNotUsable, match="each needs a key"):
        await log.append([Record(topic, 0, T0, None, b"x")])


@pytest.mark.parametrize("call", ["send_batch", "commit_transaction"])
async def test_a_commit_without_an_answer_is_decided_and_written_once(
    log: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A transaction whose answer is lost is decided, and written once."""
    epoch = await log.claim()

    for interruption in (_claims_instead, _claims_behind):
        _interrupt(monkeypatch, call, _no_claim, interruption)
        key = interruption.__name__
        await log.append([put(topic, key), put(topic, key, 1)], epoch)
    assert await keys(log, topic) == 2 * ["_claims_behind"] + 2 * ["_claims_instead"]


async def test_a_failed_transaction_is_repeated(
    log: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If aiokafka takes no second batch, because the first one has failed, both are repeated."""

    async def refused(*_: Any) -> None:
        raise IllegalOperation("not in transaction")

    epoch = await log.claim()
    _interrupt(monkeypatch, "send_batch", _no_claim, refused)
    await log.append([put(topic, "a"), put(topic, "b", 1)], epoch)
    assert await keys(log, topic) == ["a", "b"]


async def _no_claim() -> None:
    """No other writer claims the log."""


# --- topics ---------------------------------------------------------------------------------------


async def test_new_topics_are_compacted(log: KafkaLog, topic: str) -> None:
    """A new topic is compacted; -1 partitions mean the default number. Appends create no topic."""
    name = f"{topic}-new"
    await log.create_topic(name, 4)
    await log.create_topic(name, 4)
    await log.create_topic(f"{name}-default", -1)
    topics = await log.topics()
    assert (topics[name], topics[f"{name}-default"]) == (4, 1)
    assert await log.check([name, f"{name}-default"]) == []
    with pytest.raises(LogNotUsable, match="does not exist"):
        await log.append([put(f"{name}-missing", "x")])
    assert f"{name}-missing" not in await log.topics()


async def test_a_new_topic_gets_its_settings(broker: Broker, topic: str) -> None:
    """Settings of a new topic are passed on, except for the clean-up policy.

    Optional settings are left out if the brokers refuse them.
    """
    defaults = TopicDefaults(configs={"segment.ms": "100000", "cleanup.policy": "delete"})
    async with opened(broker.bootstrap, new_topics={f"{topic}-new": defaults}) as log:
        await log.create_topic(f"{topic}-new", 1)
        assert await log.check([f"{topic}-new"]) == []
    least, most = {"min.compaction.lag.ms": "10"}, {"max.compaction.lag.ms": "5"}
    conflicting = TopicDefaults(configs=most, optional=least)
    async with opened(broker.bootstrap, new_topics={f"{topic}-optional": conflicting}) as log:
        await log.create_topic(f"{topic}-optional", 1)
        assert f"{topic}-optional" in await log.topics()
    refused = TopicDefaults(configs=most | least)
    async with opened(broker.bootstrap, new_topics={f"{topic}-refused": refused}) as log:
        with pytest.raises(LogNotUsable, match=r"min\.compaction\.lag\.ms"):
            await log.create_topic(f"{topic}-refused", 1)
    impossible = TopicDefaults(replication_factor=3)
    async with opened(broker.bootstrap, new_topics={f"{topic}-3": impossible}) as log:
        with pytest.raises(LogNotUsable, match=r"too few brokers"):
            await log.create_topic(f"{topic}-3", 1)


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
async def test_a_topic_whose_policy_loses_records_is_refused(
    log: KafkaLog, new_topic: NewTopic, policy: str
) -> None:
    """A topic whose policy loses records is refused, as by a worker."""
    name = await new_topic(2, cleanup__policy=policy)
    with pytest.raises(LogNotUsable, match=rf"{name} has cleanup\.policy={policy}"):
        await log.create_topic(name, 2)
    with pytest.raises(LogNotUsable, match="2 partitions, not with 1"):
        await log.create_topic(name, 1)


async def test_a_deleted_topic_stays_deleted(broker: Broker, topic: str) -> None:
    """A producer that has written to a topic does not create it again."""
    soon = WriteLimits(append_timeout_ms=500, request_timeout_ms=400)
    async with opened(broker.bootstrap, writing=soon) as log, admin(broker) as client:
        await _appended(log, topic)
        await client.delete_topics([topic])
        with pytest.raises(LogNotUsable, match="does not exist"):
            await _until_refused(log, topic)
        assert topic not in await client.list_topics()


async def _until_refused(log: KafkaLog, topic: str) -> None:
    """Append until the brokers know of the deletion."""
    while True:
        await _appended(log, topic)


async def _appended(log: KafkaLog, topic: str) -> None:
    """Append a record, once more after each time-out."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(LogUnavailable):
                await log.append([put(topic, "x")])
                return


# --- the form of records, security ----------------------------------------------------------------


async def test_headers_are_kept_out_of_connects_topics(broker: Broker, new_topic: NewTopic) -> None:
    """A log can keep headers out of Connect's topics, because workers write none."""
    plain, ours = await new_topic(), await new_topic()
    headers = (("controlplane-command-id", b"1"),)
    async with opened(broker.bootstrap, headers_in=frozenset({ours})) as log:
        records = [Record(topic, 0, T0, b"k", b"v", headers) for topic in (plain, ours)]
        await log.append(records)
        await log.append(records, await log.claim())
        assert {entry.headers for entry in await committed(log, plain)} == {()}
        assert {entry.headers for entry in await committed(log, ours)} == {headers}


async def test_a_transaction_to_a_new_topic_waits_for_no_time_out(
    log: KafkaLog, topic: str, new_topic: NewTopic
) -> None:
    """A transaction to a known topic and a new one waits for no time-out."""
    epoch = await log.claim()
    later = await new_topic(1)
    async with asyncio.timeout(WriteLimits().request_timeout_ms / 2_000):
        await log.append([put(topic, "b"), put(later, "c")], epoch)
    assert [await keys(log, name) for name in (topic, later)] == [["b"], ["c"]]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_every_codec_is_written(broker: Broker, topic: str, codec: Any) -> None:
    """Every codec of Kafka, in both kinds of appends."""
    async with opened(broker.bootstrap, writing=WriteLimits(compression=codec)) as log:
        await log.append([put(topic, "a", value=b"v" * 10_000)])
        await log.append([put(topic, "b"), put(topic, "c", 1)], await log.claim())
        assert await keys(log, topic) == ["a", "b", "c"]


LOGINS = [("SSL", None), *((name, how) for name, offered in SASL.items() for how in offered)]


@pytest.mark.parametrize(("protocol", "mechanism"), LOGINS)
async def test_producers_log_in_as_readers(
    broker: Broker, topic: str, protocol: str, mechanism: str | None
) -> None:
    """Producers log in as the reader does."""
    tls = Tls(trusted=broker.certificates.authority, identity=broker.certificates.identity("alice"))
    security = KafkaSecurity(
        sasl=_login("alice", mechanism) if mechanism else None,
        tls=tls if protocol.endswith("SSL") else None,
    )
    async with opened(broker.address(protocol), security) as log:
        await log.append([put(topic, "a")])
        await log.append([put(topic, "b"), put(topic, "c", 1)], await log.claim())
        assert await keys(log, topic) == ["a", "b", "c"]


def _login(name: str, mechanism: str = "PLAIN") -> Sasl:
    return Sasl(mechanism, name, Secret(USERS[name]))


async def test_each_missing_right_is_named(broker: Broker, topic: str) -> None:
    """Bob has no right; each request names its missing right."""
    async with opened(broker.address("SASL_PLAINTEXT"), KafkaSecurity(sasl=_login("bob"))) as log:
        with pytest.raises(LogNotUsable, match=f"{ID} may not be used: allow this user WRITE"):
            await log.claim()
        with pytest.raises(LogNotUsable, match=f"topic {topic} may not be read"):
            await log.append([put(topic, "x")])
        with pytest.raises(LogNotUsable, match=f"topic {topic}-new may not be read: allow this"):
            await log.create_topic(f"{topic}-new", 1)


async def test_a_refused_transaction_timeout_names_both_settings(broker: Broker) -> None:
    """The error for a refused transaction timeout names both settings."""
    limits = WriteLimits(transaction_timeout_ms=3_600_000)
    async with opened(broker.bootstrap, writing=limits) as log:
        with pytest.raises(LogNotUsable, match=r"max\.timeout\.ms.*writer\.transaction\.time"):
            await log.claim()
