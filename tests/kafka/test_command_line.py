"""Commands on a real cluster: `kafka://` works wherever a log does, and each refusal is clear."""

import asyncio
from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from controlplane.logs.dumps import read_dump
from tests.cli.command_calls import CommandResult, call, refusal
from tests.kafka.conftest import NEWEST
from tests.kafka.producer import NewTopic, reading, writer
from tests.kafka.real_kafka import CLUSTER_ID, USERS, Broker

pytestmark = [pytest.mark.java, pytest.mark.broker, NEWEST]

PARTITIONS = {"connect-configs": 1, "connect-offsets": 5, "connect-status": 3}
OPTIONS = {
    "connect-configs": "--config-topic",
    "connect-offsets": "--offset-topic",
    "connect-status": "--status-topic",
}


async def run(*arguments: object) -> CommandResult:
    """Run a command in a thread beside the event loop."""
    return await asyncio.to_thread(call, *arguments)


async def copied(broker: Broker, new_topic: NewTopic, entries: list[Entry]) -> list[str]:
    """Copy entries to new topics of a cluster; return the options that name the topics."""
    names = {topic: await new_topic(count) for topic, count in PARTITIONS.items()}
    async with writer(broker) as out:
        for entry in entries:
            at = names[entry.topic], entry.partition
            await out.put(*at, entry.key, entry.value, timestamp=entry.timestamp)
    return [word for topic, name in names.items() for word in (OPTIONS[topic], name)]


@pytest.fixture
def entries(histories: Path) -> list[Entry]:
    """Small history without gaps and aborted records."""
    return read_dump(histories / "mirror-3.9.log.jsonl").entries


async def test_a_cluster_is_inspected_and_imported(
    broker: Broker, new_topic: NewTopic, entries: list[Entry], histories: Path, tmp_path: Path
) -> None:
    """The cluster, its copy and the original file give the same answers.

    Only the ids in `GET /` differ: cluster and copy have one each, the file has none.
    """
    topics = await copied(broker, new_topic, entries)
    where, copy = f"kafka://{broker.bootstrap}", tmp_path / "copy.db"
    imported = await run("import", where, copy, *topics, "-o", "json")
    assert (imported.code, imported.json["added"]) == (0, len(entries)), imported.err
    partitions = imported.json["files"][0]["topics"]
    # One of the partitions is empty.
    assert sorted(partitions.values()) == sorted(PARTITIONS.values())
    again = await run("import", where, copy, *topics)
    assert f"nothing added: all {len(entries)} records" in again.out
    file = histories / "mirror-3.9.log.jsonl"
    results = [
        await run("inspect", log, "--rest", *options)
        for log, options in ((where, topics), (copy, topics), (file, []))
    ]
    assert [result.code for result in results] == [0, 0, 0], results[0].err
    answers = [result.json for result in results]
    roots = [answer.pop("/")["answer"] for answer in answers]
    ids = [root["kafka_cluster_id"] for root in roots]
    assert (ids[0], len(ids[1]), ids[2]) == (CLUSTER_ID, len(CLUSTER_ID), None)
    assert answers[0] == answers[1] == answers[2]


async def test_a_cluster_is_verified(
    broker: Broker, new_topic: NewTopic, histories: Path, tmp_path: Path
) -> None:
    """The story's positions lie in other topics, so its answers differ: exit code 1."""
    entries = read_dump(histories / "mirror-3.9.log.jsonl").entries
    topics = await copied(broker, new_topic, entries)
    story = histories / "mirror-3.9.story.jsonl"
    result = await run("verify", f"kafka://{broker.bootstrap}", story, *topics)
    assert result.code == 1
    assert "answers agree with the log" in result.out


async def test_a_workers_file_is_enough(
    broker: Broker, new_topic: NewTopic, entries: list[Entry], tmp_path: Path
) -> None:
    """A worker's `.properties` file gives brokers, topics and login."""
    topics = dict(zip(*[iter(await copied(broker, new_topic, entries))] * 2, strict=True))
    file = tmp_path / "worker.properties"
    lines = [
        f"bootstrap.servers={broker.address('SASL_PLAINTEXT')}",
        f"config.storage.topic={topics['--config-topic']}",
        f"offset.storage.topic={topics['--offset-topic']}",
        f"status.storage.topic={topics['--status-topic']}",
        *login("alice"),
    ]
    file.write_text("\n".join(lines), "utf-8")
    result = await run("inspect", "kafka://", "--worker-properties", file, "-o", "json")
    assert result.code == 0, result.err
    assert {row["name"] for row in result.json["connectors"]} == {"beat", "check", "copy"}


