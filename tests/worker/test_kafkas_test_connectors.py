"""Twins of the connectors of Kafka's own tests: settings, records, offsets and failures."""

import json
from typing import Any

import msgspec
import pytest

from controlplane.core.commands import AlterOffsets, CreateConnector, OffsetChange, StopConnector
from controlplane.plane import Settings
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.plugin_path import classes_in
from tests.worker.worker_fixture import (
    ABANDONING,
    QUICK,
    STRING,
    committed_offsets,
    connector_status,
    entries_in,
    offsets,
    produce,
    running_classes,
    task_trace,
    until,
    until_state,
    until_values,
    values_in,
)

TOOLS = "org.apache.kafka.connect.tools"
INTEGRATION = "org.apache.kafka.connect.integration"
JSON = "org.apache.kafka.connect.json.JsonConverter"


def shipped() -> ConnectorClasses:
    """Connectors that ship with the package."""
    return classes_in(["controlplane.connectors"])


def monitorable() -> ConnectorClasses:
    """Connectors of Kafka's integration tests."""
    return classes_in(["tests.integration.monitorable_connectors"])


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Lines of JSON on standard output since the last call, without their times."""
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [{name: line[name] for name in line if name != "time_ms"} for line in lines]


def without_schemas(**config: str) -> dict[str, str]:
    """Config whose values are plain JSON; `_` in a key stands for a dot."""
    dotted = {key.replace("_", "."): value for key, value in config.items()}
    return {"value.converter": JSON, "value.converter.schemas.enable": "false", **dotted}


async def test_a_verifiable_source_counts_and_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """A record is printed when it is read, and once more when it is acknowledged."""
    async with running_classes(shipped()) as worker:
        config = without_schemas(topic="t", throughput="100", tasks_max="1")
        config["connector.class"] = "VerifiableSourceConnector"
        await worker.plane.execute(CreateConnector("v", config))
        await until_values(worker.plane.log, "t", [b"0", b"1", b"2"])
        await until(lambda: offsets(worker, "v").get("{'id': 0}", {}).get("seqno", 0) >= 2)
        await worker.plane.execute(StopConnector("v"))
        await until_state(worker, "v", "STOPPED")
    lines = printed(capsys)
    first = {"name": "v", "task": 0, "topic": "t", "seqno": 0}
    assert lines[0] == first
    assert first | {"committed": True} in lines


async def test_a_verifiable_source_resumes_behind_its_offset() -> None:
    """The source continues with the number after the committed one."""
    async with running_classes(shipped()) as worker:
        config = without_schemas(topic="t", throughput="100")
        config["connector.class"] = f"{TOOLS}.VerifiableSourceConnector"
        start = ((OffsetChange({"id": 0}, {"seqno": 41})),)
        await worker.plane.execute(
            CreateConnector("v", config, initial_offsets=start)  # KIP-995
        )
        await until_values(worker.plane.log, "t", [b"42", b"43"])


async def test_complete_values_have_the_printed_fields(capsys: pytest.CaptureFixture[str]) -> None:
    """With `complete.record.data` a value has all printed fields."""
    async with running_classes(shipped()) as worker:
        config = without_schemas(topic="t", throughput="100")
        config |= {"complete.record.data": "true"}
        config["connector.class"] = f"{TOOLS}.VerifiableSourceConnector"
        await worker.plane.execute(CreateConnector("v", config))
        await until(lambda: offsets(worker, "v"))
        values = await values_in(worker.plane.log, "t")
    value = json.loads(values[0] or b"")
    assert value.pop("time_ms") > 0
    assert value == {"name": "v", "task": 0, "topic": "t", "seqno": 0}
    assert value in printed(capsys)


@pytest.mark.parametrize("numbers", [{}, {"throughput": "fast"}])
async def test_a_verifiable_source_needs_its_numbers(numbers: dict[str, str]) -> None:
    """A missing or wrong number fails the task."""
    async with running_classes(shipped()) as worker:
        config = without_schemas(topic="t", **numbers)
        config["connector.class"] = f"{TOOLS}.VerifiableSourceConnector"
        await worker.plane.execute(CreateConnector("v", config))
        await until_state(worker, "v", "RUNNING", "FAILED")
        assert "Invalid VerifiableSourceTask configuration" in task_trace(worker, "v")


async def test_a_verifiable_sink_prints_records_and_flushes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A record is printed when it is put, and once more when its offset is committed."""
    async with running_classes(shipped()) as worker:
        await produce(worker.plane.log, "t", "one")
        config = {"connector.class": f"{TOOLS}.VerifiableSinkConnector", "topics": "t"}
        await worker.plane.execute(CreateConnector("v", config))
        await until(lambda: committed_offsets(worker, "connect-v").get(("t", 0)) == 1)
    put = {"name": "v", "task": None, "sinkTask": 0, "topic": "t", "seqno": "one", "offset": 0}
    assert printed(capsys) == [put, put | {"flushed": True}]


