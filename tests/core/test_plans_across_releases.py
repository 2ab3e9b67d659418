"""A plan of one release, read by the fold of every other: rolling upgrades, and the way back.

A row names a log, a command, and what readers make of the records that it writes: for every span of
releases, named by its first, what changes and what a running worker is told. It is the version
matrix (record kinds, readers, upgrade scenarios) as data. What a release writes shows itself in the
bytes only; readers see no difference between writers, except where a row says so.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_args

import pytest

from controlplane.core import views
from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    Change,
    CreateConnector,
    DeleteConnector,
    FenceTasks,
    PatchConfig,
    PauseConnector,
    PublishTasks,
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
from controlplane.core.context import Worker
from controlplane.core.decide import decide
from controlplane.core.entry import Entry
from controlplane.core.evolve import Fold, Kind
from controlplane.core.plan import Done, Draft, Plan, Reason, Rejected
from controlplane.core.profiles import KIP, PROFILES, RELEASES, Profile
from controlplane.core.records import Target
from controlplane.core.state import ClusterState
from tests.core.deciding import PROPERTIES, context_of
from tests.core.logs import Pair, config, connector, offsets, read, records, report, status, tasks
from tests.core.test_matrix import expected

WRITERS = ("2.3", "2.8", "3.4", "3.6", "3.7", "3.9", "4.3", KIP)
"""One release of each way of writing."""

Seen = Mapping[str, str]
"""First release of a span → what its workers see: `aspect value` or `told of …`, with commas."""


class Row(NamedTuple):
    """A command on a log, the first release that writes for it, and what is seen of it."""

    name: str
    log: list[Entry]
    command: AnyCommand
    since: str
    seen: Seen
    kip: Seen | None = None
    """What is seen where `kip` wrote, if that differs."""


# --- logs -------------------------------------------------------------------------------------

OTHER = PROPERTIES | {"topic": "other"}
LIVE = connector("a", **PROPERTIES)
PAUSED: Pair = ("target-state-a", '{"state":"PAUSED"}')
STOPPED: Pair = ("target-state-a", '{"state":"PAUSED","state.v2":"STOPPED"}')
GONE: list[Pair] = [("connector-a", None), ("target-state-a", None)]
FENCED: Pair = ("tasks-fencing-a", '{"task-count":2}')
KEY = '["a",{"p":1}]'

RUNS = config(LIVE, *tasks("a", 2))
IS_PAUSED = config(LIVE, *tasks("a", 2), PAUSED)
IS_STOPPED = config(LIVE, *tasks("a", 2), ("commit-a", '{"tasks":0}'), STOPPED)
WAS_DELETED = config(LIVE, *tasks("a", 2), *GONE)
WITH_OFFSET = IS_STOPPED + offsets((KEY, '{"row":1}'))
OWN = config(
    connector("a", **PROPERTIES, **{"offsets.storage.topic": "own"}),
    ("commit-a", '{"tasks":0}'),
    STOPPED,
)
WITH_OWN_OFFSET = [
    *OWN,
    *offsets((KEY, '{"row":1}')),
    *records("own", (KEY, '{"row":2}')),
]
USE = '{"topic":{"name":"t","connector":"a","task":0,"discoverTimestamp":1}}'
USED_A_TOPIC = RUNS + status(("status-topic-t:connector-a", USE))

SET = (Change({"p": 1}, {"row": 9}),)

# --- what is seen -----------------------------------------------------------------------------

STOPS_09 = "the worker ends"
"""A commit with nothing deferred: 0.9 cannot read any log with a stopped connector (§4)."""

ROWS = [
    Row(
        "create",
        [],
        CreateConnector("a", PROPERTIES),
        "2.3",
        {
            "0.9": "config t, told of connector config",
            "0.10.0": "config t, target STARTED, told of connector config",
        },
    ),
    Row(
        # §5.13: what is left of the predecessor's tasks is told below.
        "create again what was deleted",
        WAS_DELETED,
        CreateConnector("a", PROPERTIES),
        "2.3",
        {
            "0.9": "config t, told of connector config",
            "0.10.0": "config t, target STARTED, told of connector config",
        },
    ),
    Row(
        # §5.17: the target state comes first; from 3.7 on nobody is told of it then (§3).
        "create stopped",
        [],
        CreateConnector("a", PROPERTIES, Target.STOPPED),
        "3.7",
        {
            "0.9": "config t, told of connector config",
            "0.10.0": "config t, target PAUSED, told of target state, told of connector config",
            "3.5.0": "config t, target STOPPED, told of target state, told of connector config",
            "3.7.0": "config t, target STOPPED, told of connector config",
        },
    ),
    Row(
        "create paused",
        [],
        CreateConnector("a", PROPERTIES, Target.PAUSED),
        "3.7",
        {
            "0.9": "config t, told of connector config",
            "0.10.0": "config t, target PAUSED, told of target state, told of connector config",
            "3.7.0": "config t, target PAUSED, told of connector config",
        },
    ),
    Row(
        "create with offsets",
        [],
        CreateConnector("a", PROPERTIES, None, SET),
        KIP,
        {
            "0.9": "config t, offset 9, told of connector config",
            "0.10.0": "config t, target STARTED, offset 9, told of connector config",
        },
    ),
    Row(
        "put a config",
        RUNS,
        PutConfig("a", OTHER),
        "2.3",
        {"0.9": "config other, told of connector config"},
    ),
    Row(
        # §5.12: `kip` commits the empty task set anew, or 3.8 loses it after a compaction.
        "put a config while stopped",
        IS_STOPPED,
        PutConfig("a", OTHER),
        "2.3",
        {"0.9": "config other, told of connector config"},
        {
            "0.9": f"{STOPS_09}, config other, told of connector config",
            "0.10.0": "config other, told of connector config, told of task configs",
        },
    ),
    Row(
        "patch a config",
        RUNS,
        PatchConfig("a", {"topic": "other"}),
        "3.9",
        {"0.9": "config other, told of connector config"},
    ),
    Row(
        # §3: from 2.5.1 on the tasks go with their connector.
        "delete",
        RUNS,
        DeleteConnector("a"),
        "2.3",
        {
            "0.9": "config none, told of connector removed",
            "0.10.0": "config none, target none, told of connector removed",
            "2.5.1": "config none, target none, tasks 0, told of connector removed",
        },
    ),
    Row(
        # §5.9: nothing is said of fencing; what is known of it outlives the connector.
        "delete what has been fenced",
        config(LIVE, *tasks("a", 2), FENCED),
        DeleteConnector("a"),
        "2.3",
        {
            "0.9": "config none, told of connector removed",
            "0.10.0": "config none, target none, told of connector removed",
            "2.5.1": "config none, target none, tasks 0, told of connector removed",
        },
    ),
    Row(
        "pause",
        RUNS,
        PauseConnector("a"),
        "2.3",
        {"0.9": "", "0.10.0": "target PAUSED, told of target state"},
    ),
    Row(
        # §5.3: STOPPED is lost; §3: up to 3.4 a record that changes nothing is told of, too.
        "pause what is stopped",
        IS_STOPPED,
        PauseConnector("a"),
        "2.3",
        {
            "0.9": "",
            "0.10.0": "told of target state",
            "3.5.0": "target PAUSED, told of target state",
        },
    ),
    Row(
        "resume",
        IS_PAUSED,
        ResumeConnector("a"),
        "2.3",
        {"0.9": "", "0.10.0": "target STARTED, told of target state"},
    ),
    Row(
        # §5.2: every release reads STARTED; the tasks come back from whoever owns the connector.
        "resume what is stopped",
        IS_STOPPED,
        ResumeConnector("a"),
        "2.3",
        {"0.9": "", "0.10.0": "target STARTED, told of target state"},
    ),
    Row(
        # §5.1, and §2: STOPPED is PAUSED before 3.5, with no tasks in every release.
        "stop",
        RUNS,
        StopConnector("a"),
        "3.6",
        {
            "0.9": STOPS_09,
            "0.10.0": "target PAUSED, tasks 0, told of task configs, told of target state",
            "3.5.0": "target STOPPED, tasks 0, told of task configs, told of target state",
        },
    ),
    Row(
        # §2, §5.8: only workers of 3.0 and later act on it; it is no state to anybody.
        "restart connector and tasks",
        [*RUNS, *status(("status-connector-a", report("RUNNING")))],
        RestartConnector("a", include_tasks=True),
        "3.0",
        {"0.9": "", "3.0.0": "told of restart"},
    ),
    Row(
        "alter offsets",
        WITH_OFFSET,
        AlterOffsets("a", SET),
        "3.6",
        {"0.9": "offset 9"},
    ),
    Row(
        # §2: a tombstone is an offset of null up to 3.3, and takes the offset away from 3.4 on.
        "take one offset away",
        WITH_OFFSET,
        AlterOffsets("a", (Change({"p": 1}, None),)),
        "3.6",
        {"0.9": "offset null", "3.4.0": "offset none"},
    ),
    Row(
        "reset offsets",
        WITH_OFFSET,
        ResetOffsets("a"),
        "3.6",
        {"0.9": "offset null", "3.4.0": "offset none"},
    ),
    Row(
        # §5.14: workers before 3.3 know of no offsets topic but their own.
        "reset offsets in a topic of its own",
        WITH_OWN_OFFSET,
        ResetOffsets("a"),
        "3.6",
        {"0.9": "offset null", "3.4.0": "offset none"},
    ),
    Row(
        # §2: before 2.5 it is a key that nobody knows.
        "reset active topics",
        USED_A_TOPIC,
        ResetTopics("a"),
        "2.8",
        {"0.9": "", "2.5.0": "topics none"},
    ),
    Row(
        "publish tasks",
        RUNS,
        PublishTasks("a", ({"n": "new"},)),
        "2.3",
        {"0.9": "tasks 1 new, told of task configs"},
    ),
    Row(
        # §5.9: tasks behind a fencing record have to be fenced again, whoever wrote them.
        "publish tasks after a fencing",
        config(LIVE, *tasks("a", 2), FENCED),
        PublishTasks("a", ({"n": "new"},)),
        "2.3",
        {
            "0.9": "tasks 1 new, told of task configs",
            "3.3.0": "tasks 1 new, fencing pending, told of task configs",
        },
    ),
    Row(
        "publish no tasks",
        RUNS,
        PublishTasks("a", ()),
        "2.3",
        {"0.9": STOPS_09, "0.10.0": "tasks 0, told of task configs"},
    ),
    Row(
        # §2: read from 3.3 on, no matter whether the reader has exactly-once support enabled.
        "fence tasks",
        RUNS,
        FenceTasks("a"),
        "3.4",
        {"0.9": "", "3.3.0": "fenced 2, fencing done"},
    ),
    Row(
        # §2: known from 3.7 on.
        "set the level of a logger",
        [],
        SetLoggerLevel("org.example", "DEBUG"),
        "3.7",
        {"0.9": "", "3.7.0": "told of logger level"},
    ),
    Row(
        # Ours. The tasks of what does not run are committed anew by `kip` only, as with a put.
        "restore what was paused",
        config(LIVE, PAUSED),
        RestoreConnector("a", OTHER, Target.STARTED),
        "2.3",
        {
            "0.9": "config other, told of connector config",
            "0.10.0": "config other, target STARTED, told of connector config, "
            "told of target state",
        },
    ),
]


# --- the test ---------------------------------------------------------------------------------


def drafts(row: Row, writer: str) -> list[Draft]:
    """What a release writes for the command; nothing where it has no such command, or no record."""
    exactly_once = isinstance(row.command, FenceTasks)
    worker = Worker(exactly_once_source=exactly_once)
    context = context_of(writer, worker=worker, hooks=(Done(definite=True),) * 2)
    decision = decide(read(row.log, writer), row.command, context)
    if isinstance(decision, Rejected):
        assert decision.reason is Reason.NOT_OFFERED, decision
        return []
    assert isinstance(decision, Plan), decision
    return [draft for step in decision.steps for draft in step.records]


def appended(log: list[Entry], written: list[Draft]) -> Iterator[Entry]:
    """The drafts with their places behind a log; every topic here has one partition."""
    ends = {entry.topic: entry.offset + 1 for entry in log}
    for draft in written:
        place = ends.setdefault(draft.topic, 0)
        ends[draft.topic] += 1
        yield Entry(draft.topic, 0, place, 1_800_000_000_000, draft.key, draft.value)


def aspects(state: ClusterState) -> Iterator[tuple[str, Any]]:
    """Everything that a command can change about connector `a`, in words."""
    config, target = state.config.connectors.get("a"), views.target(state, "a")
    yield "config", config["topic"] if config else None
    yield "target", target and target.value
    task_configs = views.task_configs(state, "a").values()
    names = (str((one or {})["n"]) for one in task_configs)
    yield "tasks", " ".join((str(len(task_configs)), *names))
    yield "inconsistent", "a" in state.config.inconsistent
    yield "fenced", state.config.fenced_counts.get("a")
    yield "fencing", "pending" if "a" in state.config.pending_fencing else "done"
    yield "status", state.status.connectors.get("a")
    yield "topics", " ".join(views.active_topics(state, "a")) or None
    found = [one.offset for one in views.source_offsets(state, "a")]
    yield "offset", " ".join("null" if one is None else str(one["row"]) for one in found) or None


def effect(log: list[Entry], written: list[Draft], reader: Profile) -> str:
    """What a running worker sees of these drafts."""
    fold = Fold(reader, live=True)
    fold.apply_all(log)
    before = dict(aspects(fold.snapshot()))
    outcomes = [fold.apply(entry) for entry in appended(log, written)]
    after = dict(aspects(fold.snapshot()))
    changes = [
        f"{name} {'none' if now is None else now}"
        for name, now in after.items()
        if now != before[name]
    ]
    ends = [STOPS_09] if any(one.kind is Kind.POISON for one in outcomes) else []
    return ", ".join(
        [*ends, *changes, *(f"told of {call.name}" for one in outcomes for call in one.calls)]
    )


def offers(writer: str, since: str) -> bool:
    """Whether a release writes for what began with another; `kip` has everything."""
    if KIP in (writer, since):
        return writer == KIP
    return RELEASES.index(Profile.of(writer).release) >= RELEASES.index(Profile.of(since).release)


def wanted(row: Row, writer: str) -> dict[str, str]:
    """What each reader is to see. `kip` reads as the newest release."""
    if not offers(writer, row.since):
        return dict.fromkeys((one.release for one in PROFILES), "")
    seen = dict(row.kip if row.kip and writer == KIP else row.seen)
    return {
        one.release: expected(seen, RELEASES[-1] if one.release == KIP else one.release)
        for one in PROFILES
    }


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_what_others_see(row: Row, writer: str) -> None:
    """What workers of every release make of what one of them has written."""
    written = drafts(row, writer)
    assert bool(written) is offers(writer, row.since)
    seen = {one.release: effect(row.log, written, one) for one in PROFILES}
    assert seen == wanted(row, writer)


def compacted(log: list[Entry]) -> list[Entry]:
    """What the cleaner leaves: the last record of each key, and no tombstones."""
    last = {(entry.topic, entry.key): entry for entry in log}
    return [one for one in log if last[one.topic, one.key] is one and one.value is not None]


LATER = [
    # §5.13: up to 2.5.0 a deletion leaves the tasks; up to 3.7.0 a compacted log brings them back.
    ("create again what was deleted", False, {"0.9": "2 0 1", "2.5.1": "0"}),
    ("create again what was deleted", True, {"0.9": "2 0 1", "3.7.1": "0"}),
    # §5.12: the commit is older than the config then, which drops the tasks.
    ("put a config", False, {"0.9": "2 0 1"}),
    ("put a config", True, {"0.9": "2 0 1", "3.7.1": "0"}),
]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(("name", "cleaned", "seen"), LATER)
def test_tasks_that_others_know_later(name: str, seen: Seen, writer: str, *, cleaned: bool) -> None:
    """Which tasks a worker finds that starts on the log, before and after its cleaner ran."""
    row = next(row for row in ROWS if row.name == name)
    log = [*row.log, *appended(row.log, drafts(row, writer))]
    log = compacted(log) if cleaned else log
    found = {one.release: dict(aspects(read(log, one.release)))["tasks"] for one in PROFILES}
    assert found == wanted(row._replace(seen=seen), writer)


def test_every_command_has_a_row() -> None:
    """Restarting one task writes no record in any release; every other command does."""
    assert {type(row.command) for row in ROWS} == set(get_args(AnyCommand)) - {RestartTask}
