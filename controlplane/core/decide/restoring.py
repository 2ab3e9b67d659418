"""Undo: a connector is put back as it was, by the commands that would do it one by one.

Their order has one reason: at no point does a connector run with something that is only half-way
back. So what makes it do less comes first and what makes it do more comes last; between them the
config, and then the offsets, because the config says where they lie. The gaps are the crash points,
named after the command and its own step:

    stop-tasks, stop-state | pause-state   it does less; all else is as before
    put-config | create-config             its config is back; it does no more than it did
    offsets-write, …                       its offsets are back; it still does not run
    pause-state | resume-state             it is as it was

One that was not there then is deleted, once its offsets are back: only a connector has any.

Offsets are put back only where the connector was STOPPED *before* the undo. A plan could stop it
first, but its tasks would hear of that later, and commit the offsets of their own once more when
they wind down, after ours. Whoever asks must have seen that they are gone.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from controlplane.core import views
from controlplane.core.codec.offsets import frozen
from controlplane.core.commands import (
    AlterOffsets,
    ConnectorCommand,
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
from controlplane.core.decide import connectors, lifecycle, offsets
from controlplane.core.decide.ahead import ahead
from controlplane.core.plan import Outcome, Plan, Question, Reason, Rejected, Step
from controlplane.core.records import Properties, Target
from controlplane.core.state import ClusterState

Decide = Callable[[ClusterState, Any, Context], Plan | Question | Rejected]


class _Part(NamedTuple):
    """A command that is part of an undo: how it is decided, and what its steps are called."""

    word: str
    decide: Decide


_PARTS: Mapping[type, _Part] = {
    StopConnector: _Part("stop", lifecycle.stop),
    PauseConnector: _Part("pause", lifecycle.pause),
    ResumeConnector: _Part("resume", lifecycle.resume),
    CreateConnector: _Part("create", connectors.create),
    PutConfig: _Part("put", connectors.put),
    DeleteConnector: _Part("delete", connectors.delete),
    AlterOffsets: _Part("offsets", offsets.alter),
}

_TARGETING: Mapping[Target, type[StopConnector | PauseConnector | ResumeConnector]] = {
    Target.STOPPED: StopConnector,
    Target.PAUSED: PauseConnector,
    Target.STARTED: ResumeConnector,
}
"""What leads to each target state; the less a connector does in it, the earlier it stands."""


class _Undo(NamedTuple):
    """What is asked for, by whom it is written, and whether nothing ran when it was asked."""

    command: RestoreConnector
    context: Context
    at_rest: bool

    @property
    def connector(self) -> str:
        """Whose undo it is."""
        return self.command.connector


Wanted = Callable[[ClusterState, _Undo], ConnectorCommand | Rejected | None]
"""The next part of an undo, from what is there by then; None: nothing is to be done."""


def restore(
    state: ClusterState, command: RestoreConnector, context: Context
) -> Plan | Question | Rejected:
    """Whatever differs from what was. Where nothing does, nothing is written."""
    undo = _Undo(command, context, _is_at_rest(state, command.connector))
    steps: list[Step] = []
    now = state
    for part in _order(command):
        wanted = part(now, undo)
        if wanted is None:
            continue
        found = wanted if isinstance(wanted, Rejected) else _decided(now, wanted, context)
        if not isinstance(found, Plan):
            return found
        steps += found.steps
        now = ahead(now, found)
    present = command.connector in state.config.connectors
    created = command.config is not None and not present
    return Plan(tuple(steps), Outcome(created=created), _commit_point(steps))


def is_restored(state: ClusterState, command: RestoreConnector) -> bool:
    """Whether an undo has happened: then its last step has been done.

    Once a connector runs, its offsets go on, and say no more about it.
    """
    name = command.connector
    present = state.config.connectors.get(name)
    if command.config is None or present is None:
        return command.config is None and present is None
    if dict(present) != _named(name, command.config):
        return False
    if command.target not in {None, state.config.targets.get(name)}:
        return False
    return command.target is not Target.STOPPED or not any(_changes(state, command))


def _order(command: RestoreConnector) -> tuple[Wanted, ...]:
    return (_offsets, _config) if command.config is None else (_less, _config, _offsets, _target)


def _decided(
    state: ClusterState, command: ConnectorCommand, context: Context
) -> Plan | Question | Rejected:
    """The plan of one part, its steps called after it."""
    word, decide = _PARTS[type(command)]
    found = decide(state, command, context)
    if not isinstance(found, Plan):
        return found
    named = (msgspec.structs.replace(step, name=f"{word}-{step.name}") for step in found.steps)
    return msgspec.structs.replace(found, steps=tuple(named))


def _commit_point(steps: list[Step]) -> str | None:
    """The last step; of a deletion the one with which the connector is gone."""
    names = [step.name for step in steps]
    deletion = f"{_PARTS[DeleteConnector].word}-{connectors.COMMIT_POINT}"
    return deletion if deletion in names else next(reversed(names), None)


# --- the parts --------------------------------------------------------------------------------


def _less(state: ClusterState, undo: _Undo) -> ConnectorCommand | None:
    """It is to do less than it does now."""
    now, wanted = state.config.targets.get(undo.connector), undo.command.target
    if undo.connector not in state.config.connectors or now is None or wanted is None:
        return None
    activity = list(_TARGETING)
    less = activity.index(wanted) < activity.index(now)
    return _TARGETING[wanted](undo.connector) if less else None


def _config(state: ClusterState, undo: _Undo) -> ConnectorCommand | None:
    name = undo.connector
    present = state.config.connectors.get(name)
    if undo.command.config is None:
        return DeleteConnector(name) if present is not None else None
    config = _named(name, undo.command.config)
    if present is None:
        return CreateConnector(name, config, _initial_state(undo))
    return PutConfig(name, config) if dict(present) != config else None


def _initial_state(undo: _Undo) -> Target | None:
    """STOPPED while its offsets are not back; STARTED needs no word of its own."""
    if not undo.context.profile.creates_in_state:
        return None
    wanted = undo.command.target if undo.command.offsets is None else Target.STOPPED
    return None if wanted is Target.STARTED else wanted


def _target(state: ClusterState, undo: _Undo) -> ConnectorCommand | None:
    """It is to do what it did."""
    wanted = undo.command.target
    if wanted is None or wanted is state.config.targets.get(undo.connector):
        return None
    return _TARGETING[wanted](undo.connector)


def _named(name: str, config: Properties) -> dict[str, Any]:
    return {**config, "name": name} if config.get("name") is None else dict(config)


# --- offsets ----------------------------------------------------------------------------------


def _offsets(state: ClusterState, undo: _Undo) -> ConnectorCommand | Rejected | None:
    """Those that differ, and away with those that were not there."""
    name, config = undo.connector, state.config.connectors.get(undo.connector, {})
    if undo.command.offsets is None:
        return None
    if undo.context.plugins.type_of(config.get("connector.class")) == "sink":
        return Rejected(Reason.INVALID, _SINK.format(name))
    changes = tuple(_changes(state, undo.command))
    if changes and not undo.at_rest:
        return Rejected(Reason.NOT_STOPPED, _RUNNING.format(name))
    return AlterOffsets(name, changes) if changes else None


def _is_at_rest(state: ClusterState, name: str) -> bool:
    """Nothing runs that would commit offsets of its own."""
    stopped = state.config.targets.get(name) is Target.STOPPED
    idle = stopped and state.config.task_counts.get(name, 0) == 0
    return idle or name not in state.config.connectors


def _changes(state: ClusterState, command: RestoreConnector) -> Iterator[OffsetChange]:
    if command.offsets is None:
        return
    now = {
        frozen(found.partition): found
        for found in views.source_offsets(state, command.connector)
        if found.offset is not None
    }
    for wanted in command.offsets:
        found = now.pop(frozen(wanted.partition), None)
        if found is None or frozen(found.offset) != frozen(wanted.offset):
            yield wanted
    yield from (OffsetChange(found.partition) for found in now.values())


_SINK = (
    "The offsets of sink connector {0} lie in its consumer group, whose past is in no log of "
    "Connect: undo without them"
)
_RUNNING = (
    "The offsets of connector {0} can be put back only while it is STOPPED: stop it (a 'PUT' "
    "request to '/connectors/{0}/stop'), wait until its tasks are gone, and undo then"
)
