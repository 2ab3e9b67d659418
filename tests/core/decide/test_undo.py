"""Undo restores a connector to an earlier state, also after later changes and crashes."""

import json
from collections.abc import Iterable
from itertools import product
from typing import Any

import msgspec
import pytest

from controlplane.core import views
from controlplane.core.commands import RestoreConnector
from controlplane.core.decide import decide
from controlplane.core.decide.prediction import predicted_state
from controlplane.core.decide.recovery import RecoveryKind, recover
from controlplane.core.decide.undo import restoration
from controlplane.core.entry import Entry
from controlplane.core.plan import AskHook, HookSuccess, Outcome, Plan, Reason
from controlplane.core.records import CommandAccepted, Target
from controlplane.core.state import ClusterState
from tests.core.decisions import PROPERTIES, SINK, context_of, refused, steps
from tests.core.logs import Pair, config, offsets, read, tasks

RELEASES = ("3.9", "4.3", "kip")

TARGETS = {
    "STARTED": '{"state":"STARTED","state.v2":"STARTED"}',
    "PAUSED": '{"state":"PAUSED","state.v2":"PAUSED"}',
    "STOPPED": '{"state":"PAUSED","state.v2":"STOPPED"}',
}
ACTIVITY = list(reversed(TARGETS))
"""Target states, ordered by the activity of a connector."""


def made(**properties: Any) -> tuple[str, str]:
    """The config record of connector `a`, as a worker writes it."""
    config = {**PROPERTIES, "name": "a", **properties}
    return "connector-a", json.dumps({"properties": config}, separators=(",", ":"))


OLD = made(file="old")
NEW = made(file="new")
GONE: list[Pair] = [("connector-a", None), ("target-state-a", None)]


def life(config: Pair, target: str) -> list[Pair]:
    """Records of a connector in some target state, with the tasks of that state."""
    wished = [("target-state-a", TARGETS[target])]
    return [config, *tasks("a", 0 if target == "STOPPED" else 2), *wished]


def lived(config: Pair, target: str) -> list[Pair]:
    """Records of a connector in a target state, or of a deleted one (`gone`)."""
    return GONE if target == "gone" else life(config, target)


def at(
    records: Iterable[Pair], *positions: int, release: str = "kip", **settings: Any
) -> ClusterState:
    """State of a log with offsets: source partition `page: n` has the offset `positions[n]`."""
    keys = [f'["a",{{"page":{page}}}]' for page in range(3)]
    pairs = [(key, f'{{"row":{row}}}') for key, row in zip(keys, positions, strict=False)]
    return read([*config(*records), *offsets(*pairs)], release, **settings)


def plan_of(state: ClusterState, command: RestoreConnector) -> Plan:
    """Plan of an undo; the connector's hook gives no definite answer."""
    context = context_of(state.profile.release)
    decision = decide(state, command, context)
    if isinstance(decision, AskHook):
        context = msgspec.structs.replace(context, hooks=(HookSuccess(definite=False),))
        decision = decide(state, command, context)
    assert isinstance(decision, Plan), decision
    return decision


def prefixes(state: ClusterState, plan: Plan) -> list[ClusterState]:
    """Predicted states after no step, after the first, and so on."""
    return [
        predicted_state(state, Plan(plan.steps[:count])) for count in range(len(plan.steps) + 1)
    ]


def shape(state: ClusterState) -> tuple[str | None, Target | None, dict[str, int]]:
    """Results of an undo: file in the config, target state, and the offset of each page."""
    properties = state.config.connectors.get("a")
    rows = {
        f"{view.partition['page']}": view.offset["row"]
        for view in views.source_offsets(state, "a")
        if view.offset is not None
    }
    target = state.config.targets.get("a") if properties else None
    return properties["file"] if properties else None, target, rows


# --- one by one -----------------------------------------------------------------------------


def undone(now: list[Pair], then: list[Pair], release: str = "3.9") -> dict[str, list[str]]:
    """The steps of an undo as text."""
    return steps(now, restoration(at(then, release=release), "a"), release)


RECORD = {
    "old": " ".join(OLD),
    **{name: f"target-state-a {value}" for name, value in TARGETS.items()},
}


def test_an_undo_without_a_difference_writes_nothing() -> None:
    """Undo writes no record if nothing differs."""
    assert undone(life(OLD, "PAUSED"), life(OLD, "PAUSED")) == {}
    assert undone([], []) == {}