async def test_hazards_of_a_cluster_are_listed(
    broker: Broker, new_topic: NewTopic, entries: list[Entry]
) -> None:
    """A poisonous record in Kafka is listed with its position; `--fail` exits with 1."""
    topics, where = await copied(broker, new_topic, entries), f"kafka://{broker.bootstrap}"
    words = ("inspect", where, *topics, "--hazards", "-o", "json")
    before = (await run(*words)).json
    config = topics[topics.index("--config-topic") + 1]
    async with writer(broker) as out:
        await out.put(config, 0, b"connector-poison", b"{}")
    async with reading(broker.bootstrap) as reader:
        ((end,),) = (await reader.ends([config])).values()
    result = await run(*words, "--fail")
    assert result.code == 1, result.err
    (hazard,) = (row for row in result.json["hazards"] if row not in before["hazards"])
    assert hazard["record"]["offset"] == end - 1


def login(name: str) -> list[str]:
    """Login settings of a worker's file."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f'{module} required username="{name}" password="{USERS[name]}";'
    return [
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=PLAIN",
        f"sasl.jaas.config={jaas}",
    ]


async def test_a_missing_topic_is_refused_and_not_created(
    broker: Broker, new_topic: NewTopic, entries: list[Entry], tmp_path: Path
) -> None:
    """The refusal names the topic and the option; no topic is created."""
    topics = await copied(broker, new_topic, entries)
    where, log = f"kafka://{broker.bootstrap}", tmp_path / "log.db"
    for option in OPTIONS.values():
        wrong = [*topics, option, "no-such-topic"]
        for arguments in (["inspect", where], ["import", where, log]):
            sentence = refusal(await run(*arguments, *wrong))
            assert "topic no-such-topic does not exist" in sentence
            assert "--config-topic" in sentence
    assert not log.exists()
    async with reading(broker.bootstrap) as reader:
        assert "no-such-topic" not in await reader.topics()


async def test_records_of_a_cluster_without_connect_are_shown(
    broker: Broker, new_topic: NewTopic
) -> None:
    """`records` needs no topic but its own; it names the topics that there are."""
    topic, where = await new_topic(1, cleanup__policy="delete"), f"kafka://{broker.bootstrap}"
    async with writer(broker) as out:
        await out.put(topic, 0, b"k", b"one")
    missing = [word for name, option in OPTIONS.items() for word in (option, f"no-{name}")]
    result = await run("records", where, topic, *missing, "-o", "json")
    assert result.code == 0, result.err
    assert [record["value"] for record in result.json["records"]] == ["one"]
    sentence = refusal(await run("records", where, "no-such-topic"))
    assert "has no topic 'no-such-topic'; name one that it has: " in sentence


async def test_a_topic_that_is_not_compacted_is_refused(
    broker: Broker, new_topic: NewTopic, entries: list[Entry]
) -> None:
    """The topic is refused, as by a worker: Kafka would delete records that must stay."""
    topics = await copied(broker, new_topic, entries)
    status = await new_topic(3, cleanup__policy="delete")
    result = await run("inspect", f"kafka://{broker.bootstrap}", *topics, "--status-topic", status)
    assert f"topic {status} has cleanup.policy=delete" in refusal(result)


async def test_a_config_topic_with_two_partitions_is_read_with_a_warning(
    broker: Broker, new_topic: NewTopic, entries: list[Entry]
) -> None:
    """The topic is read, with a warning: workers before 2.5.1 accept it."""
    topics = await copied(broker, new_topic, entries)
    where, split = f"kafka://{broker.bootstrap}", await new_topic(2)
    result = await run("inspect", where, *topics, "--config-topic", split, "-o", "json")
    (problem,) = result.json["problems"]
    assert problem.startswith(f"the config topic {split} has 2 partitions and must have one")


async def test_users_without_rights_are_refused(
    broker: Broker, new_topic: NewTopic, entries: list[Entry], tmp_path: Path
) -> None:
    """Bob has no right, and a wrong password is refused; no error repeats the password."""
    topics = await copied(broker, new_topic, entries)
    file = tmp_path / "worker.properties"
    where = f"kafka://{broker.address('SASL_PLAINTEXT')}"
    file.write_text("\n".join(login("bob")), "utf-8")
    result = await run("inspect", where, "--worker-properties", file, *topics)
    assert "may not be read" in refusal(result)
    file.write_text("\n".join(login("bob")).replace(USERS["bob"], "other-secret"), "utf-8")
    sentence = refusal(await run("inspect", where, "--worker-properties", file, *topics))
    assert "refuses the name or the password" in sentence
    assert "other-secret" not in sentence
