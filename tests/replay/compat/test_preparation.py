"""A plan that is carried out makes the release change compatible, and changes nothing else.

The verdict is COMPATIBLE once the steps BEFORE and DURING the change are carried out, or else after
all steps. Every connector afterwards does what it did before, with its config and its tasks.
"""

import shlex
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controlplane.core.codec.offsets import encode_partition
from controlplane.core.fold import fold
from controlplane.core.records import Target
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.logs.dumps import read_dump
from replay.compat import ReleaseChange, ReleaseVerdict, RolloutMode, assess, roll
from replay.compat.preparation import StepTime, append_command, copied, offsets_of, verb
from tests.replay.compat.pairs import (
    ENVELOPE,
    PAIRS,
    V2_PAUSED,
    V2_STARTED,
    created,
    fenced,
    own_topic,
)
from tests.replay.compat.plan_execution import PlanTarget, targets
from tests.replay.compat.planted_log import CONFIG, OFFSETS, STOPPED, Planted, running, stopped


class PreparationCase(NamedTuple):
    """Log with a situation, and a release change; by default that of the situation in `PAIRS`."""

    number: int
    log: Planted
    start: str | None = None
    goal: str | None = None
    mode: RolloutMode | None = None

    @property
    def roll(self) -> ReleaseChange:
        """Release change of this case."""
        pair = PAIRS[self.number]
        start, goal = self.start or pair.start, self.goal or pair.goal
        return roll(Profile.of(start), Profile.of(goal), self.mode or pair.mode)


def quiet(value: dict[str, Any] = V2_PAUSED) -> Planted:
    """Log with a paused or stopped connector."""
    return stopped() if value is STOPPED else running().target("a", value)


def with_own_topic(log: Planted) -> Planted:
    """Let the connector use the offsets topic `own`, which is ahead of the workers' topic."""
    log.config("a", **{"offsets.storage.topic": "own"}).tasks("a", 1)
    return log.offset("a", 1).offset("a", 2, "own")


CASES = {
    "a stop without its empty task set": PreparationCase(1, running().target("a", STOPPED)),
    "paused by an older worker": PreparationCase(3, PAIRS[3].planted),
    "a stop that older releases cannot read": PreparationCase(
        4, running().target("a", {"state": "STOPPED"})
    ),
    "a target state that was removed": PreparationCase(5, PAIRS[5].planted),
    "a removed state STOPPED that only the new release can write": PreparationCase(
        5, stopped().target("a", None), "3.4"
    ),
    "tasks of a stopped connector": PreparationCase(6, stopped().tasks("a", 2)),
    "a task that was not restarted": PreparationCase(8, PAIRS[8].planted),
    "producers that cannot be fenced": PreparationCase(9, fenced(1)),
    "active topics of a deleted connector": PreparationCase(11, PAIRS[11].planted),
    "tasks older than the config": PreparationCase(12, PAIRS[12].planted),
    "tasks of a deleted connector": PreparationCase(13, running(tasks=2).gone("a")),
    "tasks of a name used again": PreparationCase(13, PAIRS[13].planted),
    "offsets that the older release does not find": PreparationCase(14, PAIRS[14].planted),
    "offsets of a paused connector that the older release does not find": PreparationCase(
        14, with_own_topic(quiet())
    ),
    "offsets that the older release does not find in a rolling change": PreparationCase(
        14, own_topic("own"), "3.2", "3.9", RolloutMode.ROLLING
    ),
    "offsets that the newer release does not find": PreparationCase(
        14,
        Planted().config("a", **{"offsets.storage.topic": "own"}).tasks("a", 1).offset("a", 1),
        "3.2",
        "3.9",
    ),
    "an offset of an aborted transaction": PreparationCase(
        14, running().offset("a", 1).abort().offset("a", 2).commit()
    ),
    "the only offset, of an aborted transaction": PreparationCase(
        14, running().abort().offset("a", 2).commit()
    ),
    "an offset of an aborted transaction of a stopped connector": PreparationCase(
        14, stopped().abort().offset("a", 2).commit()
    ),
    "an aborted pause": PreparationCase(15, PAIRS[15].planted),
    "an aborted pause of a paused connector": PreparationCase(
        15, quiet().abort().target("a", V2_STARTED).commit().config("b")
    ),
    "an aborted stop": PreparationCase(
        15, running().abort().tasks("a", 0).target("a", STOPPED).commit().config("b")
    ),
    "an aborted resumption": PreparationCase(
        15, stopped().abort().target("a", V2_STARTED).tasks("a", 1).commit().config("b")
    ),
    "an aborted config": PreparationCase(
        15, running().abort().config("a", rows="2").commit().config("b")
    ),
    "an aborted config of a paused connector": PreparationCase(
        15, quiet().abort().config("a", rows="2").tasks("a", 2).commit().config("b")
    ),
    "an aborted creation": PreparationCase(
        15, running("b").abort().target("a", V2_PAUSED).config("a").tasks("a", 1).commit()
    ),
    "an aborted deletion": PreparationCase(15, quiet().abort().gone("a").commit().config("b")),
    "the first tasks, aborted": PreparationCase(
        15, Planted().config("a").abort().tasks("a", 1).commit().config("b")
    ),
    "an aborted last record": PreparationCase(
        15, running().abort().target("a", V2_STARTED).commit(), mode=RolloutMode.ROLLING
    ),
    "an aborted last record of a stopped connector": PreparationCase(
        15, stopped().abort().target("a", STOPPED).commit(), mode=RolloutMode.ROLLING
    ),
    "an aborted last record of a stopped connector, where the start lacks STOPPED": PreparationCase(
        15, stopped().abort().target("a", STOPPED).commit(), "3.4", "3.9", RolloutMode.ROLLING
    ),
    "an aborted pause while the own offsets topic is ahead of the workers' topic": PreparationCase(
        15, with_own_topic(running().abort().target("a", V2_PAUSED).commit()), "3.9", "3.2"
    ),
}

