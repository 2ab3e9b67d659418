"""Decides the creation of a connector with initial offsets (KIP-995).

An earlier connector of the same name may have left offsets: deleting a connector keeps them. So
the plan removes those first, then writes the requested ones, and writes the connector config last.
No task starts before the config is there.

A crash in between may lose the earlier connector's offsets. But no connector of this name, now or
later, starts from a mixture of old and requested offsets. A creation whose steps are undone
(`Step.undo`) leaves the old offsets or none.
"""

import msgspec

from controlplane.core.commands import CreateConnector
from controlplane.core.context import Context
from controlplane.core.decide import connectors
from controlplane.core.decide.offsets import NOTHING_GIVEN, hook_answer, requested_of, store_of
from controlplane.core.plan import (
    AskGroup,
    AskHook,
    AskRemoteOffsets,
    Decision,
    HookSuccess,
    Offsets,
    Outcome,
    Plan,
    Reason,
    Rejected,
    Step,
)
from controlplane.core.records import Properties
from controlplane.core.state import ClusterState

COMMIT_POINT = "create"
"""Step that writes the connector config, and with it the connector."""


def create(state: ClusterState, command: CreateConnector, context: Context) -> Decision:
    """Create a connector and its initial offsets; without these, `connectors.create` decides."""
    if command.initial_offsets is None:
        return connectors.create(state, command, context)
    config = connectors.config_to_create(state, command, context)
    if isinstance(config, Rejected):
        return config
    if not command.initial_offsets:
        return Rejected(Reason.INVALID, NOTHING_GIVEN)
    store = store_of(state, command.connector, config, context)
    if isinstance(store, Rejected | AskRemoteOffsets):
        return store
    requested = requested_of(store, command.connector, command.initial_offsets)
    if isinstance(requested, Rejected):
        return failed(VALIDATE, command, requested)
    stored = store.removals()
    if isinstance(stored, Rejected | AskGroup):
        return stored
    hook_result = _ask_hook_twice(command, config, (stored, requested), context)
    if not isinstance(hook_result, HookSuccess):
        return hook_result
    steps = (
        *store.fence(),
        *_described(WIPE, command, store.wipe_before_creation(stored)),
        *_described(SET, command, store.write_after_wipe(requested)),
        *_creation(state, command, config, context),
    )
    return Plan(steps, outcome_of(hook_result), COMMIT_POINT)


def _ask_hook_twice(
    command: CreateConnector,
    config: Properties,
    offsets: tuple[Offsets, Offsets],
    context: Context,
) -> HookSuccess | AskHook | Rejected:
    """Call the hook twice: for the offsets to remove, then for those to set.

    `offsets` has the two in that order. Returns the second answer, a question or a refusal.
    """
    name, (stored, requested) = command.connector, offsets
    wipe_answer = hook_answer(context, 0, AskHook(name, config, stored))
    if isinstance(wipe_answer, Rejected):
        return failed(WIPE, command, wipe_answer)
    if isinstance(wipe_answer, AskHook):
        return wipe_answer
    set_answer = hook_answer(context, 1, AskHook(name, config, requested))
    if isinstance(set_answer, Rejected):
        return failed(SET, command, set_answer)
    return set_answer


VALIDATE = "validate the initial offsets of connector {}"
WIPE = "wipe the existing offsets of connector {}"
SET = "set the initial offsets of connector {}"
"""Descriptions of three steps, for the error that names the failed step."""


def failed(doing: str, command: CreateConnector, rejected: Rejected) -> Rejected:
    """Refusal that names the failed step, and keeps the cause.

    `doing` is `VALIDATE`, `WIPE` or `SET`.
    """
    step = f"Failed to {doing.format(command.connector)}"
    text = step if rejected.text is None else f"{step}: {rejected.text}"
    return Rejected(rejected.reason, text, rejected.detail)


def _described(doing: str, command: CreateConnector, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    description = doing.format(command.connector)
    return tuple(msgspec.structs.replace(step, doing=description) for step in steps)


def _creation(
    state: ClusterState, command: CreateConnector, config: Properties, context: Context
) -> tuple[Step, ...]:
    """Steps that write the connector config last.

    The first of them fails if another connector of that name has appeared since the decision.
    """
    name, requested = command.connector, command.initial_state
    *others, last = connectors.creation(state, name, config, requested, context)
    first, *rest = (*others, msgspec.structs.replace(last, name=COMMIT_POINT))
    return (msgspec.structs.replace(first, absent=name), *rest)


def outcome_of(hook_result: HookSuccess) -> Outcome:
    """Outcome of a creation with offsets; its message depends on the hook (KIP-995)."""
    text = "The offsets for this connector have been set successfully"
    if not hook_result.definite:
        text = (
            "The framework-managed offsets for this connector have been set successfully. However, "
            "if this connector manages offsets externally, they will need to be manually set in "
            "the system that the connector uses."
        )
    return Outcome(created=True, facts={"initial_offsets_response": text})
