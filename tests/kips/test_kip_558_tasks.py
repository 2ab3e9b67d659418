"""KIP-558 with running tasks: the topics that a connector uses."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest

from controlplane.connect import Source, key
from controlplane.connect.source import SourceRun
from controlplane.connect.transforms import ConnectRecord, Transformation
from controlplane.core.codec.status import decode_status
from controlplane.core.commands import CreateConnector, DeleteConnector, ResetTopics
from controlplane.core.context import DecisionSettings
from controlplane.core.records import ActiveTopic
from controlplane.core.releases.profiles import Profile
from controlplane.logs.log import Log
from controlplane.plane import Settings
from controlplane.worker.worker import ConnectWorker
from tests.kips.running_source import PlainSource, Script, committed, record, scripted
from tests.worker.failing_records import KeepingSink, transformed_by
from tests.worker.worker_fixture import (
    QUICK,
    committed_offsets,
    config_of,
    produce,
    running,
    until,
    until_state,
    until_values,
)


class TopicsSource(Source):
    """Yields a record for each topic of its config, in turn."""

    config = (key("used", "LIST"),)
    exactly_once = True

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield records for the topics in turn."""
        while True:
            for topic in task.config["used"].split(","):
                yield task.record("value", {"topic": topic}, {"at": 1}, topic=topic)
            yield task.idle(0.005)


class Renamed(Transformation):
    """Sends each record to another topic."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return the record with the topic `renamed`."""
        return msgspec.structs.replace(record, topic="renamed")


class Dropped(Transformation):
    """Drops each record."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Drop the record."""
        del record
        return None


class RefusesAll(Transformation):
    """Fails for each record, and with it the task."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Raise ValueError."""
        raise ValueError(f"cannot read {record.value}")


async def read_by_sink(worker: ConnectWorker, config: Mapping[str, str], *values: str) -> None:
    """Create the sink `c` of a topic `t` with these values."""
    await produce(worker.plane.log, "t", *values)
    sink = config_of(KeepingSink, topics="t") | {**config}
    await worker.plane.execute(CreateConnector("c", sink))


def active(worker: ConnectWorker) -> list[str]:
    """Return the active topics of connector `c`, sorted."""
    return sorted(worker.plane.state.status.active_topics.get("c", {}))


async def notes(log: Log) -> list[str]:
    """Topics of the active-topic records, in order; `-` before a tombstone."""
    profile = Profile.of("kip")
    records = [
        decode_status(entry.key, entry.value, profile)
        async for batch in log.read(["connect-status"])
        for entry in batch.entries()
    ]
    return [
        record.topic if record.activity is not None else f"-{record.topic}"
        for record in records
        if isinstance(record, ActiveTopic)
    ]


class TestFormat:
    """Format of the new status record."""

    async def test_the_first_use_is_recorded(self) -> None:
        """A task that uses a topic for the first time writes such a record."""
        async with running(TopicsSource) as worker:
            plane = worker.plane
            await plane.execute(CreateConnector("c", config_of(TopicsSource, used="a")))
            await until(lambda: active(worker) == ["a"])
            activity = plane.state.status.active_topics["c"]["a"]
            assert (activity.topic, activity.connector, activity.task) == ("a", "c", 0)


