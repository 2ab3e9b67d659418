"""Decides an undo: a sequence of the commands that put a connector back as it was.

The order keeps one invariant: a connector never runs while it is only half restored. Exception: a
release without KIP-980 creates a connector only as STARTED (`_assumptions`). Commands that reduce
its activity (stop, pause) come first. Commands that increase it (resume, or pause after a stop)
come last. Between them comes the config, and then the offsets, because the config determines where
they are stored. A step's name begins with a word for its command: `stop-tasks` is the step `tasks`
of a stop. The gap after a step is a crash point with the step's name (`core.plan`):

    Step                                   Connector after the step
    stop-tasks, stop-state | pause-state   less activity; no activity if offsets are restored
    put-config | create-config             config restored; activity as before
    stop-tasks, stop-state | pause-state   as in the first row
    offsets-write, …                       offsets restored; still no activity
    pause-state | resume-state             target state restored

The second stop or pause is needed only if a release without KIP-980 has created the connector.

A connector that did not exist in the past is deleted last. Its offsets can be changed only
before its deletion.

Offsets are written only while the connector is STOPPED and has no tasks. The undo stops a running
connector first. The log does not show when its tasks end. They learn of the stop later, and commit
their offsets once more when they shut down. Exactly-once support fences them. Without it, the
client must prevent such a commit. Before the undo, the client stops the connector and waits until
its tasks have ended.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from controlplane.core import views
from controlplane.core.codec.offsets import frozen
from controlplane.core.commands import (
    AlterOffsets,
    CreateConnector,
    DeleteConnector,
    OffsetChange,
    PauseConnector,
    PutConfig,
    RestoreConnector,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.context import Context
from controlplane.core.decide import connectors, offsets, target_states
from controlplane.core.decide.prediction import predicted_state
from controlplane.core.plan import (
    AskRemoteOffsets,
    Decision,
    Outcome,
    Plan,
    Reason,
    Rejected,
    Step,
)
from controlplane.core.records import Properties, Target
from controlplane.core.state import ClusterState

DecideCommand = Callable[[ClusterState, Any, Context], Decision]


class _PartDecider(NamedTuple):
    """Prefix of the step names of one command in an undo, and the function that decides it."""

    word: str
    decide: DecideCommand


_PARTS: Mapping[type, _PartDecider] = {
    StopConnector: _PartDecider("stop", target_states.stop),
    PauseConnector: _PartDecider("pause", target_states.pause),
    ResumeConnector: _PartDecider("resume", target_states.resume),
    CreateConnector: _PartDecider("create", connectors.create),
    PutConfig: _PartDecider("put", connectors.put),
    DeleteConnector: _PartDecider("delete", connectors.delete),
    AlterOffsets: _PartDecider("offsets", offsets.alter),
}

_TARGET_COMMANDS: Mapping[Target, type[StopConnector | PauseConnector | ResumeConnector]] = {
    Target.STOPPED: StopConnector,
    Target.PAUSED: PauseConnector,
    Target.STARTED: ResumeConnector,
}
"""Command for each target state, ordered by activity: the least active state first."""


class _Undo(NamedTuple):
    """An undo and the context in which it is decided."""

    command: RestoreConnector
    context: Context

    @property
    def connector(self) -> str:
        """Name of the connector."""
        return self.command.connector


UndoPart = (
    CreateConnector
    | PutConfig
    | DeleteConnector
    | PauseConnector
    | ResumeConnector
    | StopConnector
    | AlterOffsets
)
"""Union of the commands that can be part of an undo."""

NextCommand = Callable[[ClusterState, _Undo], UndoPart | Rejected | None]
"""Returns an undo's next command from the state after the earlier ones; None: nothing to do."""


