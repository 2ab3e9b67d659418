"""Appends while their broker is killed or hangs: no record is lost, doubled or half written."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.produce import ProduceRequest

from controlplane.core.entry import Entry
from controlplane.logs.kafka.appends.coordinator import TransactionCoordinator
from controlplane.logs.kafka.appends.producer import ProducerIdentity
from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.limits import ReadLimits, WriteLimits
from controlplane.logs.kafka.log import KafkaLog
from controlplane.logs.log import Fenced, LogError, LogUnavailable, Record
from controlplane.settings.security import KafkaSecurity
from tests.conftest import sampled
from tests.kafka.claimed_logs import ID, T0, opened, put
from tests.kafka.conftest import RELEASES, up
from tests.kafka.producer import create_topic
from tests.kafka.real_kafka import Broker
from tests.kafka.worker_service import until
from tests.logs.reading_contract import entries_of
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.broker, pytest.mark.slow]

SOON = WriteLimits(append_timeout_ms=1_500, request_timeout_ms=1_000)
READ_SOON = ReadLimits(request_timeout_ms=1_500, connect_timeout_ms=1_500)
LANES = 3
"""Appenders of each kind."""

KINDS = {
    "claimed": "with an epoch, in two partitions: a transaction",
    "batch": "with an epoch, in one partition: a batch",
    "single": "without an epoch, in one partition: a batch",
    "beside": "without an epoch, in two partitions: a transaction",
}
CLAIMED = {"claimed", "batch"}
IN_ONE_PARTITION = {"batch", "single"}


OFTEN: dict[str, object] = {"producer__id__expiration__check__interval__ms": 50}
"""Setting of a broker that looks often for producers to forget."""


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=sampled(RELEASES, RELEASES[-1]))
async def expendable(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Broker]:
    """Broker that a test may stop. It looks often for producers to forget."""
    async with up(request.param, tmp_path_factory.mktemp("expendable"), **OFTEN) as broker:
        yield broker


class NumberedAppends:
    """Appends numbered batches of two records until stopped; keeps the results."""

    def __init__(self, log: KafkaLog, topic: str, name: str, epoch: int | None) -> None:
        self.acknowledged: set[str] = set()
        self.unknown: set[str] = set()
        self.fenced = False
        self._log, self._topic, self._name, self._epoch = log, topic, name, epoch

    async def run(self, ends: asyncio.Event) -> None:
        """Append batch after batch; a batch with an unknown outcome is not repeated."""
        number = 0
        while not ends.is_set() and not self.fenced:
            number += 1
            key = f"{self._name}.{number}"
            partitions = (0, 0) if self._name.split("-")[0] in IN_ONE_PARTITION else (0, 1)
            batch = [put(self._topic, key, partition) for partition in partitions]
            try:
                await self._log.append(batch, self._epoch)
            except Fenced:
                self.fenced = True
            except LogUnavailable:
                self.unknown.add(key)
            else:
                self.acknowledged.add(key)


async def test_the_broker_is_killed(expendable: Broker) -> None:
    """Acknowledged batches exist once, others whole or not at all; appends continue."""
    await create_topic(expendable, "killed", 2)
    async with opened(expendable.bootstrap, batch_topics=frozenset({"killed"})) as log:
        epoch = await log.claim()
        appenders = [
            NumberedAppends(log, "killed", f"{kind}-{number}", epoch if kind in CLAIMED else None)
            for kind in KINDS
            for number in range(LANES)
        ]
        ends = asyncio.Event()
        running = [asyncio.create_task(appender.run(ends)) for appender in appenders]
        await _grown(appenders, 5)
        await expendable.kill9()
        await expendable.start()
        await _grown(appenders, 5)
        ends.set()
        await asyncio.gather(*running)
        assert not any(appender.fenced for appender in appenders)
        await _check(log, "killed", appenders)


async def _grown(appenders: list[NumberedAppends], by: int) -> None:
    """Wait until each appender has some more acknowledgements."""
    expected_counts = [len(appender.acknowledged) + by for appender in appenders]
    async with asyncio.timeout(PATIENCE_S):
        while any(  # noqa: ASYNC110 - the appenders send no event
            len(appender.acknowledged) < number
            for appender, number in zip(appenders, expected_counts, strict=True)
        ):
            await asyncio.sleep(0.05)


async def _check(log: KafkaLog, topic: str, appenders: list[NumberedAppends]) -> None:
    counts = Counter((entry.key or b"").decode() for entry in await _committed(log, topic))
    assert {*counts.values()} == {2}
    acknowledged = {key for appender in appenders for key in appender.acknowledged}
    unknown = {key for appender in appenders for key in appender.unknown}
    assert acknowledged <= counts.keys() <= acknowledged | unknown


async def _committed(log: KafkaLog, topic: str) -> list[Entry]:
    return [entry for entry in await entries_of(log.read([topic])) if not entry.aborted]


@pytest.mark.parametrize("kind", sampled(KINDS, "claimed", "batch"))
async def test_an_append_times_out_while_the_broker_hangs(expendable: Broker, kind: str) -> None:
    """An append times out; its outcome is decided before `ends` returns, and is final."""
    topic = f"hung-{kind}"
    await create_topic(expendable, topic, 2)
    options: Any = {"writing": SOON, "reading": READ_SOON, "batch_topics": frozenset({topic})}
    async with opened(expendable.bootstrap, **options) as log:
        epoch = await log.claim() if kind in CLAIMED else None
        second = 0 if kind in IN_ONE_PARTITION else 1
        await log.append([put(topic, "before"), put(topic, "before", second)], epoch)
        await expendable.hang()
        try:
            for key in ("cut off", "in the queue"):
                with pytest.raises(LogUnavailable):
                    await log.append([put(topic, key), put(topic, key, second)], epoch)
            with pytest.raises(LogUnavailable):
                await log.ends([topic])
        finally:
            await expendable.go_on()
        ends = await _ends(log, topic)
        counts = Counter(entry.key for entry in await _committed(log, topic))
        assert {*counts.values()} == {2}
        await log.append([put(topic, "after"), put(topic, "after", second)], epoch)
        later = Counter(entry.key for entry in await _committed(log, topic))
        assert later == counts | {b"after": 2}
        new_ends = (await log.ends([topic]))[topic]
        assert all(old <= new for old, new in zip(ends, new_ends, strict=True))


async def _ends(log: KafkaLog, topic: str) -> list[int]:
    """Ends of the topics, once the broker answers."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return [*(await log.ends([topic]))[topic]]
            except LogError:
                await asyncio.sleep(0.05)


