"""Kafka Connect's control state as what it is: logs.

Connect keeps all that it knows in three topics. Here they are read as a worker of a chosen release
reads them, and shown; and what a worker would write for a request is decided, shown, and done. A
record flows through this package like this:

    logs/       where records lie: in memory, in SQLite, in Kafka, in dumps of other tools
    core/       what they mean: bytes → records → fold → state → views, and command → decide → plan;
                pure functions, no I/O
    loading     one log, read to its end, folded
    follower    the same, going on as the log grows
    controller/ the single writer: decide → append → read back → answer
    plane       all of it, to be embedded in any asyncio program
    rest/       Connect's endpoints over HTTP, answered from a state
    scenario/   transcripts and stories that are documentation and test at once
    cli/        `controlplane import | backup | inspect | plan | verify | serve | config | scenario`

A tour of what is read::

    import asyncio
    from controlplane import MemoryLog, Profile, Record, load, views

    async def tour() -> None:
        log = MemoryLog()
        for topic in ("connect-configs", "connect-status", "connect-offsets"):
            await log.create_topic(topic, 1)
        stop = b'{"state":"PAUSED","state.v2":"STOPPED"}'
        await log.append([
            Record("connect-configs", 0, 0, b"connector-orders", b'{"properties":{}}'),
            Record("connect-configs", 0, 0, b"target-state-orders", stop),
        ])
        for release in ("3.4", "3.9"):
            state = (await load(log, Profile.of(release))).snapshot()
            print(release, views.target(state, "orders"))   # PAUSED, STOPPED

    asyncio.run(tour())

And of what is written::

    import asyncio
    from controlplane import ControlPlane, commands, views

    async def embedded() -> None:
        async with ControlPlane.open("memory:") as plane:  # or "sqlite:///state.db"
            config = {"connector.class": "FileStreamSource", "topic": "lines", "tasks.max": "1"}
            await plane.execute(commands.CreateConnector("lines", config))
            await plane.execute(commands.StopConnector("lines"))
            print(views.target(plane.state, "lines"))   # STOPPED

    asyncio.run(embedded())
"""

from typing import TYPE_CHECKING, Any

from controlplane.core import commands, views
from controlplane.core.diff import Change, diff
from controlplane.core.entry import Batch, Entry, Position
from controlplane.core.evolve import Fold, fold
from controlplane.core.hazards import Hazard, hazards
from controlplane.core.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.loading import load
from controlplane.logs.log import Log, ReadableLog, Record
from controlplane.logs.memory import MemoryLog

if TYPE_CHECKING:
    from controlplane.plane import ControlPlane, Refusal

__all__ = [
    "Batch",
    "Change",
    "ClusterState",
    "ControlPlane",
    "Entry",
    "Fold",
    "Hazard",
    "Log",
    "MemoryLog",
    "Position",
    "Profile",
    "ReadableLog",
    "Record",
    "Refusal",
    "Topics",
    "commands",
    "diff",
    "fold",
    "hazards",
    "load",
    "views",
]


def __getattr__(name: str) -> Any:
    """Writing takes longer to import than most logs to read, so it is imported when asked for."""
    if name not in {"ControlPlane", "Refusal"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from controlplane import plane  # noqa: PLC0415

    return getattr(plane, name)
