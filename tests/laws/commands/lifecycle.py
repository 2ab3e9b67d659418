"""S1 to S5, pausing and resuming; T1 to T5, stopping; D1 to D6, deleting; R1 to R6, restarting."""

import json
from collections.abc import Iterator

import msgspec

from controlplane.core.commands import (
    CreateConnector,
    DeleteConnector,
    PauseConnector,
    RestartConnector,
    RestartTask,
    RestoreConnector,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.fold import Fold
from controlplane.core.plan import Outcome, Reason, Rejected, RestartInstances
from controlplane.core.records import State, Target
from controlplane.core.releases.profiles import Profile
from tests.laws.commands.execution import Died
from tests.laws.commands.life import CommandRun, Life, Observation, ObservedRecord

TARGETS = (PauseConnector, ResumeConnector)
RESTARTS = (RestartConnector, RestartTask)


# --- pause and resume ---------------------------------------------------------------------------


def s1(life: Life) -> Iterator[None]:
    """The last target state wins; without one, or after a tombstone, it is STARTED."""
    targets: dict[str, Target | None] = {}
    for moment in life.moments:
        if moment.key.startswith("target-state-"):
            name = moment.key.removeprefix("target-state-")
            targets[name] = _read(moment, life.profile, targets.get(name))
        for name in moment.after.state.config.connectors:
            assert moment.after.state.config.targets[name] is (targets.get(name) or Target.STARTED)
            yield


def s2(life: Life) -> Iterator[None]:
    """`state` is never STOPPED: releases before 3.5 cannot read it."""
    for moment in life.moments:
        if moment.command_id and moment.key.startswith("target-state-") and moment.entry.value:
            assert json.loads(moment.entry.value)["state"] in {"STARTED", "PAUSED"}
            yield


def s3(life: Life) -> Iterator[None]:
    """Repeating a pause or a resume changes nothing."""
    for kind in TARGETS:
        for _, again in life.repeated(kind):
            assert again.succeeded()
            assert again.after.visible_facts(again.name) == again.before.visible_facts(again.name)
            yield


def s4(life: Life) -> Iterator[None]:
    """Pausing and resuming write no task, no commit, no offset."""
    for kind in TARGETS:
        for act, _ in life.acts_of(kind):
            assert set(act.keys()) <= {f"target-state-{act.name}"}
            assert not act.changes_offsets()
            yield


def s5(life: Life) -> Iterator[None]:
    """A crash leaves the old state if no record was written, else the new one for good."""
    for kind in TARGETS:
        for act, _ in life.acts_of(kind):
            for died in life.deaths_of(act):
                is_written = any(moment.entry.timestamp < died.at_ms for moment in act.moments)
                if not is_written and _changed_by_others(life, act, died):
                    continue  # the repeated request followed the other command
                expected = act.after if is_written else act.before
                assert died.back.config.targets.get(act.name) is _target(expected, act.name)
                yield


def _changed_by_others(life: Life, act: CommandRun, died: Died) -> bool:
    """True if another command for the connector wrote between a death and this command.

    The other command is a later one, or an unfinished one that the next process completed.
    """
    return any(
        died.at_ms <= other.began_ms < act.began_ms
        or (other.began_ms < died.at_ms <= other.moments[-1].entry.timestamp)
        for other in life.acts
        if other.name == act.name and other is not act and other.moments
    )


# --- stop ---------------------------------------------------------------------------------------


def t1(life: Life) -> Iterator[None]:
    """A stop never makes a prefix of the log STOPPED with tasks."""
    for act in life.acts:
        if isinstance(act.command, StopConnector | RestoreConnector):
            for moment in act.moments:
                if not _stopped_with_tasks(act.before, act.name):
                    assert not _stopped_with_tasks(moment.after, act.name)
                    yield


def t2(life: Life) -> Iterator[None]:
    """Stopping a stopped connector changes nothing."""
    for _, again in life.repeated(StopConnector):
        assert again.succeeded()
        assert again.after.visible_facts(again.name) == again.before.visible_facts(again.name)
        yield


def t3(life: Life) -> Iterator[None]:
    """A stop changes neither config nor offsets."""
    for act, _ in life.acts_of(StopConnector):
        for moment in act.moments:
            assert moment.before.config(act.name) == moment.after.config(act.name)
            yield
        assert not act.changes_offsets()


def t4(life: Life) -> Iterator[None]:
    """After a crash at any point, another stop leads to STOPPED without tasks."""
    for crash, command in life.crashes_of(StopConnector):
        for observation in (crash.settled, crash.reissued):
            assert _target(observation, command.connector) is Target.STOPPED
            assert _count(observation, command.connector) == 0
        yield


def t5(life: Life) -> Iterator[None]:
    """A stop is answered once the log has its commit and its target state, in this order."""
    for act, _ in life.acts_of(StopConnector):
        if act.succeeded():
            commit, state = act.of("commit-")[-1], act.of("target-state-")[-1]
            assert commit.entry.timestamp <= state.entry.timestamp < act.answered[-1].ended_ms
            yield


# --- delete -------------------------------------------------------------------------------------


def d1(life: Life) -> Iterator[None]:
    """After the first record of a deletion no worker starts the connector."""
    for act, _ in life.acts_of(DeleteConnector):
        for moment in act.moments:
            assert moment.after.config(act.name) is None
            yield


def d2(life: Life) -> Iterator[None]:
    """A recreated connector has the requested state, else STARTED, and no tasks at first."""
    if not life.profile.removal_drops_tasks:
        return
    deleted: set[str] = set()
    for act in life.acts:
        if isinstance(act.command, CreateConnector) and act.name in deleted and act.moments:
            if act.after.config(act.name) is None or _inherits(act, life.profile):
                continue
            assert _target(act.after, act.name) is (act.command.initial_state or Target.STARTED)
            assert act.after.tasks(act.name) == {}
            yield
        if isinstance(act.command, DeleteConnector) and act.moments:
            deleted.add(act.name)


def d3(life: Life) -> Iterator[None]:
    """The count of fenced producers survives the deletion."""
    for moment in life.moments:
        before, after = (observation.state.config for observation in (moment.before, moment.after))
        for name, count in before.fenced_counts.items():
            assert after.fenced_counts[name] == count or moment.is_record_of("tasks-fencing-", name)
            yield
        for name in before.pending_fencing:
            assert name in after.pending_fencing or moment.is_record_of("tasks-fencing-", name)
            yield


def d4(life: Life) -> Iterator[None]:
    """A second deletion is refused, because the connector is gone, and writes nothing."""
    for _, again in life.repeated(DeleteConnector):
        assert isinstance(again.answer, Rejected)
        assert again.answer.reason is Reason.NO_SUCH_CONNECTOR
        assert not again.moments
        yield


def d6(life: Life) -> Iterator[None]:
    """A deletion keeps the offsets of its connector."""
    for act, _ in life.acts_of(DeleteConnector):
        assert not act.changes_offsets()
        yield


# --- restart ------------------------------------------------------------------------------------


def r1(life: Life) -> Iterator[None]:
    """Restarting changes no config, no target state, no offset, no generation."""
    for kind in RESTARTS:
        for act, _ in life.acts_of(kind):
            for moment in act.moments:
                before, after = (_lasting(observation, act.name) for observation in moment.around)
                assert before == after
                yield
            assert not act.changes_offsets()


def r3(life: Life) -> Iterator[None]:
    """A restart older than a worker's start has no effect, and is not repeated."""
    fold = Fold(life.profile, exactly_once=life.cluster.exactly_once)
    for moment in life.moments:
        outcome = fold.apply(moment.entry)
        if moment.key.startswith("restart-connector-"):
            assert not outcome.calls
            assert _but_position(moment.before) == _but_position(moment.after)
            yield
    for kind in RESTARTS:
        for crash, _ in life.crashes_of(kind):
            assert not any(isinstance(action, RestartInstances) for action in crash.acted)
            yield


def r4(life: Life) -> Iterator[None]:
    """A restart limited to FAILED instances restarts no other instance."""
    for act, command in life.acts_of(RestartConnector):
        if command.only_failed and isinstance(act.answer, Outcome) and act.answer.facts:
            for instance in act.answer.facts["restarting"]:
                assert _reported(act.before, act.name, instance) is State.FAILED
            yield


def r6(life: Life) -> Iterator[None]:
    """A restart of a STOPPED connector creates no tasks."""
    for kind in RESTARTS:
        for act, _ in life.acts_of(kind):
            if _target(act.before, act.name) is Target.STOPPED:
                assert set(act.keys()) <= {f"restart-connector-{act.name}"}
                yield


# --- shared by the laws -------------------------------------------------------------------------


def _read(moment: ObservedRecord, profile: Profile, present: Target | None) -> Target | None:
    """Meaning of a target-state record; a record without meaning is skipped."""
    if moment.entry.value is None:
        return None
    document = json.loads(moment.entry.value)
    state_name = (
        document.get("state.v2", document["state"])
        if profile.target_state_v2
        else document["state"]
    )
    valid_names = (
        ("STARTED", "PAUSED", "STOPPED") if profile.target_state_v2 else ("STARTED", "PAUSED")
    )
    return Target(state_name) if state_name in valid_names else present


def _target(observation: Observation, name: str) -> Target | None:
    return observation.state.config.targets.get(name)


def _stopped_with_tasks(observation: Observation, name: str) -> bool:
    return _target(observation, name) is Target.STOPPED and _count(observation, name) > 0


def _count(observation: Observation, name: str) -> int:
    return observation.state.config.task_counts.get(name, 0)


def _inherits(act: CommandRun, profile: Profile) -> bool:
    """True if leftovers of an earlier connector take effect in this release."""
    config = act.before.state.config
    target = profile.inherits_target_state and act.name in config.targets
    return target or (not profile.commit_needs_config and act.name in config.task_counts)


def _reported(observation: Observation, name: str, instance: int | None) -> State | None:
    status = observation.state.status
    if instance is None:
        return status.connectors[name].state
    return status.tasks[name][instance].state


def _lasting(observation: Observation, name: str) -> object:
    config = observation.state.config
    generation = config.generations.get(name)
    tasks = observation.tasks(name)
    return observation.config(name), _target(observation, name), tasks, generation


def _but_position(observation: Observation) -> object:
    return msgspec.structs.replace(observation.state.config, offset=0)