LOST_OFFSETS = {
    "offsets that the older release does not find",
    "offsets of a paused connector that the older release does not find",
    "offsets that the older release does not find in a rolling change",
    "offsets that the newer release does not find",
}
"""Cases in which one of the releases does not find the offsets: the change is unsafe."""

ALWAYS_UNSAFE = {4, 15}
"""Situations whose cases are all unsafe before their plan is carried out."""

ABOUT_TARGETS = {3, 5}
"""Situations whose plan restores a lost target state."""

FOR_PEOPLE = {
    9: (
        PreparationCase(9, fenced(1), "3.2", "3.9"),
        "a setting of every worker, set by the person who starts the workers",
    ),
    10: (PreparationCase(10, PAIRS[10].planted), "a setting of every worker"),
    19: (
        PreparationCase(19, PAIRS[19].planted),
        "a question about the brokers, which no log answers",
    ),
}
"""Cases whose plan does not change the log, by situation; each with the subject of its step."""


def test_every_situation_that_has_steps_is_carried_out() -> None:
    """Every situation with steps has a case, except 16.

    The plan of 16 writes new topics and has its own test.
    """
    telling = {2, 7, 17, 18}
    assert {case.number for case in CASES.values()} | {*FOR_PEOPLE} | telling | {16} == {*PAIRS}


@pytest.mark.parametrize("name", CASES)
def test_a_plan_makes_the_change_compatible(name: str, tmp_path: Path) -> None:
    """The plan's steps make the change compatible and leave every connector as it was.

    Before the steps, the verdict is UNSAFE for `ALWAYS_UNSAFE` and `LOST_OFFSETS`. It is
    NEEDS_PREPARATION for other plans with a step before or during the change, and else COMPATIBLE.
    """
    case = CASES[name]
    change = case.roll
    assessment = assess(case.log.entries, change)
    prepared = any(step.when is not StepTime.AFTER for step in assessment.plan)
    expected = ReleaseVerdict.NEEDS_PREPARATION if prepared else ReleaseVerdict.COMPATIBLE
    if case.number in ALWAYS_UNSAFE or name in LOST_OFFSETS:
        expected = ReleaseVerdict.UNSAFE
    assert assessment.verdict is expected
    cluster = PlanTarget(case.log.entries, tmp_path / "lab.log.jsonl")
    was = committed(cluster, change)
    verdicts = []
    for when in StepTime:
        assert not cluster.carry_out(
            (step for step in assessment.plan if step.when is when), change
        )
        verdicts.append(assess(cluster.log, change).verdict)
    assert ReleaseVerdict.COMPATIBLE in verdicts[1:]
    for now in (committed(cluster, change), cluster.state(change.newer)):
        check_as_it_was(was, now, about_targets=case.number in ABOUT_TARGETS)