def test_a_missing_name_counts_as_unchanged() -> None:
    """Foreign writers omit the name from a config: such a config counts as unchanged."""
    nameless: Pair = ("connector-a", json.dumps({"properties": {**PROPERTIES, "file": "old"}}))
    for now in (nameless, OLD):
        assert undone(life(now, "STOPPED"), life(nameless, "STOPPED"), "kip") == {}
    assert [*undone(life(NEW, "STARTED"), life(nameless, "STARTED"))] == ["put-config"]


def test_a_config_comes_back() -> None:
    """Only the config is written if nothing else differs."""
    assert undone(life(NEW, "STARTED"), life(OLD, "STARTED")) == {"put-config": [RECORD["old"]]}


@pytest.mark.parametrize(("old", "new"), [(1, True), (1, 1.0), (["x"], "x"), ([0], [False])])
def test_a_value_of_another_type_comes_back(old: Any, new: Any) -> None:
    """Values of different types are different, as in Java, even if Python calls them equal."""
    then, now = (life(made(x=value), "STARTED") for value in (old, new))
    assert undone(now, then) == {"put-config": [" ".join(made(x=old))]}
    assert undone(then, then) == {}


def test_the_connector_stops_before_it_gets_its_old_config() -> None:
    """The connector stops before it gets its old config, and never runs with it."""
    assert undone(life(NEW, "STARTED"), life(OLD, "STOPPED")) == {
        "stop-tasks": ['commit-a {"tasks":0}'],
        "stop-state": [RECORD["STOPPED"]],
        "put-config": [RECORD["old"]],
    }


def test_the_connector_gets_its_old_config_before_it_runs() -> None:
    """The old config is written before the record that resumes the connector."""
    assert undone(life(NEW, "STOPPED"), life(OLD, "STARTED")) == {
        "put-config": [RECORD["old"]],
        "resume-state": [RECORD["STARTED"]],
    }


def test_a_connector_that_did_not_exist_is_deleted() -> None:
    """Both its config and its target state get a tombstone."""
    assert undone(life(NEW, "STARTED"), GONE) == {
        "delete-config": ["connector-a "],
        "delete-state": ["target-state-a "],
    }


def test_a_deleted_connector_returns_in_its_old_target_state() -> None:
    """The target state is written before the config; STARTED needs no record."""
    assert undone(GONE, life(OLD, "PAUSED")) == {
        "create-state": [RECORD["PAUSED"]],
        "create-config": [RECORD["old"]],
    }
    assert undone(GONE, life(OLD, "STARTED")) == {"create-config": [RECORD["old"]]}


def test_a_deleted_connector_returns_in_releases_without_initial_states() -> None:
    """A release before KIP-980 starts the connector, and pauses it afterwards."""
    assert undone(GONE, life(OLD, "PAUSED"), "3.4") == {
        "create-config": [RECORD["old"]],
        "pause-state": ['target-state-a {"state":"PAUSED"}'],
    }


def test_an_orphan_target_state_is_not_inherited() -> None:
    """Releases let a target state outlive its connector; the undo repairs that."""
    orphan: list[Pair] = [("connector-a", None), ("target-state-a", TARGETS["PAUSED"])]
    assert undone(orphan, life(OLD, "STARTED")) == {
        "create-config": [RECORD["old"]],
        "resume-state": [RECORD["STARTED"]],
    }


@pytest.mark.parametrize(
    ("state", "release", "warned"),
    [
        ("PAUSED", "3.4", "command pause reaches it: 3.4.1 creates"),
        ("PAUSED", "3.6", "command pause reaches it: 3.6.2 creates"),
        ("STOPPED", "3.6", "command stop reaches it: 3.6.2 creates"),
        ("STARTED", "3.4", None),
        ("PAUSED", "3.9", None),
        ("STOPPED", "kip", None),
    ],
)
def test_an_undone_deletion_warns_that_the_connector_may_run(
    state: str, release: str, warned: str | None
) -> None:
    """A release without `initial_state` creates the connector RUNNING, then pauses or stops it."""
    command = restoration(at(life(OLD, state), release=release), "a")
    assumed = plan_of(at(GONE, release=release), command).assumed
    assert [warned in assumption for assumption in assumed if warned] == [True] * (
        warned is not None
    )
    assert len(assumed) == (warned is not None)


