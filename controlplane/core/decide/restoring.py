"""Undo: a connector is put back as it was, by the commands that would do it one by one.

Their order has one reason: at no point does a connector run with something that is only half-way
back. So what makes it do less comes first and what makes it do more comes last; between them the
config, and then the offsets, because the config says where they lie. The gaps are the crash points,
named after the command and its own step:

    stop-tasks, stop-state | pause-state   it does less, nothing at all where offsets come back
    put-config | create-config             its config is back; it does no more than it did
    offsets-write, …                       its offsets are back; it still does not run
    pause-state | resume-state             it is as it was

One that was not there then is deleted, once its offsets are back: only a connector has any.

Offsets are written only while the connector is STOPPED and has no tasks, as everywhere; where it
runs, the undo stops it first. That is as much as a log can tell: tasks hear of it later than we do,
and commit their offsets once more when they wind down. With exactly-once support they are fenced;
else whoever must be sure stops the connector himself and sees its tasks gone before the undo.
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
    """What is asked for, and by whom it is written."""

    command: RestoreConnector
    context: Context

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
    undo = _Undo(command, context)
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
    return Plan(
        tuple(steps), Outcome(created=created), _commit_point(steps), tuple(_assumed(steps, undo))
    )


def _order(command: RestoreConnector) -> tuple[Wanted, ...]:
    if command.config is None:
        return _less, _offsets, _config
    return _less, _config, _offsets, _target


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
    """It is to do less than it does now, if only while its offsets are put back."""
    if undo.connector not in state.config.connectors:
        return None
    if _must_rest(state, undo.command):
        return StopConnector(undo.connector)
    now, wanted = state.config.targets.get(undo.connector), undo.command.target
    if now is None or wanted is None:
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
    # Foreign hands write configs without a name; adding it alone is no reason to write.
    is_back = dict(present) in (dict(undo.command.config), config)
    return None if is_back else PutConfig(name, config)


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
    return AlterOffsets(name, changes) if changes else None


def _assumed(steps: list[Step], undo: _Undo) -> Iterator[str]:
    """Of tasks that wind down nobody knows when they have committed for the last time."""
    names = [step.name.partition("-")[0] for step in steps]
    stops_for_them = {"stop", "offsets"} <= {*names}
    if stops_for_them and not undo.context.worker.exactly_once_source:
        yield _WOUND_DOWN.format(undo.connector)
    behind_creation = names[names.index("create") :] if "create" in names else []
    for word in ("pause", "stop"):
        if word in behind_creation:
            yield _RUNS_FIRST.format(undo.connector, word, undo.context.profile.release)


def _must_rest(state: ClusterState, command: RestoreConnector) -> bool:
    """Whether it is to be stopped for its offsets, and it is told what it does afterwards."""
    name, config = command.connector, command.config
    stopped = state.config.targets.get(name) is Target.STOPPED
    if stopped and state.config.task_counts.get(name, 0) == 0:
        return False
    if config is None:
        return any(_changes(state, command))
    # The config that is put back says where the offsets lie.
    connectors = {**state.config.connectors, name: _named(name, config)}
    put = msgspec.structs.replace(state.config, connectors=connectors)
    back = msgspec.structs.replace(state, config=put)
    return command.target is not None and any(_changes(back, command))


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
_RUNS_FIRST = (
    "it does no harm that {0} may run before it is told to {1}: {2} cannot create a connector in "
    "another state than RUNNING (initial_state, KIP-980)"
)
_WOUND_DOWN = (
    "no task of {0} commits offsets once it is stopped; to be sure, stop it and see them gone first"
)