def committed(cluster: PlanTarget, change: ReleaseChange) -> ClusterState:
    """State of workers of the newer release, with exactly-once support if it has that."""
    support = change.newer.exactly_once_support
    return fold(cluster.log, change.newer, exactly_once=support)


def check_as_it_was(was: ClusterState, now: ClusterState, *, about_targets: bool = False) -> None:
    """Compare configs and tasks, and target states unless the situation is about them."""
    assert now.config.connectors == was.config.connectors
    assert about_targets or targets(now) == targets(was)
    for name, target in targets(now).items():
        if target is not Target.STOPPED:
            assert tasks(now, name) == tasks(was, name)


def tasks(state: ClusterState, name: str) -> list[Any]:
    """Configs of a connector's tasks."""
    config = state.config
    return [config.tasks[name][task] for task in config.task_ids(name)]


HISTORIES = (
    ("aborted-3.9", "4.3"),
    ("aborted-3.9", "3.4"),
    ("exactly-once-3.9", "3.2"),
    ("compacted-3.9.before", "3.4"),
    ("life-3.9", "2.8"),
)
"""Logs of real 3.9 workers, each with the release to change to."""


@pytest.mark.parametrize(("name", "goal"), HISTORIES)
def test_a_plan_restores_the_states_of_a_recorded_log(
    name: str, goal: str, histories: Path, tmp_path: Path
) -> None:
    """The plan keeps the committed configs, target states and tasks.

    Workers with and without exactly-once support read them afterwards.
    """
    log = read_dump(histories / f"{name}.log.jsonl").entries
    change = roll(Profile.of("3.9"), Profile.of(goal))
    cluster = PlanTarget(log, tmp_path / "lab.log.jsonl")
    was, plan = committed(cluster, change), assess(log, change).plan
    assert plan
    cluster.carry_out(plan, change)
    for now in (committed(cluster, change), cluster.state(change.newer)):
        check_as_it_was(was, now)


def test_forgotten_target_states_are_restored(tmp_path: Path) -> None:
    """The plans of situations 3 and 5 restore the forgotten target state."""
    for number, log, target in (
        (3, PAIRS[3].planted, Target.STOPPED),
        (5, PAIRS[5].planted, Target.PAUSED),
        (5, stopped().target("a", None), Target.STOPPED),
    ):
        change = PreparationCase(number, log).roll
        cluster = PlanTarget(log.entries, tmp_path / "lab.log.jsonl")
        cluster.carry_out(assess(log.entries, change).plan, change)
        assert targets(cluster.state(change.goal)) == {"a": target}


def test_connectors_are_deleted_for_a_release_without_target_states(tmp_path: Path) -> None:
    """Release 0.9 runs every existing connector, so the plan deletes stopped ones."""
    change = PreparationCase(1, running(), goal="0.9.0.1").roll
    cluster = PlanTarget(running().target("a", STOPPED).entries, tmp_path / "lab.log.jsonl")
    instructions = cluster.carry_out(assess(cluster.log, change).plan, change)
    assert not cluster.state(change.goal).config.connectors
    assert not instructions
    (left,) = assess(cluster.log, change).plan
    assert left.command == "# create no connector a"


def test_each_deleted_connector_has_a_file_for_its_config() -> None:
    """The plan saves each config under a file name of its own, which is safe in a shell."""
    change, log = PreparationCase(1, running(), goal="0.9.0.1").roll, Planted()
    for name in ("a", "a/b", "a b", "$(ä)"):
        log.config(name).tasks(name, 0).target(name, STOPPED)
    commands = [step.command for step in assess(log.entries, change).plan]
    files = {command.partition(" > ")[2] for command in commands if " > " in command}
    expected = ("a", "a%2Fb", "a%20b", "%24%28%C3%A4%29")
    assert files == {f"kept-{name}.yaml" for name in expected}