async def _claimed_later(log: KafkaLog) -> int:
    """Claim a log as soon as its broker, which hung, has joined its cluster again."""

    async def epoch() -> int:
        try:
            return await log.claim()
        except LogUnavailable:
            return 0

    return int(await until(epoch))


async def test_a_claim_without_a_broker_fails_in_time(expendable: Broker) -> None:
    """A claim without a broker fails in time; a later one succeeds and fences the earlier epoch."""
    await create_topic(expendable, "claims", 2)
    async with opened(expendable.bootstrap, writing=SOON, reading=READ_SOON) as log:
        epoch = await log.claim()
        await log.append([put("claims", "a")], epoch)
        await expendable.hang()
        try:
            with pytest.raises(LogUnavailable):
                await log.claim()
            with pytest.raises(LogUnavailable):
                await log.check_writable(epoch)
        finally:
            await expendable.go_on()
        newest = await _claimed_later(log)
        await log.append([put("claims", "b")], newest)
        with pytest.raises(Fenced):
            await log.append([put("claims", "c")], epoch)


async def test_a_close_ends_in_time_while_the_broker_hangs(expendable: Broker) -> None:
    """Closing ends in time, and wakes the caller."""
    await create_topic(expendable, "closed", 2)
    writing = WriteLimits(close_timeout_ms=500)
    async with opened(expendable.bootstrap, writing=writing, reading=READ_SOON) as log:
        await log.append([put("closed", "a"), put("closed", "a", 1)])
        await log.append([put("closed", "a")])
        await expendable.hang()
        try:
            appends = [
                asyncio.create_task(log.append([put("closed", "b"), put("closed", "b", number)]))
                for number in (0, 1)
            ]
            await asyncio.sleep(0)
            async with asyncio.timeout(PATIENCE_S):
                await log.close()
                results = await asyncio.gather(*appends, return_exceptions=True)
        finally:
            await expendable.go_on()
        assert all(isinstance(result, LogUnavailable) for result in results)