def test_the_outcome_shows_a_new_connector() -> None:
    """The outcome shows if the connector is new."""
    command = restoration(at(life(OLD, "STARTED")), "a")
    assert plan_of(at(GONE), command).outcome == Outcome(created=True)
    assert plan_of(at(life(NEW, "STARTED")), command).outcome == Outcome()


def test_an_invalid_old_config_is_refused() -> None:
    """An undo is refused if a worker would refuse the config."""
    then = at([made(name="b")])
    refusal = refused(life(NEW, "STARTED"), restoration(then, "a"))
    assert refusal.reason is Reason.INVALID


def test_a_release_that_cannot_stop_refuses_an_undo() -> None:
    """Undo is refused on 3.4, which cannot stop a connector."""
    command = restoration(at(life(OLD, "STOPPED")), "a")
    assert refused(life(NEW, "STARTED"), command, "3.4").reason is Reason.NOT_OFFERED


# --- offsets --------------------------------------------------------------------------------

THEN = (1, 2)
NOW = (1, 5, 7)


def test_offsets_come_back_between_config_and_start() -> None:
    """An undo sets different offsets, and removes offsets that did not exist."""
    command = restoration(at(life(OLD, "STARTED"), *THEN), "a", offsets=True)
    plan = plan_of(at(life(NEW, "STOPPED"), *NOW, release="3.9"), command)
    assert [
        (step.name, [(record.key, record.value) for record in step.records]) for step in plan.steps
    ] == [
        ("put-config", [(b"connector-a", OLD[1].encode())]),
        ("offsets-write", [(b'["a",{"page":1}]', b'{"row":2}'), (b'["a",{"page":2}]', None)]),
        ("resume-state", [(b"target-state-a", TARGETS["STARTED"].encode())]),
    ]


def test_undo_keeps_offsets_by_default() -> None:
    """An undo restores only changes by commands; offsets are the connector's own progress."""
    command = restoration(at(life(OLD, "STARTED"), *THEN), "a")
    after = prefixes(now := at(life(NEW, "STOPPED"), *NOW), plan_of(now, command))[-1]
    assert shape(after) == ("old", Target.STARTED, {"0": 1, "1": 5, "2": 7})


def test_offsets_that_stay_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """An undo without offsets takes the same time for a million of them."""
    monkeypatch.delattr(views, "source_offsets")
    assert restoration(at(life(OLD, "STARTED"), *THEN), "a").offsets is None


@pytest.mark.parametrize(
    ("target", "last"), [("STARTED", "resume-state"), ("PAUSED", "pause-state")]
)
def test_a_running_connector_is_stopped_for_its_offsets(target: str, last: str) -> None:
    """A running connector is stopped, and gets its former target state again afterwards."""
    command = restoration(at(life(OLD, target), *THEN), "a", offsets=True)
    plan = plan_of(at(life(OLD, "STARTED"), *NOW), command)
    names = ["stop-tasks", "stop-state", "offsets-write", last]
    assert [step.name for step in plan.steps] == names


def test_a_connector_with_equal_offsets_keeps_running() -> None:
    """The connector is stopped only if its offsets differ."""
    command = restoration(at(life(OLD, "STARTED"), *THEN), "a", offsets=True)
    plan = plan_of(at(life(NEW, "STARTED"), *THEN), command)
    assert [step.name for step in plan.steps] == ["put-config"]


def test_a_stopped_connector_with_tasks_is_stopped_again() -> None:
    """If a foreign record stopped a connector that still has tasks, the undo stops it again."""
    wished = ("target-state-a", TARGETS["STOPPED"])
    command = restoration(at(life(OLD, "STOPPED"), *THEN), "a", offsets=True)
    plan = plan_of(at([OLD, *tasks("a", 2), wished], *NOW), command)
    names = ["stop-tasks", "stop-state", "offsets-write"]
    assert [step.name for step in plan.steps] == names


def test_tasks_are_fenced_before_their_offsets_are_written() -> None:
    """Exactly-once support fences tasks, so they cannot commit later."""
    command = restoration(at(life(OLD, "STARTED"), *THEN), "a", offsets=True)
    counted = ("tasks-fencing-a", '{"task-count":2}')
    now = at([*life(OLD, "STARTED"), counted], *NOW, release="3.9", exactly_once=True)
    names = [step.name for step in plan_of(now, command).steps]
    assert names[:2] == ["stop-tasks", "stop-state"]
    assert names[2:4] == ["offsets-fence", "offsets-count"]
    assert names[4:] == ["offsets-write", "resume-state"]


