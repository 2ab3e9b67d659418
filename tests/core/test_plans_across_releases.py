"""Plans written as one release and read as another.

A row has a command, the writing release, and the effect for every span of readers. A span begins
with its first release. Every rolling upgrade has readers of an older or newer release than the
writer.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pytest

from controlplane.core import commands as c
from controlplane.core import views
from controlplane.core.entry import Entry
from controlplane.core.fold import FateKind, Fold, RecordFate
from controlplane.core.plan import HookSuccess, Plan
from controlplane.core.records import Target
from controlplane.core.releases.profiles import KIP, NEWEST, PROFILES, Profile
from controlplane.core.state import ClusterState
from controlplane.core.topics.partitioner import partition_of
from tests.core.decisions import PROPERTIES, planned
from tests.core.logs import START_MS, config, connector, offsets, report, status, tasks
from tests.core.test_matrix import expected

LATER_MS = START_MS + 1_000_000
PARTITIONS = {"connect-configs": 1, "connect-status": 5}
STOPPED = '{"state":"PAUSED","state.v2":"STOPPED"}'
OWN = {**PROPERTIES, "offsets.storage.topic": "own"}
PAGE = {"page": 1}

ALIVE = config(connector("a", **PROPERTIES), *tasks("a", 2))
AT_REST = config(connector("a", **PROPERTIES), *tasks("a", 0), ("target-state-a", STOPPED))
AT_REST_WITH_OWN = config(connector("a", **OWN), *tasks("a", 0), ("target-state-a", STOPPED))
PAUSED = config(
    connector("a", **PROPERTIES), *tasks("a", 2), ("target-state-a", '{"state":"PAUSED"}')
)
OFFSET = offsets(('["a",{"page":1}]', '{"row":1}'), partition=partition_of(b'["a",{"page":1}]', 25))
USE = '{"topic":{"name":"t","connector":"a","task":0,"discoverTimestamp":1}}'
USED = status(("status-topic-t:connector-a", USE))


class WorkerReading(NamedTuple):
    """A plan's records as a running worker reads them: their fates, and the state after them."""

    state: ClusterState
    outcomes: Sequence[RecordFate]


class PlanRow(NamedTuple):
    """A log, a command after it, its writers, a view, and the effect by first reading release."""

    name: str
    log: list[Entry]
    command: c.AnyCommand
    writers: tuple[str, ...]
    view: Callable[[WorkerReading], Any]
    effects: dict[str, Any]


def lives(reading: WorkerReading) -> str:
    """Target state and tasks of the connector, or `poison` if a record ends the worker."""
    if any(outcome.kind is FateKind.POISON for outcome in reading.outcomes):
        return "poison"
    target = views.target(reading.state, "a")
    exists = "a" in reading.state.config.connectors
    count = len(reading.state.config.task_ids("a"))
    return f"{target.value if target else 'runs'}, {count} tasks" if exists else "gone"


def configured(reading: WorkerReading) -> str:
    """File in the connector's config, target state and tasks."""
    return f"{reading.state.config.connectors['a'].get('file')}, {lives(reading)}"


def heard(reading: WorkerReading) -> str:
    """Listener calls that the last record causes, or its fate."""
    last = reading.outcomes[-1]
    return last.calls[0].name if last.calls else last.kind.value


def offset(reading: WorkerReading) -> Any:
    """The offset with which the connector would start."""
    offset_views = views.source_offsets(reading.state, "a")
    return next((view.offset for view in offset_views if view.partition == PAGE), None)


def removed_offset(reading: WorkerReading) -> str:
    """Stored remains of a removed offset."""
    values = reading.state.offsets["connect-offsets"].values
    return "null" if b'["a",{"page":1}]' in values else "nothing"


