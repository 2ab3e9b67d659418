"""Decides an undo: a sequence of the commands that put a connector back as it was.

The order keeps one invariant: a connector never runs while it is only half restored. Commands that
make it do less (stop, pause) come first. Commands that make it do more (resume, or pause after a
stop) come last. Between them comes the config, and then the offsets, because the config determines
where they are stored. The gaps between the steps are crash points, named after command and step:

    stop-tasks, stop-state | pause-state   it is paused, or stopped (always before offsets)
    put-config | create-config             its config is restored; its target state is unchanged
    offsets-write, …                       its offsets are restored; it still does not run
    pause-state | resume-state             its target state is restored

A connector that did not exist is deleted last, because only an existing one can change offsets.

Offsets are written only while the connector is STOPPED and has no tasks. The undo stops a running
connector first. The log shows no more than that. Tasks learn of the stop later, and commit their
offsets once more when they shut down. Exactly-once support fences them. Without it, a client that
must be sure stops the connector and waits for its tasks to end before the undo.
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
from controlplane.core.plan import Decision, Outcome, Plan, Reason, Rejected, Step
from controlplane.core.records import Properties, Target
from controlplane.core.state import ClusterState

DecideCommand = Callable[[ClusterState, Any, Context], Decision]


class _UndoCommand(NamedTuple):
    """Command that an undo consists of: the prefix of its step names, and its decision."""

    word: str
    decide: DecideCommand


_PARTS: Mapping[type, _UndoCommand] = {
    StopConnector: _UndoCommand("stop", target_states.stop),
    PauseConnector: _UndoCommand("pause", target_states.pause),
    ResumeConnector: _UndoCommand("resume", target_states.resume),
    CreateConnector: _UndoCommand("create", connectors.create),
    PutConfig: _UndoCommand("put", connectors.put),
    DeleteConnector: _UndoCommand("delete", connectors.delete),
    AlterOffsets: _UndoCommand("offsets", offsets.alter),
}

_TARGETING: Mapping[Target, type[StopConnector | PauseConnector | ResumeConnector]] = {
    Target.STOPPED: StopConnector,
    Target.PAUSED: PauseConnector,
    Target.STARTED: ResumeConnector,
}
"""Command for each target state; states in which a connector does less come first."""


class _Undo(NamedTuple):
    """An undo and the context it is decided in."""

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
"""Command of which an undo consists."""

NextCommand = Callable[[ClusterState, _Undo], UndoPart | Rejected | None]
"""Next command of an undo, given the state after those before it; None: nothing to do."""


def restore(state: ClusterState, command: RestoreConnector, context: Context) -> Decision:
    """Plan to restore everything that differs; empty if nothing does."""
    undo = _Undo(command, context)
    steps: list[Step] = []
    now = state
    for part in _order(command):
        part_command = part(now, undo)
        if part_command is None:
            continue
        decision = (
            part_command
            if isinstance(part_command, Rejected)
            else _decided(now, part_command, context)
        )
        if not isinstance(decision, Plan):
            return decision
        steps += decision.steps
        now = predicted_state(now, decision)
    present = command.connector in state.config.connectors
    created = command.config is not None and not present
    return Plan(
        tuple(steps), Outcome(created=created), _commit_point(steps), tuple(_assumed(steps, undo))
    )


def commands_in_turn(
    command: RestoreConnector, context: Context
) -> Iterator[Callable[[ClusterState], UndoPart | Rejected | None]]:
    """Yield the commands of an undo as functions of the state after those before; None: no need.

    A program that cannot write the records itself sends them as requests.
    """
    undo = _Undo(command, context)
    for part in _order(command):
        yield partial(_next, part, undo)


def _next(part: NextCommand, undo: _Undo, state: ClusterState) -> UndoPart | Rejected | None:
    return part(state, undo)


def _order(command: RestoreConnector) -> tuple[NextCommand, ...]:
    if command.config is None:
        return _less, _offsets, _config
    return _less, _config, _offsets, _target


def _decided(state: ClusterState, command: UndoPart, context: Context) -> Decision:
    """Plan of one command, its steps prefixed with the command's word."""
    word, decide = _PARTS[type(command)]
    decision = decide(state, command, context)
    if not isinstance(decision, Plan):
        return decision
    named = (msgspec.structs.replace(step, name=f"{word}-{step.name}") for step in decision.steps)
    return msgspec.structs.replace(decision, steps=tuple(named))


def _commit_point(steps: list[Step]) -> str | None:
    """The last step; for a deletion the step that removes the config."""
    names = [step.name for step in steps]
    deletion = f"{_PARTS[DeleteConnector].word}-{connectors.COMMIT_POINT}"
    return deletion if deletion in names else next(reversed(names), None)


