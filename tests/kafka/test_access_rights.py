"""Missing ACLs: each request of the log, of groups and of the services names the missing right.

The user has every right that the request needs, except one. The request is refused at once, the
sentence names operation and resource, and nothing is written. With that right the request succeeds.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest

from controlplane.attached.settings import ConnectSettings
from controlplane.cli.serve.own_topics import own_service
from controlplane.core.commands import CreateConnector, RestartTask
from controlplane.core.entry import Entry
from controlplane.core.state import Topics
from controlplane.logs.kafka.admin.consumer_groups import GroupAdmin
from controlplane.logs.kafka.admin.topic_admin import TopicAdmin
from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.log import KafkaLog
from controlplane.logs.kafka.protocol.admin_requests import TopicSpec
from controlplane.logs.log import LogError, LogNotUsable
from controlplane.plane import Surroundings
from controlplane.plane_settings import plane_settings
from controlplane.rest.app import App
from controlplane.settings import Configuration
from controlplane.settings.sources import flag_values
from tests.conftest import sampled
from tests.kafka.access_rights import Right, allow, revoke, security_of, settings_of
from tests.kafka.attached_cluster import BrokerLogin, attached_to, ended
from tests.kafka.broker_worker import worker_on
from tests.kafka.claimed_logs import opened, put
from tests.kafka.conftest import NEWEST, unused_name
from tests.kafka.consumers import groups_of
from tests.kafka.own_service import own_settings
from tests.kafka.producer import create_topic, reading, writer
from tests.kafka.real_kafka import OAUTH_LISTENER, Broker, KafkaWorker
from tests.kafka.test_serve_own import SOURCE
from tests.logs.reading_contract import entries_of
from tests.patience import PATIENCE_S
from tests.worker.scripted_source import ScriptedSource, script, scripted
from tests.worker.worker_fixture import task_trace, until_state

pytestmark = [pytest.mark.java, pytest.mark.broker, NEWEST]


class UserRequests:
    """Requests of one user, and the names of their resources."""

    def __init__(self, log: KafkaLog, cluster: Cluster, name: str) -> None:
        self.log = log
        self.topics = TopicAdmin(cluster, ReadLimits())
        self.groups = GroupAdmin(cluster, ReadLimits())
        self.topic, self.new, self.group, self.id = names_of(name).values()

    async def read(self) -> Sequence[Entry]:
        """Read the topic to its end."""
        return await entries_of(self.log.read([self.topic]))

    async def transaction(self) -> None:
        """Claim the log, and append to two partitions."""
        epoch = await self.log.claim()
        await self.log.append([put(self.topic, "a"), put(self.topic, "b", 1)], epoch)

    async def beside(self, *partitions: int) -> None:
        """Append to these partitions without a claim."""
        await self.log.append([put(self.topic, "a", partition) for partition in partitions])

    async def end_offsets(self) -> None:
        """Request the end of a sink's topic; raise the reason if it is unknown."""
        end = (await self.groups.ends([(self.topic, 0)]))[self.topic, 0]
        if end.offset is None:
            raise LogNotUsable(end.reason)


def names_of(name: str) -> dict[str, str]:
    """Topic, missing topic, group and transactional id of a case."""
    return {
        "topic": name,
        "new": f"{name}-new",
        "group": f"{name}-group",
        "id": f"{name}-id",
    }


class AccessCase(NamedTuple):
    """Request, the rights of its user, and the missing right."""

    request: Callable[[UserRequests], Awaitable[Any]]
    missing: Right
    rights: tuple[Right, ...] = ()
    words: str = ""
    """Pattern of the sentence, if it does not name the resource."""


