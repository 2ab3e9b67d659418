"""Brokers shared by all tests, each test with topics of its own."""

import asyncio
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4
from zlib import crc32

import pytest
import pytest_asyncio

from controlplane.core.state import Topics
from controlplane.logs.kafka.log import KafkaLog
from controlplane.logs.kafka.reads.reader import KafkaReader
from tests.conftest import sampled
from tests.jars import JarsUnavailable
from tests.kafka.claimed_logs import opened
from tests.kafka.class_recorder import record_classes
from tests.kafka.producer import NewTopic, create_topic, reading
from tests.kafka.real_kafka import GIVEN_BROKER, GIVEN_RELEASE, Broker, GivenBroker
from tests.kafka.topic_histories import TopicHistory, cluster_with_history

HERE = Path(__file__).parent

RELEASES = ("3.9.1", "4.3.0")
NEWEST = pytest.mark.parametrize("broker", sampled(RELEASES, RELEASES[-1]), indirect=True)
"""Mark: `make test` runs on the newest broker, `make prove` on each."""

SECURE = ("SASL_PLAINTEXT", "SSL", "SASL_SSL")

CALM: dict[str, object] = {
    "broker__heartbeat__interval__ms": 2_000,
    "broker__session__timeout__ms": 9_000,
}
"""Settings of a broker that is never killed. They halve its processor time while it is idle."""

GIVEN = os.environ.get(GIVEN_BROKER)

EVERY_RELEASE = frozenset(
    {
        "test_contract.py",
        "test_fenced_batches.py",
        "test_log_writes.py",
        "test_worker_offset_claims.py",
    }
)
"""Modules whose tests `make test` runs on each release: they test guarantees of brokers."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run each test on one release in `make test`, and on all of them in `make prove`.

    A hash of the test's name selects the release. So each release has about half of the tests, and
    each run has the same ones.
    """
    variants: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            continue
        release = item.callspec.params.get("broker")
        is_shared = item.path.parent == HERE and item.path.name not in EVERY_RELEASE
        if is_shared and release in RELEASES and not item.get_closest_marker("prove"):
            variants[item.nodeid.replace(release, "")].append(item)
    for name, tests in variants.items():
        kept = crc32(name.encode()) % len(tests)
        for test in (*tests[:kept], *tests[kept + 1 :]):
            test.add_marker(pytest.mark.prove)


_numbers = count()
_RUN = f"{uuid4().hex[:8]}-" if GIVEN else ""
"""Part of names that distinguishes runs on an existing broker."""


def unused_name() -> str:
    """Name that no topic or group of the shared brokers has."""
    return f"topic-{_RUN}{next(_numbers)}"


@asynccontextmanager
async def up(release: str, directory: Path, **options: Any) -> AsyncIterator[Broker]:
    """Run a broker within the block; skip the test if its jars are unavailable."""
    try:
        await record_classes(release)
        broker = Broker(release, directory, **options)
    except JarsUnavailable as missing:
        pytest.skip(str(missing))
    async with broker:
        yield broker


@pytest_asyncio.fixture(
    scope="session",
    loop_scope="session",
    params=[os.environ.get(GIVEN_RELEASE, RELEASES[0])] if GIVEN else RELEASES,
)
async def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Broker]:
    """Broker that all tests of one release share, with every kind of listener. Do not stop it.

    With `KAFKA_BOOTSTRAP` it is the broker at that address, which has one listener.
    """
    directory = tmp_path_factory.mktemp("kafka")
    if GIVEN:
        yield GivenBroker(GIVEN, request.param, directory)
        return
    async with up(request.param, directory, listeners=SECURE, **CALM) as shared:
        _shared.append(shared)
        yield shared
        with suppress(ValueError):  # stopped already
            _shared.remove(shared)


_shared: list[Broker] = []
"""Shared broker that runs in this process."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Stop the shared broker after the last test of its group.

    Otherwise it would idle until the process has run all its groups. Without `pytest -n` there are
    no groups, and pytest stops the broker.
    """
    from tests.scheduling import group_of  # noqa: PLC0415 - pytest warns of a plugin imported before it loads it

    result = yield
    if hasattr(item.config, "workerinput"):
        following = nextitem and group_of(nextitem.nodeid)
        while _shared and following != group_of(item.nodeid):
            asyncio.run(_shared.pop().kill9())
    return result


@pytest_asyncio.fixture
async def reader(broker: Broker) -> AsyncIterator[KafkaReader]:
    """Reader of the shared broker."""
    async with reading(broker.bootstrap) as opened:
        yield opened


@pytest_asyncio.fixture
async def topic(broker: Broker) -> str:
    """New compacted topic of three partitions."""
    name = unused_name()
    await create_topic(broker, name, 3)
    return name


@pytest_asyncio.fixture
async def new_topic(broker: Broker) -> NewTopic:
    """Factory of fresh topics: takes the number of partitions and configs, returns the name."""

    async def make(partitions: int = 1, **configs: object) -> str:
        name = unused_name()
        await create_topic(broker, name, partitions, **configs)
        return name

    return make


@pytest.fixture
def own_topics() -> Topics:
    """Names of a worker's topics, none of which exists."""
    name = unused_name()
    return Topics(*(f"{name}-{part}" for part in ("configs", "offsets", "status", "commands")))


@pytest_asyncio.fixture
async def past(broker: Broker, new_topic: NewTopic) -> TopicHistory:
    """Cluster in which Kafka has compacted, removed and marked some records."""
    return await cluster_with_history(broker, new_topic)


@pytest_asyncio.fixture
async def log(broker: Broker, topic: str) -> AsyncIterator[KafkaLog]:
    """Log of the shared broker. Appends to one partition of the topic need no transaction."""
    async with opened(broker.bootstrap, batch_topics=frozenset({topic})) as log:
        yield log


@pytest_asyncio.fixture
async def rival(broker: Broker, topic: str) -> AsyncIterator[KafkaLog]:
    """Another writer of the same cluster."""
    async with opened(broker.bootstrap, batch_topics=frozenset({topic})) as log:
        yield log