def restore(state: ClusterState, command: RestoreConnector, context: Context) -> Decision:
    """Plan the commands that restore what differs; without steps if nothing differs."""
    undo = _Undo(command, context)
    steps: list[Step] = []
    planned_state = state
    for part in _parts_in_order(command):
        part_command = part(planned_state, undo)
        if part_command is None:
            continue
        decision = (
            part_command
            if isinstance(part_command, Rejected)
            else _plan_of_part(planned_state, part_command, context)
        )
        if not isinstance(decision, Plan):
            return decision
        steps += decision.steps
        planned_state = predicted_state(planned_state, decision)
    present = command.connector in state.config.connectors
    created = command.config is not None and not present
    return Plan(
        tuple(steps),
        Outcome(created=created),
        _commit_point(steps),
        tuple(_assumptions(steps, undo)),
    )


def commands_in_turn(
    command: RestoreConnector, context: Context
) -> Iterator[Callable[[ClusterState], UndoPart | Rejected | None]]:
    """Yield the commands of an undo, each as a function of the state after the earlier commands.

    The function returns None if the command is not needed. A program that cannot write the records
    itself sends the commands as requests.
    """
    undo = _Undo(command, context)
    for part in _parts_in_order(command):
        yield partial(_next, part, undo)


def _next(part: NextCommand, undo: _Undo, state: ClusterState) -> UndoPart | Rejected | None:
    return part(state, undo)


def _parts_in_order(command: RestoreConnector) -> tuple[NextCommand, ...]:
    """Functions that build the commands of an undo, in the order of the module's docstring."""
    if command.config is None:
        return _less_activity, _offsets_part, _config_part
    # A release without KIP-980 creates the connector as STARTED: it stops before offsets change.
    return _less_activity, _config_part, _less_activity, _offsets_part, _target_part


def _plan_of_part(state: ClusterState, command: UndoPart, context: Context) -> Decision:
    """Decision on one command; a plan's step names get the command's word as prefix."""
    word, decide = _PARTS[type(command)]
    decision = decide(state, command, context)
    if isinstance(decision, AskRemoteOffsets):
        return Rejected(Reason.INVALID, _REMOTE_REFUSED.format(decision.connector))
    if not isinstance(decision, Plan):
        return decision
    named = (msgspec.structs.replace(step, name=f"{word}-{step.name}") for step in decision.steps)
    return msgspec.structs.replace(decision, steps=tuple(named))


def _commit_point(steps: list[Step]) -> str | None:
    """Name of the last step, or of the step that deletes the config; None: no steps."""
    names = [step.name for step in steps]
    deletion = f"{_PARTS[DeleteConnector].word}-{connectors.COMMIT_POINT}"
    return deletion if deletion in names else next(reversed(names), None)


# --- the parts --------------------------------------------------------------------------------


def _less_activity(state: ClusterState, undo: _Undo) -> UndoPart | None:
    """Command that makes the connector do less, perhaps only while its offsets are restored."""
    if undo.connector not in state.config.connectors:
        return None
    if _must_stop(state, undo.command):
        return StopConnector(undo.connector)
    present_target, target = state.config.targets.get(undo.connector), undo.command.target
    if present_target is None or target is None:
        return None
    activity = list(_TARGET_COMMANDS)
    less = activity.index(target) < activity.index(present_target)
    return _TARGET_COMMANDS[target](undo.connector) if less else None


def _config_part(state: ClusterState, undo: _Undo) -> UndoPart | None:
    """Command that restores the config: creates, changes or deletes the connector."""
    name = undo.connector
    present = state.config.connectors.get(name)
    if undo.command.config is None:
        return DeleteConnector(name) if present is not None else None
    config = _with_name(name, undo.command.config)
    if present is None:
        return CreateConnector(name, config, _initial_state(undo))
    # Foreign writers omit the name; a missing name alone is no reason to write the config.
    past_configs = (frozen(dict(past)) for past in (undo.command.config, config))
    is_back = frozen(dict(present)) in past_configs
    return None if is_back else PutConfig(name, config)


def _initial_state(undo: _Undo) -> Target | None:
    """State to create the connector in: STOPPED if offsets follow. None: STARTED, the default."""
    if not undo.context.profile.creates_in_state:
        return None
    target = undo.command.target if undo.command.offsets is None else Target.STOPPED
    return None if target is Target.STARTED else target


