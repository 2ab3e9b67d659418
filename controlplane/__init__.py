"""State of Kafka Connect clusters, and commands that change it, from Connect's internal topics.

Connect keeps its state in three topics: configs, offsets, statuses. This package reads them as a
worker of a chosen release does. It runs the commands of Connect's REST API in four ways:

- on an embedded log, in a SQLite file or in memory;
- on topics of its own in Kafka (`serve --own`);
- attached to a Connect cluster, through the REST API of its workers (`serve --connect-url`);
- as a standalone worker (`controlplane standalone`).

Except when attached, it also runs connectors in Python. docs/architecture.md explains the design.
The packages:

    logs/        logs in memory, SQLite, Kafka, and dumps of other tools
    core/        bytes → records → fold → state → views, and command → decide → plan; no I/O
    projection/  the state of a log: loaded, followed, at past moments
    controller/  the single writer: decide → append → read back → answer
    plane        the control plane, to be embedded in any asyncio program
    connect/     API for authors of connectors: data model, converters, sources and sinks
    connectors/  connectors that ship
    worker/      runs connectors and tasks; standalone too
    rest/        Connect's endpoints over HTTP
    read_only/   the service of a log that is only read
    attached/    the service of a cluster that is steered through its workers
    settings/    settings from flags, environment and file
    tls/         TLS contexts, and Java's key stores
    harvest/     a real worker, or jars → a catalogue of connector classes
    scenario/    scenario files, which are documentation and test at once
    page/        elements of HTML pages and charts
    terminal/    parts that all command lines share
    cli/         about a log: `controlplane import | backup | copy | inspect | records | plan |
                 verify | serve | standalone | config | credential | scenario`
    client/      about a cluster, ours or Kafka's: `controlplane get | describe | apply | diff |
                 patch | pause | resume | stop | restart | delete | offsets | topics | plugins |
                 history | undo | commands | watch | bundle | migrate | completion`

Read a log::

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

Run commands::

    import asyncio
    from controlplane import ControlPlane, CreateConnector, StopConnector, views

    async def embedded() -> None:
        async with ControlPlane.open("memory:") as plane:  # or "sqlite:///state.db"
            config = {"connector.class": "FileStreamSource", "topic": "lines", "tasks.max": "1"}
            await plane.execute(CreateConnector("lines", config))
            await plane.execute(StopConnector("lines"))
            print(views.target(plane.state, "lines"))   # STOPPED

    asyncio.run(embedded())
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from controlplane.controller import NotWritten, TimedOut, TooMany
    from controlplane.core import commands, views
    from controlplane.core.commands import (
        AlterOffsets,
        CreateConnector,
        DeleteConnector,
        OffsetChange,
        PatchConfig,
        PauseConnector,
        PutConfig,
        ResetOffsets,
        ResetTopics,
        RestartConnector,
        RestartTask,
        RestoreConnector,
        ResumeConnector,
        SetLoggerLevel,
        StopConnector,
    )
    from controlplane.core.decide.undo import restoration
    from controlplane.core.entry import Batch, Entry, Position
    from controlplane.core.fold import Fold, fold
    from controlplane.core.moments import UnknownMoment
    from controlplane.core.plan import Outcome, Plan, Rejected
    from controlplane.core.records import Target
    from controlplane.core.releases.profiles import Profile
    from controlplane.core.state import ClusterState, Topics
    from controlplane.core.text.plan_text import plan_text
    from controlplane.core.views.diff import Change, diff
    from controlplane.core.views.hazards import Hazard, hazards
    from controlplane.logs.log import (
        Fenced,
        Log,
        LogCorrupt,
        LogError,
        LogNotUsable,
        LogUnavailable,
        ReadableLog,
        Record,
    )
    from controlplane.logs.log_factory import OpenedLog, OpenOptions, open_log
    from controlplane.logs.memory import MemoryLog
    from controlplane.plane import ControlPlane, Refusal, Settings, Surroundings
    from controlplane.projection.loader import load
    from controlplane.projection.past_states import load_at

__all__ = [
    "AlterOffsets",
    "Batch",
    "Change",
    "ClusterState",
    "ControlPlane",
    "CreateConnector",
    "DeleteConnector",
    "Entry",
    "Fenced",
    "Fold",
    "Hazard",
    "Log",
    "LogCorrupt",
    "LogError",
    "LogNotUsable",
    "LogUnavailable",
    "MemoryLog",
    "NotWritten",
    "OffsetChange",
    "OpenOptions",
    "OpenedLog",
    "Outcome",
    "PatchConfig",
    "PauseConnector",
    "Plan",
    "Position",
    "Profile",
    "PutConfig",
    "ReadableLog",
    "Record",
    "Refusal",
    "Rejected",
    "ResetOffsets",
    "ResetTopics",
    "RestartConnector",
    "RestartTask",
    "RestoreConnector",
    "ResumeConnector",
    "SetLoggerLevel",
    "Settings",
    "StopConnector",
    "Surroundings",
    "Target",
    "TimedOut",
    "TooMany",
    "Topics",
    "UnknownMoment",
    "commands",
    "diff",
    "fold",
    "hazards",
    "load",
    "load_at",
    "open_log",
    "plan_text",
    "restoration",
    "views",
]

_NAMES_BY_MODULE = {
    "controlplane.projection.past_states": ("load_at",),
    "controlplane.controller": ("NotWritten", "TimedOut", "TooMany"),
    "controlplane.core.commands": (
        "AlterOffsets",
        "CreateConnector",
        "DeleteConnector",
        "OffsetChange",
        "PatchConfig",
        "PauseConnector",
        "PutConfig",
        "ResetOffsets",
        "ResetTopics",
        "RestartConnector",
        "RestartTask",
        "RestoreConnector",
        "ResumeConnector",
        "SetLoggerLevel",
        "StopConnector",
    ),
    "controlplane.core.views.diff": ("Change", "diff"),
    "controlplane.core.entry": ("Batch", "Entry", "Position"),
    "controlplane.core.fold": ("Fold", "fold"),
    "controlplane.core.views.hazards": ("Hazard", "hazards"),
    "controlplane.core.moments": ("UnknownMoment",),
    "controlplane.core.plan": ("Outcome", "Plan", "Rejected"),
    "controlplane.core.text.plan_text": ("plan_text",),
    "controlplane.core.releases.profiles": ("Profile",),
    "controlplane.core.records": ("Target",),
    "controlplane.core.state": ("ClusterState", "Topics"),
    "controlplane.core.decide.undo": ("restoration",),
    "controlplane.projection.loader": ("load",),
    "controlplane.logs.log": (
        "Fenced",
        "Log",
        "LogCorrupt",
        "LogError",
        "LogNotUsable",
        "LogUnavailable",
        "ReadableLog",
        "Record",
    ),
    "controlplane.logs.memory": ("MemoryLog",),
    "controlplane.logs.log_factory": ("OpenedLog", "OpenOptions", "open_log"),
    "controlplane.plane": ("ControlPlane", "Refusal", "Settings", "Surroundings"),
}
"""Exported names by module.

They are imported on first use, so reading a log does not load the writer.
"""

_MODULES = ("commands", "views")
"""Modules of `core` that are exported as modules."""

_MODULE_OF_NAME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import an exported name on first use."""
    if name in _MODULES:
        return import_module(f"controlplane.core.{name}")
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF_NAME[name]), name)


def __dir__() -> list[str]:
    """List all exported names, including names that are not imported yet."""
    return sorted({*globals(), *__all__})