READ = Right("READ", "topic", "{topic}")
WRITE = Right("WRITE", "topic", "{topic}")
SEE = Right("DESCRIBE", "topic", "{topic}")
SEE_NEW = Right("DESCRIBE", "topic", "{new}")
CREATE = Right("CREATE", "topic", "{new}")
SEE_ID = Right("DESCRIBE", "transactional id", "{id}")
USE_ID = Right("WRITE", "transactional id", "{id}")
USE_BESIDE = Right("WRITE", "transactional id", "{id}-beside-", prefixed=True)
SEE_GROUP = Right("DESCRIBE", "group", "{group}")
READ_GROUP = Right("READ", "group", "{group}")
DELETE_GROUP = Right("DELETE", "group", "{group}")
IDEMPOTENT = Right("IDEMPOTENT_WRITE", "cluster", "kafka-cluster")
CONFIGS = Right("DESCRIBE_CONFIGS", "topic", "{topic}")

CASES = {
    "ends": AccessCase(lambda user: user.log.ends([user.topic]), SEE),
    "read": AccessCase(UserRequests.read, READ, (SEE,)),
    "check": AccessCase(lambda user: user.log.starts([user.topic]), SEE, (CONFIGS,)),
    "describe configs": AccessCase(
        lambda user: user.topics.configs([user.topic]), CONFIGS, (READ,)
    ),
    "create": AccessCase(
        lambda user: user.topics.create([TopicSpec(user.new, 1)]), CREATE, (SEE_NEW,)
    ),
    "create, unseen": AccessCase(
        lambda user: user.log.create_topic(user.new, 1), SEE_NEW, (CREATE,)
    ),
    "create a log's topic": AccessCase(
        lambda user: user.log.create_topic(user.new, 1), CREATE, (SEE_NEW,)
    ),
    "claim": AccessCase(lambda user: user.log.claim(), USE_ID),
    "claim, seen": AccessCase(lambda user: user.log.claim(), USE_ID, (SEE_ID,)),
    "transaction": AccessCase(UserRequests.transaction, WRITE, (READ, USE_ID)),
    "batch": AccessCase(lambda user: user.beside(0), WRITE, (READ, IDEMPOTENT)),
    "producer": AccessCase(
        lambda user: user.beside(0),
        WRITE,
        (READ,),
        "allow this user WRITE on the topics, or IDEMPOTENT_WRITE on the cluster",
    ),
    "batches": AccessCase(lambda user: user.beside(0, 1), USE_BESIDE, (READ, WRITE)),
    "members": AccessCase(lambda user: user.log.group_members(user.group), SEE_GROUP, (SEE,)),
    "committed": AccessCase(lambda user: user.groups.committed(user.group), SEE_GROUP, (SEE,)),
    "commit": AccessCase(
        lambda user: user.groups.commit(user.group, {(user.topic, 0): 7}), READ_GROUP, (READ,)
    ),
    "commit, topic": AccessCase(
        lambda user: user.groups.commit(user.group, {(user.topic, 0): 7}), READ, (READ_GROUP, SEE)
    ),
    "remove": AccessCase(
        lambda user: user.groups.remove(user.group, [(user.topic, 0)]),
        DELETE_GROUP,
        (READ, READ_GROUP),
    ),
    "remove, topic": AccessCase(
        lambda user: user.groups.remove(user.group, [(user.topic, 0)]), READ, (DELETE_GROUP, SEE)
    ),
    "delete": AccessCase(
        lambda user: user.groups.delete(user.group), DELETE_GROUP, (READ, READ_GROUP)
    ),
    "fence": AccessCase(lambda user: user.groups.fence(user.id), USE_ID, (SEE_ID,)),
    "fence, unseen": AccessCase(lambda user: user.groups.fence(user.id), USE_ID),
    "lag": AccessCase(UserRequests.end_offsets, SEE),
}
"""Every request that needs a right."""


def named(right: Right, name: str) -> Right:
    """Right on the resource of a case."""
    return right._replace(name=right.name.format(**names_of(name)))


@asynccontextmanager
async def requests_of(broker: Broker, user: str, name: str) -> AsyncIterator[UserRequests]:
    """Requests of a user, with their own connections."""
    address, security = broker.address(OAUTH_LISTENER), security_of(user)
    cluster = Cluster(addresses(address), security, ReadLimits())
    async with opened(address, security, transactional_id=names_of(name)["id"]) as log:
        yield UserRequests(log, cluster, name)
    await cluster.close()