def _target_part(state: ClusterState, undo: _Undo) -> UndoPart | None:
    """Command for the final target state."""
    target = undo.command.target
    if target is None or target is state.config.targets.get(undo.connector):
        return None
    return _TARGET_COMMANDS[target](undo.connector)


def _with_name(name: str, config: Properties) -> dict[str, Any]:
    return {**config, "name": name} if config.get("name") is None else dict(config)


# --- offsets ----------------------------------------------------------------------------------


def _offsets_part(state: ClusterState, undo: _Undo) -> UndoPart | Rejected | None:
    """Command that restores offsets: sets those that differ, removes those that were absent."""
    name, config = undo.connector, state.config.connectors.get(undo.connector, {})
    if undo.command.offsets is None:
        return None
    context = undo.context
    if context.plugins.type_of(config.get("connector.class"), context.profile) == "sink":
        return Rejected(Reason.INVALID, _SINK_REFUSED.format(name))
    changes = tuple(_offset_changes(state, undo.command))
    return AlterOffsets(name, changes) if changes else None


def _assumptions(steps: list[Step], undo: _Undo) -> Iterator[str]:
    """Assumptions of an undo that the log cannot confirm.

    - The tasks of a stopped connector commit no more offsets.
    - A connector that is created STARTED, then paused or stopped, may run in between.
    """
    names = [step.name.partition("-")[0] for step in steps]
    stops_for_offsets = {"stop", "offsets"} <= {*names}
    if stops_for_offsets and not undo.context.worker.exactly_once_source:
        yield _TASKS_ENDED.format(undo.connector)
    profile = undo.context.profile
    after_creation = names[names.index("create") :] if "create" in names else []
    less = [word for word in after_creation if word in ("pause", "stop")]
    if less and not profile.creates_in_state:
        yield _RUNS_BRIEFLY.format(undo.connector, less[0], profile.release)


def _must_stop(state: ClusterState, command: RestoreConnector) -> bool:
    """True if the connector must stop before its offsets change.

    An undo may restore a config without a target state. Then the result is False: no later command
    of the undo would start the connector again.
    """
    name, config = command.connector, command.config
    stopped = state.config.targets.get(name) is Target.STOPPED
    if stopped and state.config.task_counts.get(name, 0) == 0:
        return False
    if config is None:
        return any(_offset_changes(state, command))
    # The restored config determines where the offsets are stored.
    connectors = {**state.config.connectors, name: _with_name(name, config)}
    config_state = msgspec.structs.replace(state.config, connectors=connectors)
    restored = msgspec.structs.replace(state, config=config_state)
    return command.target is not None and any(_offset_changes(restored, command))


def _offset_changes(state: ClusterState, command: RestoreConnector) -> Iterator[OffsetChange]:
    """Changes from the present offsets to those of the undo; a surplus partition is removed."""
    if command.offsets is None:
        return
    present_offsets = {
        frozen(offset.partition): offset
        for offset in views.source_offsets(state, command.connector)
        if offset.offset is not None
    }
    for requested in command.offsets:
        present = present_offsets.pop(frozen(requested.partition), None)
        if present is None or frozen(present.offset) != frozen(requested.offset):
            yield requested
    yield from (OffsetChange(surplus.partition) for surplus in present_offsets.values())


_SINK_REFUSED = (
    "The log has no past offsets of sink connector {0}, which commits to a consumer group: undo "
    "without offsets"
)
_REMOTE_REFUSED = (
    "The log has no past offsets of source connector {0}, which writes them to its producer's "
    "cluster: undo without offsets"
)
_RUNS_BRIEFLY = (
    "{0} may run briefly before the command {1} reaches it: {2} creates connectors only as RUNNING "
    "(initial_state needs KIP-980)"
)
_TASKS_ENDED = (
    "no task of {0} commits offsets after the stop; to be sure, stop {0} first and let its tasks "
    "end"
)