@pytest.mark.parametrize(("case", "why"), FOR_PEOPLE.values(), ids=map(str, FOR_PEOPLE))
def test_steps_for_people_change_nothing(case: PreparationCase, why: str, tmp_path: Path) -> None:
    """A comment about a setting, and a question about the brokers, do not change the log."""
    cluster = PlanTarget(case.log.entries, tmp_path / "lab.log.jsonl")
    plan = assess(case.log.entries, case.roll).plan
    instructions = cluster.carry_out(plan, case.roll)
    assert cluster.log == case.log.entries, why
    assert bool(instructions) == ("setting" in why)


@pytest.mark.parametrize("value", [V2_PAUSED, STOPPED])
def test_quiet_connectors_are_left_alone(value: dict[str, Any]) -> None:
    """Situation 9 needs no step for a quiet connector; situation 14 only copies its offsets."""
    log = quiet(value).put(CONFIG, "tasks-fencing-a", {"task-count": 1})
    fencing = assess(log.entries, PreparationCase(9, log).roll)
    assert (fencing.verdict, fencing.plan) == (ReleaseVerdict.COMPATIBLE, [])
    log = own_topic("own").tasks("a", 0).target("a", value)
    (copy,) = assess(log.entries, PreparationCase(14, log).roll).plan
    assert copy.command.startswith("kcat -C ")


def test_offsets_in_another_topic_are_not_copied(tmp_path: Path) -> None:
    """The plan copies no outdated offset of a connector that now uses the workers' topic.

    The topic `own` has the offsets of `a`, and an old offset of `b`.
    """
    log = own_topic("own").config("b").tasks("b", 1).offset("b", 1, "own").offset("b", 2)
    change = PreparationCase(14, log).roll
    cluster = PlanTarget(log.entries, tmp_path / "lab.log.jsonl")
    cluster.carry_out(assess(log.entries, change).plan, change)
    values = {entry.key: entry.value for entry in cluster.log if entry.topic == OFFSETS}
    assert values == dict.fromkeys(
        (b'["a", {"file": "f"}]', b'["b", {"file": "f"}]'), b'{"position":2}'
    )


