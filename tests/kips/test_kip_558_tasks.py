"""KIP-558 with running tasks: the topics that a connector uses."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from controlplane.connect import Source, key
from controlplane.connect.source import SourceRun
from controlplane.core.codec.status import decode_status
from controlplane.core.commands import CreateConnector, DeleteConnector, ResetTopics
from controlplane.core.context import DecisionSettings
from controlplane.core.records import ActiveTopic
from controlplane.core.releases.profiles import Profile
from controlplane.logs.log import Log
from controlplane.plane import Settings
from controlplane.worker.worker import ConnectWorker
from tests.worker.worker_fixture import (
    QUICK,
    config_of,
    running,
    until,
    until_state,
    until_values,
)


class TopicsSource(Source):
    """Yields a record for each topic of its config, in turn."""

    config = (key("used", "LIST"),)

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield records for the topics in turn."""
        while True:
            for topic in task.config["used"].split(","):
                yield task.record("value", {"topic": topic}, {"at": 1}, topic=topic)
            yield task.idle(0.005)


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
        """A topic in the set is not recorded again, whichever task recorded it."""
        async with running(TopicsSource) as worker:
            plane = worker.plane
            await plane.execute(CreateConnector("c", config_of(TopicsSource, used="a")))
            await until(lambda: active(worker) == ["a"])
            end = (await plane.log.ends(["a"]))["a"][0]
            await until_values(plane.log, "a", [b"value"] * (end + 5))
            assert await notes(plane.log) == ["a"]


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
