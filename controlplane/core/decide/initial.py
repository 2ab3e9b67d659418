"""Creating a connector with its first offsets (KIP-995).

An earlier connector of that name may have left offsets, and deleting it does not take them away. So
they are wiped first, then those asked for are written, and the connector config comes last: until
it is there no task starts, whatever the offsets are. A crash in between may lose what was left of
the earlier connector; it never starts the new one from a half-made position, nor leaves such a one
to the next connector of that name: what is taken back ends with the old offsets, or with none.
"""

import msgspec

from controlplane.core.commands import CreateConnector
from controlplane.core.context import Context
from controlplane.core.decide import connectors
from controlplane.core.decide.offsets import NOTHING_GIVEN, hooked, kept_of, wanted_of
from controlplane.core.plan import (
    AskGroup,
    AskHook,
    Done,
    Offsets,
    Outcome,
    Plan,
    Question,
    Reason,
    Rejected,
    Step,
)
from controlplane.core.records import Properties
from controlplane.core.state import ClusterState

COMMIT_POINT = "create"


def create(
    state: ClusterState, command: CreateConnector, context: Context
) -> Plan | Question | Rejected:
    """A connector that was not there before; the same as ever where no offsets are given."""
    if command.initial_offsets is None:
        return connectors.create(state, command, context)
    config = connectors.config_to_create(state, command, context)
    if isinstance(config, Rejected):
        return config
    if not command.initial_offsets:
        return Rejected(Reason.INVALID, NOTHING_GIVEN)
    kept = kept_of(state, command.connector, config, context)
    if isinstance(kept, Rejected):
        return kept
    wanted = wanted_of(kept, command.connector, command.initial_offsets)
    if isinstance(wanted, Rejected):
        return _failed(_VALIDATE, command, wanted)
    known = kept.known()
    if isinstance(known, Rejected | AskGroup):
        return known
    done = _hooked_twice(command, config, (known, wanted), context)
    if not isinstance(done, Done):
        return done
    steps = (
        *kept.fence(),
        *_told_as(_WIPE, command, kept.start_over(known)),
        *_told_as(_SET, command, kept.start_at(wanted)),
        *_creation(state, command, config, context),
    )
    return Plan(steps, _outcome(done), COMMIT_POINT)


def _hooked_twice(
    command: CreateConnector, config: Properties, offsets: tuple[Offsets, Offsets], context: Context
) -> Done | AskHook | Rejected:
    """The connector is told of both: of what is wiped, and of what is set then."""
    name, (known, wanted) = command.connector, offsets
    wiped = hooked(context, 0, AskHook(name, config, known))
    if isinstance(wiped, Rejected):
        return _failed(_WIPE, command, wiped)
    if isinstance(wiped, AskHook):
        return wiped
    written = hooked(context, 1, AskHook(name, config, wanted))
    if isinstance(written, Rejected):
        return _failed(_SET, command, written)
    return written


_VALIDATE = "validate the initial offsets of connector {}"
_WIPE = "wipe the existing offsets of connector {}"
_SET = "set the initial offsets of connector {}"
"""Who asked is to be told at which step a creation failed."""


def _failed(doing: str, command: CreateConnector, rejected: Rejected) -> Rejected:
    text = f"Failed to {doing.format(command.connector)}: {rejected.text}"
    return Rejected(rejected.reason, text)


def _told_as(doing: str, command: CreateConnector, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    told = doing.format(command.connector)
    return tuple(msgspec.structs.replace(step, doing=told) for step in steps)


def _creation(
    state: ClusterState, command: CreateConnector, config: Properties, context: Context
) -> tuple[Step, ...]:
    name, wanted = command.connector, command.initial_state
    *others, last = connectors.creation(state, name, config, wanted, context)
    first, *rest = (*others, msgspec.structs.replace(last, name=COMMIT_POINT))
    return (msgspec.structs.replace(first, absent=name), *rest)


def _outcome(done: Done) -> Outcome:
    text = "The offsets for this connector have been set successfully"
    if not done.definite:
        text = (
            "The framework-managed offsets for this connector have been set successfully. However, "
            "if this connector manages offsets externally, they will need to be manually set in "
            "the system that the connector uses."
        )
    return Outcome(created=True, facts={"initial_offsets_response": text})
