"""Rollback of a failed creation whose consumer group is unreachable for a while."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import UNSET

from controlplane.controller import (
    CommandLimits,
    ExternalActionFailed,
    ExternalActions,
    NoExternalSystems,
)
from controlplane.core import views
from controlplane.core.commands import AlterOffsets, CreateConnector, OffsetChange
from controlplane.core.order import Ends
from controlplane.core.plan import (
    AdminOverrides,
    AlterGroup,
    AnyAction,
    DeleteGroup,
    GroupOffsets,
    Reason,
)
from controlplane.core.plugins import Plugin
from controlplane.core.records import Target
from controlplane.logs.log import LogNotUsable, LogUnavailable
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Refusal, Settings
from controlplane.plugins import catalogued
from tests.controller.scene import Crash, plane_on
from tests.laws.commands.world import Kafka, LawClock
from tests.outages import until
from tests.worker.worker_fixture import RecordedNotices

CHANGE = OffsetChange({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 5})
SINK = {"connector.class": "lab.Sink", "topics": "t"}
CREATE = CreateConnector("orders", SINK, None, (CHANGE,))
GROUP, SET = "connect-orders", (("t", 0, 5),)
SOON = Settings(limits=CommandLimits(retry_first_ms=5, retry_last_ms=10))
LATER = Settings(limits=CommandLimits(retry_last_ms=60_000))
"""Settings that delay the next attempt for a minute."""


class UnreachableKafka(Kafka):
    """Kafka that sets offsets, but reports a failure; it is unreachable until it is `back`."""

    def __init__(self) -> None:
        super().__init__(LawClock())
        self.back = False

    async def perform(self, action: AnyAction) -> None:
        """Set the offsets and fail; fail on every later request until `back`."""
        reached = self.back or GROUP not in self._groups
        if reached:
            await super().perform(action)
        if not self.back and GROUP in self._groups:
            raise ExternalActionFailed("Kafka is away")


class CrashingKafka(NoExternalSystems):
    """Kafka during whose change of a group the process crashes."""

    async def group_offsets(self, _group: str, _admin: AdminOverrides = UNSET) -> GroupOffsets:
        """Return no offsets."""
        return ()

    async def perform(self, action: AnyAction) -> None:
        """Crash before offsets are set."""
        if isinstance(action, AlterGroup):
            raise Crash


class HangingKafka(CrashingKafka):
    """Kafka that refuses to change one group, and does not answer about the others."""

    def __init__(self) -> None:
        self.hangs = asyncio.Event()

    async def perform(self, action: AnyAction) -> None:
        """Refuse to change the group of `orders`; wait for ever otherwise."""
        if isinstance(action, DeleteGroup) and action.group == GROUP:
            raise ExternalActionFailed("Kafka is away")
        self.hangs.set()
        await asyncio.Event().wait()


class ExpiringLog(MemoryLog):
    """Log that refuses to be read while its certificate is `expired`."""

    def __init__(self) -> None:
        super().__init__()
        self.expired = False
        self.refusals = 0

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Return the end offsets, unless the certificate has expired."""
        if self.expired:
            self.refusals += 1
            raise LogNotUsable("the certificate has expired: renew it")
        return await super().ends(topics)


class ShortOutage(MemoryLog):
    """Log that is unavailable for the next reads of its ends."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0
        """Number of reads that will fail."""

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Return the end offsets, or fail while the outage lasts."""
        if self.failures:
            self.failures -= 1
            raise LogUnavailable("the log is away")
        return await super().ends(topics)


def around(kafka: ExternalActions) -> dict[str, Any]:
    """Surroundings of a worker that has a sink class."""
    plugins = [Plugin(class_name="lab.Sink", type="sink")]
    return {"plugins": catalogued(more=plugins), "outside": kafka}


async def fails(plane: ControlPlane) -> None:
    """Check that the creation fails for its caller."""
    with pytest.raises(Refusal, match=r"set the initial offsets.*Kafka is away") as caught:
        await plane.execute(CREATE, key="k")
    assert caught.value.rejected.reason is Reason.FAILED
    assert plane.state.commands["k"].unfinished