@pytest.mark.parametrize("name", ["a.b*", "[^$", 'q"', "\\", "größe 😀", "'"])
def test_offset_filters_match_names_literally(name: str) -> None:
    """Connector names are untrusted; no character in them is special to grep."""
    names = name, f"{name}x", "axb", "a"
    keys = [encode_partition(connector, {"f": "1"}).decode() for connector in names]
    text = "".join(f"{key}\t{{}}\n" for key in keys)
    done = subprocess.run(
        shlex.split(offsets_of(name)), input=text, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{keys[0]}\t{{}}\n"


def test_quiet_connectors_stay_quiet_afterwards(tmp_path: Path) -> None:
    """The steps of situation 14 keep the target states that another situation restores."""
    for log, target in (
        (with_own_topic(quiet()).target("a", None), Target.PAUSED),
        (with_own_topic(stopped()).target("a", None), Target.STOPPED),
        (with_own_topic(running()).target("a", {"state": "STOPPED"}), Target.STOPPED),
    ):
        change = roll(Profile.of("3.2"), Profile.of("3.9"), RolloutMode.ROLLING)
        cluster = PlanTarget(log.entries, tmp_path / "lab.log.jsonl")
        cluster.carry_out(assess(log.entries, change).plan, change)
        assert targets(cluster.state(change.goal)) == {"a": target}


# --- situation 16: envelopes --------------------------------------------------------------------


def wrapped(log: Planted) -> Planted:
    """Return the log as written by a worker whose converters add schema envelopes."""
    copy = Planted()
    for entry in log.entries:
        key, value = (entry.key or b"").decode(), entry.value
        key = envelope(key) if entry.topic == OFFSETS else key
        text = None if value is None else envelope(value.decode())
        copy.put(entry.topic, key, text, raw=True)
    return copy


def envelope(text: str) -> str:
    """JSON value within Connect's schema envelope."""
    return f'{{"schema":{{"type":"struct","field":"payload"}},"payload":{text}}}'


def test_records_lose_their_envelopes(tmp_path: Path) -> None:
    """The plan removes envelopes. States, tasks, long numbers and envelope-like values stay."""
    plain = running(tasks=2).target("a", V2_PAUSED).config("b").gone("b").status("task-a-0", None)
    plain.put(
        OFFSETS, '["a",{"f":1}]', '{"at":1700000000000000001,"payload":{"schema":"}"}}', raw=True
    )
    log, change = wrapped(plain), PreparationCase(16, plain).roll
    assessment = assess(log.entries, change)
    assert assessment.verdict is ReleaseVerdict.UNSAFE
    cluster = PlanTarget(log.entries, tmp_path / "lab.log.jsonl")
    stop, settings = cluster.carry_out(assessment.plan, change)
    assert "stop all workers" in stop
    renamed = {f"{topic}-plain" for topic in (Topics().config, Topics().offsets, Topics().status)}
    assert {*cluster.created} == renamed
    assert all(topic in settings for topic in renamed)
    ours = [
        (entry.topic, entry.key, entry.value) for entry in cluster.log if entry.topic in renamed
    ]
    expected = [(f"{entry.topic}-plain", entry.key, entry.value) for entry in plain.entries]
    assert sorted(ours, key=str) == sorted(expected, key=str)


def test_connector_steps_precede_the_stop_of_all_workers() -> None:
    """The plan of a connector comes before that of the cluster."""
    log = running().active("b", "t").put(CONFIG, "connector-b", ENVELOPE)
    log.config("a", **{"offsets.storage.topic": "own"}).offset("a", 1)
    change = roll(Profile.of("2.8"), Profile.of("3.9"))
    commands = [step.command for step in assess(log.entries, change).plan]
    quiet = commands.index("controlplane pause --wait a")
    assert quiet < next(
        i for i, command in enumerate(commands) if command.startswith("# stop all workers")
    )


def test_values_without_envelope_are_kept(tmp_path: Path) -> None:
    """Some records have no envelope, because the converters were changed once; they stay."""
    log = created("PAUSED").put(CONFIG, "connector-b", ENVELOPE)
    change = PreparationCase(16, log).roll
    cluster = PlanTarget(log.entries, tmp_path / "lab.log.jsonl")
    cluster.carry_out(assess(log.entries, change).plan, change)
    state = fold(cluster.log, change.goal, topics=Topics(config=f"{CONFIG}-plain"))
    assert targets(state) == {"a": Target.PAUSED, "b": Target.STARTED}
    assert len(state.config.task_ids("a")) == 1


# --- the text of commands -----------------------------------------------------------------------


@pytest.mark.parametrize("number", PAIRS)
def test_a_shell_can_read_every_line(number: int) -> None:
    """A shell parses each plan with its comments."""
    log = PAIRS[number].planted
    text = "\n".join(
        step.command for step in assess(log.entries, PreparationCase(number, log).roll).plan
    )
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)


def test_commands_are_safe_for_any_connector_name() -> None:
    """Connector names are untrusted, and people paste plans into shells."""
    name = "a'; rm -rf $HOME #"
    assert shlex.split(verb("stop", name)) == ["controlplane", "stop", name]
    assert shlex.split(verb("stop", "--all")) == ["controlplane", "stop", "--", "--all"]
    line = append_command(CONFIG, 0, f"commit-{name}", '{"tasks":0}')
    assert shlex.split(line)[2] == f"commit-{name}"


@pytest.mark.parametrize("name", ["a\tb", "a\nrm -rf $HOME", "a\0"])
def test_a_key_with_a_line_break_becomes_a_comment(name: str) -> None:
    """A key with a tab, a line break or a zero byte gives a comment, not a command."""
    for value, words in (('{"tasks":0}', '{"tasks":0}'), ("", "a tombstone")):
        line = append_command(CONFIG, 0, f"commit-{name}", value)
        assert line.startswith(f"# write {words} to {CONFIG}-0 under commit-a\\")
        assert line.isprintable()


def test_a_copy_shows_no_secret() -> None:
    """The plan shows positions instead of task configs, which may hold passwords."""
    log = Planted().config("a").put(CONFIG, "task-a-0", {"properties": {"password": "s3cret"}})
    log.put(CONFIG, "commit-a", {"tasks": 1}).target("a", V2_PAUSED).config("a", rows="2")
    assessment = assess(log.entries, roll(Profile.of("3.4"), Profile.of("3.9")))
    (step,) = assessment.plan
    places = (log.entries[1].position, log.entries[2].position)
    assert step.command == copied(places)
    assert "s3cret" not in step.command
    assert Topics().config in step.command