class TestRecording:
    """Recording active topics."""

    async def test_each_record_counts(self) -> None:
        """The worker checks the topic of every record of a task, from the first one on."""
        async with running(TopicsSource) as worker:
            await worker.plane.execute(CreateConnector("c", config_of(TopicsSource, used="a,b,c")))
            await until(lambda: active(worker) == ["a", "b", "c"])

    async def test_a_topic_is_recorded_once(self) -> None:
        """A topic in the set is not recorded again by later records."""
        async with running(TopicsSource) as worker:
            plane = worker.plane
            await plane.execute(CreateConnector("c", config_of(TopicsSource, used="a")))
            await until(lambda: active(worker) == ["a"])
            end = (await plane.log.ends(["a"]))["a"][0]
            await until_values(plane.log, "a", [b"value"] * (end + 5))
            assert await notes(plane.log) == ["a"]

    @pytest.mark.parametrize("transformation", [Renamed, Dropped, RefusesAll])
    async def test_a_sink_records_the_topic_before_transformations(
        self, transformation: type[Transformation]
    ) -> None:
        """A sink uses the topic that it reads, whatever becomes of the converted record."""
        async with running(KeepingSink, others=[transformation]) as worker:
            await read_by_sink(worker, transformed_by(transformation), "a")
            await until(lambda: active(worker) == ["t"])
            assert await notes(worker.plane.log) == ["t"]

    async def test_a_record_that_cannot_be_converted_uses_no_topic(self) -> None:
        """A topic stays inactive as long as the sink can convert none of its records."""
        converter = "org.apache.kafka.connect.json.JsonConverter"
        config = {"value.converter": converter, "errors.tolerance": "all"}
        async with running(KeepingSink) as worker:
            await read_by_sink(worker, config, "{", "{")
            await until(lambda: committed_offsets(worker, "connect-c") == {("t", 0): 2})
            assert active(worker) == await notes(worker.plane.log) == []

    @pytest.mark.parametrize("exactly_once", [False, True])
    async def test_a_source_records_the_topic_after_transformations(
        self, exactly_once: bool
    ) -> None:
        """A source uses the topic to which its record is sent."""
        runtime = msgspec.structs.replace(QUICK, exactly_once=exactly_once)
        settings = Settings(
            exactly_once=exactly_once, worker=DecisionSettings(exactly_once_source=exactly_once)
        )
        async with running(
            TopicsSource, others=[Renamed], runtime=runtime, settings=settings
        ) as worker:
            config = config_of(TopicsSource, used="a") | transformed_by(Renamed)
            await worker.plane.execute(CreateConnector("c", config))
            await until(lambda: active(worker))
            assert await notes(worker.plane.log) == ["renamed"]

    @pytest.mark.parametrize(
        ("boundary", "tolerance", "used"),
        [(None, "none", ["t"]), (None, "all", ["t"]), ("poll", "none", [])],
        ids=["failed", "tolerated", "transaction"],
    )
    async def test_a_record_that_is_not_sent_uses_no_topic(
        self, boundary: str | None, tolerance: str, used: list[str]
    ) -> None:
        """A source records no topic whose records the log refuses, or whose transaction fails."""
        refused = msgspec.structs.replace(record("a", 2, "refused"), kafka_partition=9)
        script = Script([[record("a", 1), refused]])
        async with scripted(script, PlainSource, boundary=boundary, tolerance=tolerance) as worker:
            if tolerance == "all":
                await until(lambda: committed(worker) == {"a": 2})
            else:
                await until_state(worker, "source", "RUNNING", "FAILED")
        assert await notes(worker.plane.log) == used


class TestReset:
    """Resetting a connector's set of active topics."""

    async def test_used_topics_are_recorded_after_a_reset(self) -> None:
        """After a reset, tasks record the topics that they still use."""
        async with running(TopicsSource) as worker:
            plane = worker.plane
            await plane.execute(CreateConnector("c", config_of(TopicsSource, used="a,b")))
            await until(lambda: active(worker) == ["a", "b"])
            await plane.execute(ResetTopics("c"))
            await until(lambda: active(worker) == ["a", "b"])
            assert "-a" in await notes(plane.log)


class TestDeletion:
    """Restarting, reconfiguring or deleting a connector."""

    async def test_a_deletion_empties_the_set(self) -> None:
        """A deletion empties the set, even if resets are forbidden."""
        worker_settings = DecisionSettings(topic_tracking_allow_reset=False)
        settings = Settings(worker=worker_settings)
        async with running(TopicsSource, settings=settings) as worker:
            await worker.plane.execute(CreateConnector("c", config_of(TopicsSource, used="a")))
            await until(lambda: active(worker) == ["a"])
            await worker.plane.execute(DeleteConnector("c"))
            await until(lambda: active(worker) == [])


class TestConfiguration:
    """Configuration."""

    async def test_tracking_can_be_turned_off(self) -> None:
        """A worker with `topic.tracking.enable=false` writes no topic status."""
        runtime = msgspec.structs.replace(QUICK, topic_tracking=False)
        settings = Settings(worker=DecisionSettings(topic_tracking_enable=False))
        async with running(TopicsSource, runtime=runtime, settings=settings) as worker:
            plane = worker.plane
            await plane.execute(CreateConnector("c", config_of(TopicsSource, used="a")))
            await until_state(worker, "c", "RUNNING", "RUNNING")
            await until_values(plane.log, "a", [b"value"] * 3)
            assert await notes(plane.log) == []