async def contents(broker: Broker, name: str) -> tuple[Any, ...]:
    """State that a refused request must not change: topics, their ends, the group's offsets."""
    topic, new, group, _ = names_of(name).values()
    async with reading(broker.bootstrap) as reader, groups_of(broker.bootstrap) as groups:
        partition_counts = await reader.topics()
        return (
            partition_counts.get(new),
            await entries_of(reader.read([topic])),
            await groups.committed(group),
        )


async def soon(request: Callable[[], Awaitable[Any]]) -> None:
    """Send a request until it succeeds: a broker applies a new right a moment later."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await request()
            except LogError:
                await asyncio.sleep(0.05)
            else:
                return


def check_sentence(sentence: str, right: Right) -> None:
    """Check that the sentence names the missing operation and its resource, on one line."""
    pattern = rf"allow this user ([A-Z_]+ and )?{right.operation}\b.* on "
    assert re.search(pattern, sentence), sentence
    assert right.name in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize("case", sampled(CASES, *[*CASES][::3]))
async def test_a_missing_right_is_named_and_nothing_is_written(broker: Broker, case: str) -> None:
    """The request is refused, names the right, and changes nothing; with the right it succeeds."""
    request, missing, rights, words = CASES[case]
    name = unused_name()
    user, right = f"user-{name}", named(missing, name)
    await create_topic(broker, name, 2)
    async with writer(broker) as out, groups_of(broker.bootstrap) as groups:
        await out.put(name, 0, b"k", b"v")
        await groups.commit(names_of(name)["group"], {(name, 0): 1})
    await allow(broker, user, [named(other, name) for other in rights])
    before = await contents(broker, name)
    async with requests_of(broker, user, name) as sent:
        with pytest.raises(LogNotUsable) as refused:
            await request(sent)
        sentence = str(refused.value)
        if words:
            assert re.search(words, sentence), sentence
        else:
            check_sentence(sentence, right)
        assert await contents(broker, name) == before
        await allow(broker, user, [right])
        await soon(lambda: request(sent))


async def test_the_cluster_id_needs_no_right(broker: Broker) -> None:
    """A user without rights reaches the cluster and reads its id, but sees no topic."""
    name = unused_name()
    await create_topic(broker, name, 2)
    async with requests_of(broker, f"user-{name}", name) as sent:
        await sent.log.check_writable()
        assert sent.log.cluster_id
        assert await sent.log.topics() == {}


async def test_settings_that_may_not_be_seen_are_not_checked(broker: Broker) -> None:
    """Without DESCRIBE_CONFIGS the clean-up policy is not checked, as in a worker."""
    name = unused_name()
    await create_topic(broker, name, 2, cleanup__policy="delete")
    user = f"user-{name}"
    await allow(broker, user, [named(READ, name)])
    async with requests_of(broker, user, name) as sent:
        assert await sent.log.check([name]) == []
        await allow(broker, user, [named(CONFIGS, name)])
        assert "has cleanup.policy=delete" in (await sent.log.check([name]))[0]


@pytest.mark.parametrize("missing", [USE_ID, WRITE], ids=["id", "topic"])
async def test_a_writer_loses_a_right(broker: Broker, missing: Right) -> None:
    """An append is refused whole; with the right the same epoch continues."""
    name = unused_name()
    user, right = f"user-{name}", named(missing, name)
    await create_topic(broker, name, 2)
    await allow(
        broker, user, [named(held_right, name) for held_right in (READ, WRITE, USE_ID, SEE_ID)]
    )
    async with requests_of(broker, user, name) as sent:
        epoch = await sent.log.claim()

        async def append() -> None:
            await sent.log.append([put(name, "a"), put(name, "b", 1)], epoch)

        await append()
        await revoke(broker, user, right)
        with pytest.raises(LogNotUsable) as refused:
            await append()
        check_sentence(str(refused.value), right)
        if missing is USE_ID:
            with pytest.raises(LogNotUsable, match="allow this user WRITE"):
                await sent.log.check_writable(epoch)
        await allow(broker, user, [right])
        await append()
        entries = await sent.read()
        keys = sorted(entry.key or b"" for entry in entries if not entry.aborted)
        assert keys == [b"a", b"a", b"b", b"b"]


async def test_a_reader_loses_a_right(broker: Broker) -> None:
    """A tail retries for a bounded time, and then raises the sentence."""
    name = unused_name()
    user, right = f"user-{name}", named(READ, name)
    await create_topic(broker, name, 2)
    await allow(broker, user, [right])
    brief = ReadLimits(refusal_patience_ms=300)
    async with (
        writer(broker) as out,
        reading(broker.address(OAUTH_LISTENER), security=security_of(user), limits=brief) as reader,
    ):
        await out.put(name, 0, b"k", b"v")
        tail = reader.tail([name], {})
        assert len(await anext(tail)) == 1
        await revoke(broker, user, right)
        with pytest.raises(LogNotUsable) as refused:
            await asyncio.wait_for(entries_of(tail), PATIENCE_S)
        check_sentence(str(refused.value), right)


# --- services -------------------------------------------------------------------------------------


def own_rights(own_topics: Topics) -> dict[str, Right]:
    """All rights of a service on its own topics, which do not exist yet."""
    name = own_topics.config.removesuffix("configs")
    return {
        "group": Right("DESCRIBE", "group", own_topics.config),
        "create": Right("CREATE", "topic", name, prefixed=True),
        "read": Right("READ", "topic", name, prefixed=True),
        "id": Right("WRITE", "transactional id", f"connect-cluster-{own_topics.config}"),
        "write": Right("WRITE", "topic", name, prefixed=True),
    }


@asynccontextmanager
async def own_of(
    broker: Broker, user: str, own_topics: Topics, folder: Path
) -> AsyncIterator[httpx.AsyncClient]:
    """Client of a user's service on its own topics."""
    settings = {
        **own_settings(own_topics),
        **settings_of(user, folder),
        "controller.write.patience.ms": "300",
    }
    configuration = Configuration(flag_values((key, key, text) for key, text in settings.items()))
    plane = plane_settings(configuration, on_kafka=True)
    where = f"kafka://{broker.address(OAUTH_LISTENER)}"
    async with own_service(where, configuration, plane, Surroundings()) as own:
        transport = httpx.ASGITransport(App(own))
        async with httpx.AsyncClient(transport=transport, base_url="http://own") as client:
            yield client