SINCE_STATES = ("2.8", "3.4", "3.6", "3.9", "4.3", KIP)
SINCE_STOPPED = ("3.5", "3.6", "3.9", "4.3", KIP)
ALTERING = ("3.6", "3.7", "3.9", "4.3", KIP)
ROWS = [
    # --- target states ------------------------------------------------------------------------
    PlanRow(
        "stop",
        ALIVE,
        c.StopConnector("a"),
        SINCE_STOPPED,
        lives,
        {"0.9": "poison", "0.10.0": "PAUSED, 0 tasks", "3.5.0": "STOPPED, 0 tasks"},
    ),
    PlanRow(
        "pause",
        ALIVE,
        c.PauseConnector("a"),
        SINCE_STATES,
        lives,
        {"0.9": "runs, 2 tasks", "0.10.0": "PAUSED, 2 tasks"},
    ),
    PlanRow(
        "resume what is stopped",
        AT_REST,
        c.ResumeConnector("a"),
        SINCE_STATES,
        lives,
        {"0.9": "runs, 0 tasks", "0.10.0": "STARTED, 0 tasks"},
    ),
    PlanRow(
        "pause what is stopped: STOPPED is lost",
        AT_REST,
        c.PauseConnector("a"),
        SINCE_STATES,
        lives,
        {"0.9": "runs, 0 tasks", "0.10.0": "PAUSED, 0 tasks"},
    ),
    # --- creating, changing, deleting ---------------------------------------------------------
    PlanRow(
        "create stopped",
        [],
        c.CreateConnector("a", PROPERTIES, Target.STOPPED),
        ("3.7", "3.9", "4.3", KIP),
        lives,
        {"0.9": "runs, 0 tasks", "0.10.0": "PAUSED, 0 tasks", "3.5.0": "STOPPED, 0 tasks"},
    ),
    PlanRow(
        "create paused",
        [],
        c.CreateConnector("a", PROPERTIES, Target.PAUSED),
        ("3.7", "3.9", "4.3", KIP),
        lives,
        {"0.9": "runs, 0 tasks", "0.10.0": "PAUSED, 0 tasks"},
    ),
    PlanRow(
        "create with offsets",
        OFFSET,
        c.CreateConnector("a", PROPERTIES, None, (c.OffsetChange(PAGE, {"row": 7}),)),
        (KIP,),
        offset,
        {"0.9": {"row": 7}},
    ),
    PlanRow(
        "delete",
        ALIVE,
        c.DeleteConnector("a"),
        SINCE_STATES,
        lives,
        {"0.9": "gone"},
    ),
    # --- tasks --------------------------------------------------------------------------------
    PlanRow(
        "publish tasks",
        ALIVE,
        c.PublishTasks("a", ({"n": "0"}, {"n": "1"}, {"n": "2"})),
        ("0.9", *SINCE_STATES),
        lives,
        {"0.9": "runs, 3 tasks", "0.10.0": "STARTED, 3 tasks"},
    ),
    PlanRow(
        "publish no tasks",
        ALIVE,
        c.PublishTasks("a", ()),
        SINCE_STATES,
        lives,
        {"0.9": "poison", "0.10.0": "STARTED, 0 tasks"},
    ),
    PlanRow(
        "fence",
        ALIVE,
        c.FenceTasks("a"),
        ("3.3", "3.9", "4.3", KIP),
        heard,
        {"0.9": "ignored", "3.3.0": "accepted"},
    ),
    PlanRow(
        "put config",
        ALIVE,
        c.PutConfig("a", {**PROPERTIES, "file": "g"}),
        ("0.9", *SINCE_STATES),
        configured,
        {"0.9": "g, runs, 2 tasks", "0.10.0": "g, STARTED, 2 tasks"},
    ),
    PlanRow(
        "patch the config of what is paused",
        PAUSED,
        c.PatchConfig("a", {"file": "g"}),
        ("3.8", "3.9", "4.3", KIP),
        configured,
        {"0.9": "g, runs, 2 tasks", "0.10.0": "g, PAUSED, 2 tasks"},
    ),
    PlanRow(
        "undo of a stop",
        AT_REST,
        c.RestoreConnector("a", {**PROPERTIES, "file": "g"}, Target.STARTED),
        ("3.5", "3.6", "3.9", "4.3"),
        configured,
        {"0.9": "g, runs, 0 tasks", "0.10.0": "g, STARTED, 0 tasks"},
    ),
    PlanRow(
        "undo of a stop: we commit the empty task set again",
        AT_REST,
        c.RestoreConnector("a", {**PROPERTIES, "file": "g"}, Target.STARTED),
        (KIP,),
        configured,
        {"0.9": "g, poison", "0.10.0": "g, STARTED, 0 tasks"},
    ),
    # --- events -------------------------------------------------------------------------------
    PlanRow(
        "restart with tasks",
        [*ALIVE, *status(("status-connector-a", report("FAILED")))],
        c.RestartConnector("a", include_tasks=True),
        ("3.0", "3.4", "3.9", "4.3", KIP),
        heard,
        {"0.9": "ignored", "3.0.0": "restart"},
    ),
    PlanRow(
        "logger level",
        [],
        c.SetLoggerLevel("org.apache", "DEBUG"),
        ("3.7", "3.9", "4.3", KIP),
        heard,
        {"0.9": "ignored", "3.7.0": "logger level"},
    ),
    # --- topics and offsets -------------------------------------------------------------------
    PlanRow(
        "reset topics",
        [*ALIVE, *USED],
        c.ResetTopics("a"),
        SINCE_STATES,
        heard,
        {"0.9": "ignored", "2.5.0": "accepted"},
    ),
    PlanRow(
        "alter offsets",
        [*AT_REST, *OFFSET],
        c.AlterOffsets("a", (c.OffsetChange(PAGE, {"row": 7}),)),
        ALTERING,
        offset,
        {"0.9": {"row": 7}},
    ),
    PlanRow(
        "alter offsets in the connector's own topic: older workers read the copy",
        [*AT_REST_WITH_OWN, *OFFSET],
        c.AlterOffsets("a", (c.OffsetChange(PAGE, {"row": 7}),)),
        ALTERING,
        offset,
        {"0.9": {"row": 7}},
    ),
    PlanRow(
        "reset offsets",
        [*AT_REST, *OFFSET],
        c.ResetOffsets("a"),
        ALTERING,
        removed_offset,
        {"0.9": "null", "3.4.0": "nothing"},
    ),
    PlanRow(
        "reset offsets in the connector's own topic: no release finds an offset",
        [*AT_REST_WITH_OWN, *OFFSET],
        c.ResetOffsets("a"),
        ALTERING,
        offset,
        {"0.9": None},
    ),
]