def test_a_restore_without_a_target_state_needs_a_stopped_connector() -> None:
    """A command may leave the target state as it is, if the connector is STOPPED already."""
    command = RestoreConnector("a", {**PROPERTIES, "name": "a", "file": "old"}, None, ())
    refusal = refused([*life(OLD, "STARTED"), *offsets(('["a",{"page":0}]', '{"row":1}'))], command)
    assert refusal.reason is Reason.NOT_STOPPED
    assert "'PUT' request to the '/connectors/a/stop'" in (refusal.text or "")


def test_offsets_of_a_deleted_connector_are_restored() -> None:
    """The connector is created STOPPED, gets its offsets and starts, also without KIP-995."""
    command = restoration(at(life(OLD, "STARTED"), *THEN), "a", offsets=True)
    plan = plan_of(at(GONE, *NOW, release="3.9"), command)
    names = ["create-state", "create-config", "offsets-write", "resume-state"]
    assert [step.name for step in plan.steps] == names


@pytest.mark.parametrize(
    ("release", "stops", "briefly"),
    [("3.6", ["stop-tasks", "stop-state"], True), ("3.9", [], False), ("kip", [], False)],
)
def test_a_connector_without_an_initial_state_is_stopped_for_its_offsets(
    release: str, stops: list[str], briefly: bool
) -> None:
    """Release 3.6 alters offsets, but creates a connector only as STARTED."""
    then = restoration(at(life(OLD, "PAUSED"), 1, release=release), "a", offsets=True)
    plan = plan_of(at(GONE, 2, release=release), then)
    names = [step.name for step in plan.steps if step.name != "create-state"]
    assert names == ["create-config", *stops, "offsets-write", "pause-state"]
    assert any("may run briefly" in text for text in plan.assumed) == briefly


def test_offsets_are_restored_before_a_deletion() -> None:
    """Offsets are restored first: only an existing connector can change them."""
    command = restoration(at(GONE, *THEN), "a", offsets=True)
    plan = plan_of(at(life(NEW, "STOPPED"), *NOW, release="kip"), command)
    assert [step.name for step in plan.steps] == ["offsets-write", "delete-config"]
    assert plan.commit_point == "delete-config"
    runs = plan_of(at(life(NEW, "STARTED"), *NOW, release="kip"), command)
    names = ["stop-tasks", "stop-state", "offsets-write", "delete-config"]
    assert [step.name for step in runs.steps] == names


def test_offsets_are_restored_in_the_topic_of_the_old_config() -> None:
    """The offsets are restored in the offsets topic of the old config."""
    own = made(**{"offsets.storage.topic": "own"})
    command = restoration(at(life(own, "STOPPED"), *THEN), "a", offsets=True)
    plan = plan_of(at(life(NEW, "STOPPED"), *NOW), command)
    topics = [(step.name, {record.topic for record in step.records}) for step in plan.steps]
    assert topics == [
        ("put-config", {"connect-configs"}),
        ("offsets-wipe-copy", {"connect-offsets"}),
        ("offsets-write", {"own"}),
        ("offsets-write-copy", {"connect-offsets"}),
    ]


def test_offsets_of_sinks_are_not_restored() -> None:
    """An undo of a sink's offsets is refused: Connect's logs have no past offsets of sinks."""
    sink = made(**{"connector.class": SINK})
    command = restoration(at(life(sink, "STARTED")), "a", offsets=True)
    for target in TARGETS:
        assert "consumer group" in (refused(life(sink, target), command).text or "")


# --- from any target state to any other ------------------------------------------------------

LIVES = ("gone", *TARGETS)
CASES = list(product(RELEASES, LIVES, LIVES, (False, True)))
WITH_OFFSETS = [
    (release, then, now)
    for release, then, now in product(RELEASES, LIVES, LIVES)
    if then != now or then != "gone"  # no command changes offsets without a connector
]


@pytest.mark.parametrize(("release", "then", "now", "exactly_once"), CASES)
def test_undo_restores_any_state(release: str, then: str, now: str, exactly_once: bool) -> None:
    """The last step restores config and target state; a second undo has no steps."""
    command = restoration(was := at(lived(OLD, then), *THEN, release=release), "a")
    is_ = at(lived(NEW, now), *NOW, release=release, exactly_once=exactly_once)
    after = prefixes(is_, plan_of(is_, command))[-1]
    assert shape(after) == (*shape(was)[:2], shape(is_)[2])
    assert plan_of(after, command).steps == ()