FORGOTTEN_SOON = {
    "transactional__id__expiration__ms": 500,
    "transaction__remove__expired__transaction__cleanup__interval__ms": 50,
    "producer__id__expiration__ms": 500,
    "producer__id__expiration__check__interval__ms": 50,
}
"""Settings of a broker that forgets an idle writer after half a second instead of days."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def forgetful(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Broker]:
    """Broker that soon forgets idle writers."""
    async with up(RELEASES[-1], tmp_path_factory.mktemp("forgetful"), **FORGOTTEN_SOON) as broker:
        yield broker


FORGOTTEN_S = 1.0
FORGOTTEN = 49
"""Code of a coordinator that does not know the id, or not this producer."""


async def test_a_forgotten_writer_continues(forgetful: Broker) -> None:
    """A writer that the brokers have forgotten continues, unless another one has claimed the id.

    Each of its appends is a transaction, because its last one is old.
    """
    await create_topic(forgetful, "forgotten", 2)
    options: Any = {
        "batch_topics": frozenset({"forgotten"}),
        "writing": WriteLimits(confirmation_max_age_ms=0),
    }
    async with (
        opened(forgetful.bootstrap, **options) as log,
        opened(forgetful.bootstrap, **options) as rival,
    ):
        epoch = await log.claim()
        await _until_forgotten(forgetful)
        for number, second in enumerate((0, 1, 0)):
            await asyncio.sleep(FORGOTTEN_S)
            await log.append(
                [put("forgotten", f"{number}"), put("forgotten", f"{number}", second)], epoch
            )
        await asyncio.sleep(FORGOTTEN_S)
        await rival.append([put("forgotten", "rival")], await rival.claim())
        for second in (0, 1):
            with pytest.raises(Fenced):
                await log.append([put("forgotten", "z"), put("forgotten", "z", second)], epoch)
        counts = Counter(entry.key for entry in await _committed(rival, "forgotten"))
        assert counts == {b"0": 2, b"1": 2, b"2": 2, b"rival": 1}


async def _until_forgotten(broker: Broker) -> None:
    """Wait until the coordinator does not know the first writer any more."""
    first = ProducerIdentity(0, 0)
    cluster = Cluster(addresses(broker.bootstrap), KafkaSecurity(), ReadLimits())
    coordinator = TransactionCoordinator(cluster, ID, WriteLimits())
    try:
        async with asyncio.timeout(PATIENCE_S):
            while await coordinator.end(first, commit=False) != FORGOTTEN:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        await cluster.close()


async def test_a_batch_is_not_resent_after_its_deadline(
    forgetful: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of a writer that was cut off does not arrive after partitions forgot the claim."""
    send = AIOKafkaClient.send

    async def cut_off(client: AIOKafkaClient, node: Any, request: Any, **options: Any) -> Any:
        if isinstance(request, ProduceRequest):
            raise KafkaConnectionError("no route to the broker")
        return await send(client, node, request, **options)

    async with _rivals(forgetful, "cut-off") as (log, rival):
        epoch = await log.claim()
        with monkeypatch.context() as patch:
            patch.setattr(AIOKafkaClient, "send", cut_off)
            with pytest.raises(LogUnavailable):
                await log.append([put("cut-off", "zombie")], epoch)
            await rival.claim()
            await asyncio.sleep(FORGOTTEN_S)
        await asyncio.sleep(FORGOTTEN_S)
        assert await _committed(rival, "cut-off") == []


async def test_old_records_do_not_end_a_fence(expendable: Broker) -> None:
    """A partition forgets a producer whose last record is old; it must not forget the claim."""
    async with _rivals(expendable, "old") as (log, rival):
        epoch = await log.claim()
        newest = await rival.claim()
        await rival.append([Record("old", 0, T0 - 2 * 86_400_000, b"old", b"v")], newest)
        await asyncio.sleep(FORGOTTEN_S)
        with pytest.raises(Fenced):
            await log.append([put("old", "zombie")], epoch)
        assert [entry.key for entry in await _committed(rival, "old")] == [b"old"]


@asynccontextmanager
async def _rivals(broker: Broker, topic: str) -> AsyncIterator[tuple[KafkaLog, KafkaLog]]:
    """Two logs of one transactional id, and a new topic for batches."""
    settings: Any = {"writing": SOON, "batch_topics": frozenset({topic})}
    await create_topic(broker, topic, 1)
    async with (
        opened(broker.bootstrap, **settings) as log,
        opened(broker.bootstrap, **settings) as rival,
    ):
        yield log, rival