@pytest.mark.parametrize("missing", ["group", "create", "read", "id"])
async def test_own_topics_without_a_right_start_no_service(
    broker: Broker, own_topics: Topics, missing: str, tmp_path: Path
) -> None:
    """The service does not start, and no topic has a record; with the right it starts."""
    user, rights = f"user-{own_topics.config}", own_rights(own_topics)
    await allow(broker, user, [right for name, right in rights.items() if name != missing])
    with pytest.raises(LogNotUsable) as refused:
        async with own_of(broker, user, own_topics, tmp_path):
            raise AssertionError("started without a right")
    check_sentence(str(refused.value), rights[missing])
    async with reading(broker.bootstrap) as reader:
        names = {own_topics.config, own_topics.offsets, own_topics.status, own_topics.commands}
        ends = await reader.ends(names & {*await reader.topics()})
        assert not any(any(partitions) for partitions in ends.values())
    await allow(broker, user, [rights[missing]])

    async def start() -> None:
        async with own_of(broker, user, own_topics, tmp_path) as client:
            assert (await client.put("/connectors/a/config", json=SOURCE)).is_success

    await soon(start)


def with_offsets(connector: str) -> dict[str, Any]:
    """Body of a creation with offsets that lie in several partitions of the topic."""
    offsets = [
        {"partition": {"filename": f"{number}"}, "offset": {"position": 1}} for number in range(20)
    ]
    return {"name": connector, "config": SOURCE, "initial_offsets": offsets}