@pytest.mark.parametrize(("release", "then", "now", "exactly_once"), CASES)
def test_undo_survives_a_crash_anywhere(
    release: str, then: str, now: str, exactly_once: bool
) -> None:
    """After a crash, a connector with its old config is at most as active as at the old moment.

    With the newer config, it is at most as active as before the undo. Recovery completes the undo.
    """
    command = restoration(was := at(lived(OLD, then), *THEN, release=release), "a")
    is_ = at(lived(NEW, now), *NOW, release=release, exactly_once=exactly_once)
    plan = plan_of(is_, command)
    for crashed in prefixes(is_, plan):
        file, target, _ = shape(crashed)
        if file is not None:
            source = was if file == "old" else is_
            assert activity(target) <= activity(shape(source)[1])
        recovered = recover(crashed, accepted(command, plan), context_of(release))
        assert recovered.ending is not RecoveryKind.GIVEN_UP
        assert shape(predicted_state(crashed, recovered.plan))[:2] == shape(was)[:2]


@pytest.mark.parametrize(("release", "then", "now"), WITH_OFFSETS)
def test_undo_with_offsets_survives_a_crash_anywhere(release: str, then: str, now: str) -> None:
    """Offsets are restored too, and are written only while the connector is at rest."""
    was = at(lived(OLD, then), *THEN, release=release)
    is_ = at(lived(NEW, now), *NOW, release=release)
    command = restoration(was, "a", offsets=True)
    plan = plan_of(is_, command)
    for crashed in prefixes(is_, plan):
        recovered = recover(crashed, accepted(command, plan), context_of(release))
        assert recovered.ending is not RecoveryKind.GIVEN_UP
        assert shape(predicted_state(crashed, recovered.plan)) == shape(was)
        for path in (plan, recovered.plan):
            begin = is_ if path is plan else crashed
            assert all(map(at_rest, writing_offsets(begin, path)))


@pytest.mark.parametrize("target", TARGETS)
def test_a_connector_started_in_the_middle_is_stopped_again(target: str) -> None:
    """If another writer starts the connector, recovery stops it once more."""
    was = at(life(OLD, "STARTED"), *THEN)
    is_ = at(life(NEW, "STOPPED"), *NOW)
    command = restoration(was, "a", offsets=True)
    plan = plan_of(is_, command)
    touched = at(life(OLD, target), *NOW)
    recovered = recover(touched, accepted(command, plan), context_of("kip"))
    written = list(writing_offsets(touched, recovered.plan))
    assert written
    assert all(map(at_rest, written))
    assert shape(predicted_state(touched, recovered.plan)) == shape(was)


def writing_offsets(state: ClusterState, plan: Plan) -> list[ClusterState]:
    """Return the states in which a plan writes offsets."""
    written = zip(prefixes(state, plan), plan.steps, strict=False)
    return [before for before, step in written if step.name.startswith("offsets-")]


def at_rest(state: ClusterState) -> bool:
    """True if no task runs that could commit offsets."""
    stopped = state.config.targets["a"] is Target.STOPPED
    return stopped and state.config.task_counts.get("a", 0) == 0


def activity(target: Target | None) -> int:
    """Activity of a connector in a target state."""
    return ACTIVITY.index(target.value) if target else -1


def accepted(command: RestoreConnector, plan: Plan) -> CommandAccepted:
    """The record that starts a command."""
    return CommandAccepted("id", 0, "me", msgspec.to_builtins(command), msgspec.to_builtins(plan))


def test_the_predicted_state_is_the_folded_state() -> None:
    """The predicted state equals the state after reading the plan's records."""
    log = [*config(*life(NEW, "STARTED")), *offsets(('["a",{"page":0}]', '{"row":1}'))]
    state = read(log, "kip")
    plan = plan_of(state, restoration(at(life(OLD, "STOPPED")), "a"))
    drafts = [draft for step in plan.steps for draft in step.records]
    begin = state.ends["connect-configs", 0]
    plan_entries = [
        Entry(draft.topic, 0, begin + place, -1, draft.key, draft.value)
        for place, draft in enumerate(drafts)
    ]
    assert predicted_state(state, plan) == read([*log, *plan_entries], "kip")