def planned_entries(log: Iterable[Entry], plan: Plan) -> list[Entry]:
    """The records of a plan after a log, a second apart."""
    ends: dict[tuple[str, int], int] = {}
    for entry in log:
        ends[entry.topic, entry.partition] = entry.offset + 1
    entries = []
    for number, draft in enumerate(record for step in plan.steps for record in step.records):
        place = draft.topic, partition_of(draft.key, PARTITIONS.get(draft.topic, 25))
        end = ends.get(place, 0)
        ends[place] = end + 1
        entries.append(Entry(*place, end, LATER_MS + 1000 * number, draft.key, draft.value))
    return entries


def read(log: Iterable[Entry], later: Iterable[Entry], reader: Profile) -> WorkerReading:
    """Effect of more records on a worker that has read the log."""
    fold = Fold(reader)
    fold.apply_all(log)
    fold.config.live = True
    outcomes = [fold.apply(entry) for entry in later]
    return WorkerReading(fold.snapshot(), outcomes)


CASES = [(row, writer) for row in ROWS for writer in row.writers]


@pytest.mark.parametrize(("row", "writer"), CASES, ids=[f"{row.name}-{w}" for row, w in CASES])
def test_each_reader_has_its_effect(row: PlanRow, writer: str) -> None:
    """The view of every release is the expected one."""
    plan = planned(row.log, row.command, writer, hooks=(HookSuccess(definite=True),) * 2)
    plan_entries = planned_entries(row.log, plan)
    for reader in PROFILES:
        effect = row.view(read(row.log, plan_entries, reader))
        release = NEWEST if reader.release == KIP else reader.release
        assert (reader, effect) == (reader, expected(row.effects, release))


def test_older_readers_revive_tasks_of_a_recreated_connector() -> None:
    """Older readers give a recreated connector the tasks of the former one."""
    effects = {"0.9": "runs, 2 tasks", "0.10.0": "STARTED, 2 tasks", "2.5.1": "STARTED, 0 tasks"}
    for writer in SINCE_STATES:
        deleted = planned_entries(ALIVE, planned(ALIVE, c.DeleteConnector("a"), writer))
        log = [*ALIVE, *deleted]
        again = planned_entries(log, planned(log, c.CreateConnector("a", PROPERTIES), writer))
        for reader in PROFILES:
            release = NEWEST if reader.release == KIP else reader.release
            assert lives(read(log, again, reader)) == expected(effects, release)


@pytest.mark.parametrize(
    ("writers", "task_counts"),
    [
        (("2.8", "3.6", "3.9", "4.3"), {"0.9": 2, "3.7.1": 0}),
        ((KIP,), {"0.9": 2}),
    ],
    ids=["as releases write it", "as we do"],
)
def test_newer_readers_lose_tasks_unless_they_are_committed_again(
    writers: tuple[str, ...], task_counts: dict[str, int]
) -> None:
    """Newer readers drop a task commit that is older than the config (KAFKA-17719).

    Releases write no newer commit for a paused connector; `kip` does.
    """
    changed = c.PutConfig("a", {**PROPERTIES, "file": "g"})
    for writer in writers:
        whole = [*PAUSED, *planned_entries(PAUSED, planned(PAUSED, changed, writer))]
        last = {entry.key: entry for entry in whole}
        log = [entry for entry in whole if last[entry.key] is entry]
        for reader in PROFILES:
            state = read(log, (), reader).state
            release = NEWEST if reader.release == KIP else reader.release
            assert len(state.config.task_ids("a")) == expected(task_counts, release)