async def test_a_verifiable_sink_prints_half_of_a_surrogate_pair(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Java prints a question mark in its place; the line stays JSON."""
    async with running_classes(shipped()) as worker:
        value = json.dumps({"x\ud800": ["\udc00y", 1, "z"]})
        await produce(worker.plane.log, "t", value)
        config = without_schemas(topics="t")
        config |= {"connector.class": f"{TOOLS}.VerifiableSinkConnector"}
        await worker.plane.execute(CreateConnector("v", config))
        await until(lambda: committed_offsets(worker, "connect-v").get(("t", 0)) == 1)
    assert [line["seqno"] for line in printed(capsys)] == [{"x?": ["?y", 1, "z"]}] * 2


async def test_a_schema_source_alternates_its_schemas() -> None:
    """Every other value has the second version of the schema; the task rests at the last record."""
    async with running_classes(shipped()) as worker:
        config = without_schemas(
            topic="t", throughput="-1", num_messages="3", multiple_schema="true"
        )
        config |= {"partition.count": "2", "connector.class": f"{TOOLS}.SchemaSourceConnector"}
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: offsets(worker, "s") == {"{'id': 0}": {"seqno": 2}})
        values = [json.loads(value or b"") for value in await values_in(worker.plane.log, "t")]
    assert [value.get("string") for value in values] == [None, "def", None]
    assert [value["partitioning"] for value in values] == [0, 1, 0]
    assert [value["seqno"] for value in values] == [0, 1, 2]
    assert values[0] | {"float": 12.2} == {
        "boolean": True,
        "int": 12,
        "long": 12,
        "float": 12.2,
        "double": 12.2,
        "partitioning": 0,
        "id": 0,
        "seqno": 0,
    }


@pytest.mark.parametrize("kind", ["Source", "Sink"])
async def test_a_mock_connector_fails_after_its_delay(kind: str) -> None:
    """`connector-failure` fails the connector and leaves its only task alone."""
    async with running_classes(shipped()) as worker:
        await worker.plane.execute(CreateConnector("m", mock_config(kind, "connector-failure")))
        await until_state(worker, "m", "FAILED", "RUNNING")
        status = connector_status(worker, "m")
        assert status is not None
        assert "RuntimeError" in (status.trace or "")


@pytest.mark.parametrize("kind", ["Source", "Sink"])
async def test_a_mock_task_fails_after_its_delay(kind: str) -> None:
    """`task-failure` makes the only task fail."""
    async with running_classes(shipped()) as worker:
        await produce(worker.plane.log, "t", "one")
        await worker.plane.execute(CreateConnector("m", mock_config(kind, "task-failure")))
        await until_state(worker, "m", "RUNNING", "FAILED")
        assert "RuntimeError" in task_trace(worker, "m")


def mock_config(kind: str, mode: str) -> dict[str, str]:
    """Config of a connector that fails soon."""
    topics = {"topics": "t"} if kind == "Sink" else {}
    return {
        "connector.class": f"{TOOLS}.Mock{kind}Connector",
        "mock_mode": mode,
        "delay_ms": "20",
        "tasks.max": "3",
        **topics,
    }


async def test_the_twins_run_under_releases_from_3_6() -> None:
    """The originals have been in another jar since 3.6; the twins ship with the runtime."""
    async with running_classes(shipped(), settings=Settings(profile="3.9.1")) as worker:
        await worker.plane.execute(CreateConnector("m", mock_config("Source", "none")))
        await until_state(worker, "m", "RUNNING", "RUNNING")


async def test_a_monitorable_source_has_kafkas_records_and_offsets() -> None:
    """Keys, values, headers and offsets name task and number; `max.messages` limits the records."""
    async with running_classes(monitorable()) as worker:
        await worker.plane.execute(CreateConnector("m", monitorable_config()))
        await until(lambda: offsets(worker, "m") == {"{'task.id': 'm-0'}": {"saved": 5}})
        entries = await entries_in(worker.plane.log, "t")
    assert [(entry.key, entry.value) for entry in entries] == [
        (f"key-m-0-{number}".encode(), f"value-m-0-{number}".encode()) for number in range(1, 6)
    ]
    assert entries[2].headers == (("header-3", b"3"),)


def monitorable_config(**config: str) -> dict[str, str]:
    """Config of a monitorable source with five records."""
    return {
        "connector.class": "MonitorableSourceConnector",
        "topic": "t",
        "messages.per.poll": "3",
        "max.messages": "5",
        "key.converter": STRING,
        "value.converter": STRING,
        **{key.replace("_", "."): value for key, value in config.items()},
    }


async def test_a_monitorable_source_aborts_even_fibonacci_numbers() -> None:
    """Transactions end behind 1, 2, 3, 5 and 8; one that ends behind an even number is aborted."""
    runtime = msgspec.structs.replace(QUICK, exactly_once=True)
    async with running_classes(monitorable(), runtime=runtime) as worker:
        config = monitorable_config(max_messages="8", transaction_boundary="connector")
        await worker.plane.execute(CreateConnector("m", config))
        await until(lambda: offsets(worker, "m") == {"{'task.id': 'm-0'}": {"saved": 8}})
        committed = [1, 3, 4, 5]
        assert await values_in(worker.plane.log, "t") == [
            f"value-m-0-{number}".encode() for number in committed
        ]


@pytest.mark.parametrize(
    ("setting", "states", "words"),
    [
        ("connector.start.inject.error", ("FAILED",), "Injecting errors during connector start"),
        ("task-m-0.start.inject.error", ("RUNNING", "FAILED"), "Injecting errors during task"),
    ],
)
async def test_injected_errors_fail_a_start(
    setting: str, states: tuple[str, ...], words: str
) -> None:
    """The settings of Kafka's tests make a start fail."""
    async with running_classes(monitorable()) as worker:
        config = monitorable_config() | {setting: "true"}
        await worker.plane.execute(CreateConnector("m", config))
        await until_state(worker, "m", *states)
        status = connector_status(worker, "m")
        assert status is not None
        assert words in (status.trace or task_trace(worker, "m"))


@pytest.mark.parametrize("kind", ["Source", "Sink"])
async def test_alter_offsets_returns_the_setting(kind: str) -> None:
    """The answer confirms the new offsets only if `alter.offsets.result` is true."""
    async with running_classes(monitorable()) as worker:
        await produce(worker.plane.log, "t", "one")
        for result in ("true", "false"):
            config = monitorable_config() | {"alter.offsets.result": result}
            config |= {"connector.class": f"{INTEGRATION}.Monitorable{kind}Connector"}
            name = f"{kind}-{result}".lower()
            await worker.plane.execute(CreateConnector(name, sink_or_source(kind, config)))
            await until_state(worker, name, "RUNNING", "RUNNING")
            await worker.plane.execute(StopConnector(name))
            await until_state(worker, name, "STOPPED")
            done: Any = await worker.plane.execute(AlterOffsets(name, (change_of(kind, name),)))
            confirmed = (
                done.message == "The offsets for this connector have been altered successfully"
            )
            assert confirmed == (result == "true")


def sink_or_source(kind: str, config: dict[str, str]) -> dict[str, str]:
    """Config, with topics for a sink."""
    if kind == "Source":
        return config
    return {key: value for key, value in config.items() if key != "topic"} | {"topics": "t"}


def change_of(kind: str, name: str) -> OffsetChange:
    """Offset that a client sets."""
    if kind == "Source":
        return OffsetChange({"task.id": f"{name}-0"}, {"saved": 1})
    return OffsetChange({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 0})


async def test_a_blocking_sink_leaves_its_group() -> None:
    """A task that hangs in its stop is abandoned, and its group's offsets may be altered.

    In Kafka such a task stays a member, and the change is refused. Here it commits nothing more.
    """
    async with running_classes(monitorable(), runtime=ABANDONING) as worker:
        await produce(worker.plane.log, "t", "one")
        config = {
            "connector.class": f"{INTEGRATION}.BlockingConnectorTest$BlockingSinkConnector",
            "topics": "t",
            "block": "Task::stop",
        }
        await worker.plane.execute(CreateConnector("b", config))
        await until_state(worker, "b", "RUNNING", "RUNNING")
        await worker.plane.execute(StopConnector("b"))
        await until_state(worker, "b", "STOPPED")
        await worker.plane.execute(AlterOffsets("b", (change_of("Sink", "b"),)))
        assert committed_offsets(worker, "connect-b") == {("t", 0): 0}