async def test_a_rollback_is_retried_until_the_group_is_back() -> None:
    """The rollback is retried by itself; the same key gets the first error."""
    kafka = UnreachableKafka()
    async with plane_on(MemoryLog(), SOON, **around(kafka)) as plane:
        await fails(plane)
        assert await kafka.group_offsets(GROUP) == SET
        kafka.back = True
        await until(lambda: not plane.state.commands["k"].unfinished)
        assert await kafka.group_offsets(GROUP) == ()
        assert views.connectors(plane.state) == []
        with pytest.raises(Refusal, match=r"set the initial offsets.*Kafka is away"):
            await plane.execute(CREATE, key="k")


async def test_a_rollback_is_retried_while_the_log_is_unusable() -> None:
    """Retries go on while the log refuses to be read, until its certificate is renewed."""
    kafka, log = UnreachableKafka(), ExpiringLog()
    async with plane_on(log, SOON, **around(kafka)) as plane:
        await fails(plane)
        log.expired = True
        await until(lambda: log.refusals > 1)
        kafka.back, log.expired = True, False
        await until(lambda: not plane.state.commands["k"].unfinished)
        assert views.connectors(plane.state) == []


async def test_the_next_command_waits_for_the_rollback() -> None:
    """The connector's next command waits for the rollback; other connectors' commands do not."""
    kafka = UnreachableKafka()
    async with plane_on(MemoryLog(), LATER, **around(kafka)) as plane:
        await fails(plane)
        await plane.execute(CreateConnector("users", SINK))
        with pytest.raises(LogUnavailable, match="cannot be taken back yet: Kafka is away"):
            await plane.execute(CreateConnector("orders", SINK))
        assert views.connectors(plane.state) == ["users"]
        kafka.back = True
        await plane.execute(CreateConnector("orders", SINK))
        assert await kafka.group_offsets(GROUP) == ()
        assert views.connectors(plane.state) == ["orders", "users"]


async def test_the_next_command_outlasts_an_outage() -> None:
    """Behind a command in doubt, too, a command waits until the log is available again."""
    kafka, log = UnreachableKafka(), ShortOutage()
    limits = CommandLimits(retry_first_ms=1, retry_last_ms=60_000)
    async with plane_on(log, Settings(limits=limits), **around(kafka)) as plane:
        await fails(plane)
        kafka.back, log.failures = True, 3
        await plane.execute(CreateConnector("orders", SINK))
        assert not log.failures
        assert not plane.state.commands["k"].unfinished


async def test_the_next_process_completes_the_rollback() -> None:
    """The next process opens without the group and completes the rollback later."""
    kafka, log = UnreachableKafka(), MemoryLog()
    async with plane_on(log, LATER, **around(kafka)) as plane:
        await fails(plane)
    async with plane_on(log, SOON, **around(kafka)) as plane:
        assert plane.state.commands["k"].unfinished
        kafka.back = True
        await until(lambda: not plane.state.commands["k"].unfinished)
        assert await kafka.group_offsets(GROUP) == ()
        assert views.connectors(plane.state) == []


async def test_a_cancelled_start_leaves_no_retry() -> None:
    """After a start is cancelled during one rollback, no task retries another rollback."""
    log = MemoryLog()
    async with plane_on(log, **around(CrashingKafka())) as plane:
        for name in ("orders", "users"):
            with pytest.raises(Crash):
                await plane.execute(CreateConnector(name, SINK, None, (CHANGE,)))
    hanging, before = HangingKafka(), asyncio.all_tasks()

    async def starts() -> None:
        async with plane_on(log, LATER, **around(hanging)):
            pass

    starting = asyncio.create_task(starts())
    await hanging.hangs.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert asyncio.all_tasks() == before


async def test_a_notice_names_the_failure_of_a_repetition() -> None:
    """A command that fails when the next process repeats it is reported as failed."""
    log, notices = MemoryLog(), RecordedNotices()
    async with plane_on(log, **around(CrashingKafka())) as plane:
        await plane.execute(CreateConnector("orders", SINK, Target.STOPPED))
        with pytest.raises(Crash):
            await plane.execute(AlterOffsets("orders", (CHANGE,)), key="k")
    kafka = UnreachableKafka()
    kafka.commit(GROUP, "t", 0, 1)
    async with plane_on(log, notices=notices, **around(kafka)) as plane:
        assert not plane.state.commands["k"].unfinished
    (facts,) = notices.of("command_recovered")
    assert facts["ending"] == "failed"
    assert "Kafka is away" in facts["reason"]
