"""JSON of a plan: the answer to a dry run. It shows the bytes that would be written."""

from base64 import b64encode
from typing import Any

import msgspec

from controlplane.core.plan import AnyAction, Draft, Plan, Step, WriteOffsets
from controlplane.core.text.value_text import plain


def document(plan: Plan, release: str) -> dict[str, Any]:
    """Return the steps in order, each with its records: topic, partition, key, value."""
    return {
        "profile": release,
        "steps": [_step(step) for step in plan.steps],
        "commit_point": plan.commit_point,
        "assumed": list(plan.assumed),
        "outcome": plain(msgspec.to_builtins(plan.outcome)),
    }


def _step(step: Step) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": step.name,
        "records": [_record(draft) for draft in step.records],
    }
    if step.action is not None:
        shown["action"] = _action(step.action)
    if step.undo is not None:
        shown["undo"] = _step(step.undo)
    return shown | {"read_back": list(step.read_back), "best_effort": step.best_effort}


def _action(action: AnyAction) -> dict[str, Any]:
    shown: dict[str, Any] = plain(msgspec.to_builtins(action))
    if isinstance(action, WriteOffsets):
        shown["records"] = [_record(draft) for draft in action.records]
    return shown


def _record(draft: Draft) -> dict[str, Any]:
    return {
        "topic": draft.topic,
        "partition": draft.partition,
        "key": _text(draft.key),
        "value": _text(draft.value),
    }


def _text(raw: bytes | None) -> Any:
    """Return text as such, other bytes in Base64, no value as null."""
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(raw).decode("ascii")}
