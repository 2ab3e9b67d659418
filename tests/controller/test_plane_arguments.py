"""Arguments of a control plane: accepted values, and one sentence for each error."""

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any

import msgspec
import pytest

from controlplane.controller import CommandLimits
from controlplane.core.commands import PutConfig, StopConnector
from controlplane.core.context import DecisionSettings
from controlplane.core.entry import Batch
from controlplane.core.order import Ends
from controlplane.core.state import Topics
from controlplane.logs.log import LogUnavailable
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Partitions, Settings
from controlplane.projection.limits import FollowerLimits
from controlplane.projection.snapshot_writer import SnapshotSettings
from controlplane.projection.upkeep import UpkeepSettings
from controlplane.settings import SettingsError
from controlplane.settings.kinds import check_settings
from tests.controller.scene import plane_on
from tests.patience import PATIENCE_S

NO: Any = None
FLOAT: Any = 2.0
TEXT: Any = "3"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Settings(profile=NO), "profile is None: use a text"),
        (Settings(exactly_once=TEXT), "exactly_once is '3': use true or false"),
        (Settings(limits=NO), "limits is no CommandLimits: None"),
        (
            Settings(limits=CommandLimits(request_timeout_ms=-1)),
            "limits.request_timeout_ms is -1: use a whole number from 1",
        ),
        (
            Settings(limits=CommandLimits(commands_waiting=True)),
            "limits.commands_waiting is True: use a whole number from 1",
        ),
        (
            Settings(partitions=Partitions(offsets=FLOAT)),
            "partitions.offsets is 2.0: use -1 or a whole number from 1",
        ),
        (
            Settings(partitions=Partitions(status=TEXT)),
            "partitions.status is '3': use -1 or a whole number from 1",
        ),
        (
            Settings(upkeep=UpkeepSettings(snapshots=SnapshotSettings(lateness_ms=-1))),
            "upkeep.snapshots.lateness_ms is -1: use a whole number from 0",
        ),
        (
            Settings(worker=DecisionSettings(config_providers=TEXT)),
            "worker.config_providers is '3': use a list with commas",
        ),
        (Settings(topics=Topics(config=NO)), "topics.config is None: use a text"),
        (Settings(topics=Topics(config="x" * 99 + "/")), "cannot be the name of a topic"),
    ],
)
async def test_invalid_settings_are_refused(settings: Settings, message: str) -> None:
    """Invalid settings are refused before a topic is made; the error names setting and range."""
    log = MemoryLog()
    with pytest.raises(ValueError, match=message):
        async with plane_on(log, settings):
            pass
    assert await log.topics() == {}


async def test_the_smallest_settings_are_accepted() -> None:
    """The smallest allowed values are accepted."""
    least = Settings(
        worker=DecisionSettings(override_policy=None, config_providers=()),
        follower=FollowerLimits(gather_ms=0),
        upkeep=UpkeepSettings(closing_ms=0),
        partitions=Partitions(offsets=1, status=1),
    )
    async with plane_on(MemoryLog(), least) as plane:
        assert (await plane.log.topics())["connect-offsets"] == 1


PlaneCall = Callable[[ControlPlane], Awaitable[object]]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda plane: plane.state_at(NO), "a moment must be text, not None"),
        (lambda plane: plane.state_at("config@0", FLOAT), "a profile must be text, not 2.0"),
        (lambda plane: plane.history(NO), "the name of a connector must be text, not None"),
    ],
)
async def test_arguments_of_a_wrong_type_are_refused(ask: PlaneCall, message: str) -> None:
    """An argument of a wrong type raises TypeError with a clear message."""
    async with plane_on(MemoryLog()) as plane:
        with pytest.raises(TypeError, match=message):
            await ask(plane)


class FullNotices:
    """Receiver of notices whose disk is full."""

    def info(self, event: str, **_facts: Any) -> None:
        """Fail."""
        raise OSError(errno.ENOSPC, event)

    def warning(self, event: str, **_facts: Any) -> None:
        """Fail."""
        raise OSError(errno.ENOSPC, event)


class BrieflyAway(MemoryLog):
    """A log that is away when it is followed for the first time."""

    tails = 0

    async def tail(self, topics: Iterable[str], start: Ends) -> AsyncIterator[Batch]:
        """Yield new batches."""
        self.tails += 1
        if self.tails == 1:
            raise LogUnavailable("it is away")
        async for batch in super().tail(topics, start):
            yield batch


async def test_notices_that_cannot_be_written_change_no_answer() -> None:
    """A plane answers a command, and follows its log again after an outage."""
    log = BrieflyAway()
    async with plane_on(log, notices=FullNotices()) as plane, asyncio.timeout(PATIENCE_S):
        command = PutConfig("orders", {"connector.class": "JdbcSource"})
        assert (await plane.execute(command)).created
    assert log.tails > 1


@pytest.mark.parametrize(
    "call",
    [
        lambda plane: plane.execute(StopConnector("orders")),
        lambda plane: anext(plane.watch()),
    ],
    ids=["execute", "watch"],
)
async def test_calls_in_another_event_loop_are_refused(
    call: Callable[[ControlPlane], Coroutine[Any, Any, Any]],
) -> None:
    """The error names the way to call from another thread, and the call has no effect."""

    async def ask() -> None:
        await call(plane)

    async with plane_on(MemoryLog()) as plane:
        with pytest.raises(RuntimeError, match=r"asyncio\.run_coroutine_threadsafe"):
            await asyncio.to_thread(asyncio.run, ask())
        assert not plane.state.commands
        loop = asyncio.get_running_loop()
        command = PutConfig("orders", {"connector.class": "JdbcSource"})
        outcome = await asyncio.to_thread(
            lambda: asyncio.run_coroutine_threadsafe(plane.execute(command), loop).result()
        )
        assert outcome.created


def test_errors_quote_a_part_of_a_long_value() -> None:
    """The error quotes a part of a long value."""
    with pytest.raises(SettingsError) as caught:
        check_settings(
            Settings(worker=msgspec.structs.replace(DecisionSettings(), group_id=[0] * 10_000))
        )
    assert len(str(caught.value)) < 120