# --- the parts --------------------------------------------------------------------------------


def _less(state: ClusterState, undo: _Undo) -> UndoPart | None:
    """Command that makes the connector do less, if only while its offsets are restored."""
    if undo.connector not in state.config.connectors:
        return None
    if _must_rest(state, undo.command):
        return StopConnector(undo.connector)
    now, target = state.config.targets.get(undo.connector), undo.command.target
    if now is None or target is None:
        return None
    activity = list(_TARGETING)
    less = activity.index(target) < activity.index(now)
    return _TARGETING[target](undo.connector) if less else None


def _config(state: ClusterState, undo: _Undo) -> UndoPart | None:
    name = undo.connector
    present = state.config.connectors.get(name)
    if undo.command.config is None:
        return DeleteConnector(name) if present is not None else None
    config = _named(name, undo.command.config)
    if present is None:
        return CreateConnector(name, config, _initial_state(undo))
    # Foreign writers omit the name; a missing name alone is no reason to write the config.
    is_back = dict(present) in (dict(undo.command.config), config)
    return None if is_back else PutConfig(name, config)


def _initial_state(undo: _Undo) -> Target | None:
    """STOPPED until its offsets are restored; None for STARTED, the default."""
    if not undo.context.profile.creates_in_state:
        return None
    target = undo.command.target if undo.command.offsets is None else Target.STOPPED
    return None if target is Target.STARTED else target


def _target(state: ClusterState, undo: _Undo) -> UndoPart | None:
    """Command for the final target state."""
    target = undo.command.target
    if target is None or target is state.config.targets.get(undo.connector):
        return None
    return _TARGETING[target](undo.connector)


def _named(name: str, config: Properties) -> dict[str, Any]:
    return {**config, "name": name} if config.get("name") is None else dict(config)


# --- offsets ----------------------------------------------------------------------------------


def _offsets(state: ClusterState, undo: _Undo) -> UndoPart | Rejected | None:
    """Command that restores offsets: sets those that differ, removes those that were absent."""
    name, config = undo.connector, state.config.connectors.get(undo.connector, {})
    if undo.command.offsets is None:
        return None
    if undo.context.plugins.type_of(config.get("connector.class")) == "sink":
        return Rejected(Reason.INVALID, _SINK.format(name))
    changes = tuple(_changes(state, undo.command))
    return AlterOffsets(name, changes) if changes else None


def _assumed(steps: list[Step], undo: _Undo) -> Iterator[str]:
    """Assumptions: log records do not show when a stopping task commits for the last time."""
    names = [step.name.partition("-")[0] for step in steps]
    stops_for_them = {"stop", "offsets"} <= {*names}
    if stops_for_them and not undo.context.worker.exactly_once_source:
        yield _WOUND_DOWN.format(undo.connector)
    behind_creation = names[names.index("create") :] if "create" in names else []
    for word in ("pause", "stop"):
        if word in behind_creation:
            yield _RUNS_FIRST.format(undo.connector, word, undo.context.profile.release)


def _must_rest(state: ClusterState, command: RestoreConnector) -> bool:
    """True if it must be stopped to change its offsets, and its later state is known."""
    name, config = command.connector, command.config
    stopped = state.config.targets.get(name) is Target.STOPPED
    if stopped and state.config.task_counts.get(name, 0) == 0:
        return False
    if config is None:
        return any(_changes(state, command))
    # The restored config determines where the offsets are stored.
    connectors = {**state.config.connectors, name: _named(name, config)}
    put = msgspec.structs.replace(state.config, connectors=connectors)
    back = msgspec.structs.replace(state, config=put)
    return command.target is not None and any(_changes(back, command))


def _changes(state: ClusterState, command: RestoreConnector) -> Iterator[OffsetChange]:
    if command.offsets is None:
        return
    now = {
        frozen(offset.partition): offset
        for offset in views.source_offsets(state, command.connector)
        if offset.offset is not None
    }
    for requested in command.offsets:
        present = now.pop(frozen(requested.partition), None)
        if present is None or frozen(present.offset) != frozen(requested.offset):
            yield requested
    yield from (OffsetChange(surplus.partition) for surplus in now.values())


_SINK = (
    "The offsets of sink connector {0} lie in its consumer group, whose past is in no log of "
    "Connect: undo without them"
)
_RUNS_FIRST = (
    "it does no harm that {0} may run before it is told to {1}: {2} cannot create a connector in "
    "another state than RUNNING (initial_state, KIP-980)"
)
_WOUND_DOWN = (
    "no task of {0} commits offsets once it is stopped; to be sure, stop it and see them gone first"
)