@pytest.mark.parametrize("missing", ["write", "id"])
async def test_own_topics_lose_a_right(
    broker: Broker, own_topics: Topics, missing: str, tmp_path: Path
) -> None:
    """Commands fail with the sentence, reads continue; commands succeed once the right is back.

    Only a transaction needs the right to the id, here for offsets in several partitions.
    """
    user, rights = f"user-{own_topics.config}", own_rights(own_topics)
    await allow(broker, user, rights.values())
    async with own_of(broker, user, own_topics, tmp_path) as client:
        assert (await client.post("/connectors", json=with_offsets("a"))).is_success
        await revoke(broker, user, rights[missing])
        answer = await client.post("/connectors", json=with_offsets("b"))
        assert answer.is_server_error
        check_sentence(answer.json()["message"], rights[missing])
        assert (await client.get("/connectors")).json() == ["a"]
        await allow(broker, user, [rights[missing]])
        assert (await client.post("/connectors", json=with_offsets("c"))).is_success
        assert (await client.get("/connectors")).json() == ["a", "c"]


async def test_a_task_without_the_right_to_its_id_never_starts(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """A task without the right to its id is FAILED and not started; its trace names the right.

    Only an exactly-once task has such an id.
    """
    script.reset()
    user = f"user-{own_topics.config}"
    missing = Right("WRITE", "transactional id", f"{own_topics.config}-s-0")
    await allow(broker, user, own_rights(own_topics).values())
    login: dict[str, Any] = settings_of(user, tmp_path)
    login["exactly.once.source.support"] = "enabled"
    address = broker.address(OAUTH_LISTENER)
    async with worker_on(broker, own_topics, ScriptedSource, bootstrap=address, **login) as worker:
        await worker.plane.execute(CreateConnector("s", scripted()))
        await until_state(worker, "s", "RUNNING", "FAILED")
        check_sentence(task_trace(worker, "s").splitlines()[-1], missing)
        assert script.calls == []
        await allow(broker, user, [missing])
        await worker.plane.execute(RestartTask("s", 0))
        await until_state(worker, "s", "RUNNING", "RUNNING")
        assert script.calls[0] == "start"


async def test_an_attached_service_needs_read_on_three_topics(
    broker: Broker, tmp_path: Path
) -> None:
    """The service needs READ on the three topics, at the start and while it runs.

    A command without the right is compared with its plan once the service has the right again.
    """
    name = unused_name()
    names = Topics(*(f"{name}-{part}" for part in ("configs", "offsets", "status")))
    read = {topic: Right("READ", "topic", topic) for topic in msgspec.structs.astuple(names)[:3]}
    stores: dict[str, Any] = {
        "group__id": name,
        "config__storage__topic": names.config,
        "offset__storage__topic": names.offsets,
        "status__storage__topic": names.status,
    }
    async with KafkaWorker(broker.release, broker, **stores) as worker:
        where = f"kafka://{broker.address(OAUTH_LISTENER)}"
        for topic, missing in read.items():
            user = f"without-{topic}"
            login: BrokerLogin = where, settings_of(user, tmp_path)
            await allow(broker, user, [right for right in read.values() if right != missing])
            with pytest.raises(LogNotUsable) as refused:
                async with attached_to(broker, [worker], topics=names, login=login):
                    raise AssertionError("attached without a right")
            check_sentence(str(refused.value), missing)
        user = f"user-{name}"
        await allow(broker, user, read.values())
        login = where, settings_of(user, tmp_path)
        brief = ConnectSettings(read_on_ms=500, records_ms=500)
        attached = attached_to(broker, [worker], topics=names, login=login, limits=brief)
        async with attached as client:
            body = {"name": "s", "config": SOURCE, "initial_state": "STOPPED"}
            assert (await client.post("/connectors", json=body)).is_success
            assert (await ended(client))["compared"] == "as planned"
            await revoke(broker, user, read[names.config])
            while (unread := await client.get("/commands")).is_success:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.05)  # a fetch that began before may still succeed
            check_sentence(unread.json()["message"], read[names.config])
            assert (await client.put("/connectors/s/pause")).status_code == httpx.codes.ACCEPTED
            # Longer than `records_ms`: unreadable records must not count as missing.
            await asyncio.sleep(1)
            await allow(broker, user, [read[names.config]])
            row = await ended(client)
    assert (row["outcome"], row["compared"]) == ("done", "as planned"), row
    assert row["records"]
