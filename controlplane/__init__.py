"""Kafka Connect's control state as what it is: logs.

Connect keeps all that it knows in three topics. Here they are read as a worker of a chosen release
reads them, and shown. A record flows through this package like this:

    logs/       where records lie: in memory, in SQLite, in Kafka, in dumps of other tools
    core/       what they mean: bytes → records → fold → state → views; pure functions, no I/O
    loading     one log, read to its end, folded
    follower    the same, going on as the log grows
    rest/       Connect's read endpoints over HTTP, answered from a state
    scenario/   transcripts and stories that are documentation and test at once
    cli/        `controlplane import | inspect | verify | serve | scenario`

A tour::

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
"""

from controlplane.core import views
from controlplane.core.diff import Change, diff
from controlplane.core.entry import Batch, Entry, Position
from controlplane.core.evolve import Fold, fold
from controlplane.core.hazards import Hazard, hazards
from controlplane.core.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.loading import load
from controlplane.logs.log import Log, ReadableLog, Record
from controlplane.logs.memory import MemoryLog

__all__ = [
    "Batch",
    "Change",
    "ClusterState",
    "Entry",
    "Fold",
    "Hazard",
    "Log",
    "MemoryLog",
    "Position",
    "Profile",
    "ReadableLog",
    "Record",
    "Topics",
    "diff",
    "fold",
    "hazards",
    "load",
    "views",
]
