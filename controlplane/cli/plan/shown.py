"""A plan as people and machines are shown it."""

import base64
from collections.abc import Iterator
from typing import Any

import msgspec

from controlplane.cli.plan.foreseen import Foreseen
from controlplane.cli.printing import print_json, say
from controlplane.cli.tables import table
from controlplane.core import shown as fact
from controlplane.core.decide.ahead import place_of
from controlplane.core.diff import Aspect, Change
from controlplane.core.plan import Draft, Plan, Step
from controlplane.core.plan_text import amount, lines
from controlplane.core.redact import redacted_value
from controlplane.core.safe_text import safe
from controlplane.core.shown import json_line
from controlplane.core.state import ClusterState
from controlplane.rest.errors import Answer

EFFECTS_SHOWN = 20
"""How many effects people are shown; JSON has them all."""


def print_plan(who: str, found: Foreseen, plan: Plan, answer: Answer | None) -> None:
    """Print who would write what, what comes of it, and what is assumed of the world."""
    say(f"{who}: {amount(plan)}", style="bold")
    if plan.steps:
        table(
            ("STEP", "TOPIC", "PARTITION", "KEY", "VALUE", "THEN"),
            lines(plan, found.before),
            spare=("PARTITION",),
        )
    if plan.steps and plan.commit_point is not None:
        say(f"commit point: {plan.commit_point}")
    if answer is not None:
        say(f"answer: {_text(answer)}")
    for line in _effects(found):
        say(line)
    for sentence in found.assumed:
        say(f"assumed: {sentence}")


def _effects(found: Foreseen) -> Iterator[str]:
    # Configs of tasks are long, and stand in the table if they are written.
    changes = [one for one in found.effects() if one.aspect is not Aspect.TASK_CONFIG]
    for one in changes[:EFFECTS_SHOWN]:
        what = " ".join(filter(None, (one.aspect.value, fact.item(one.aspect, one.item))))
        became = fact.change(one.aspect, one.item, one.before, one.after)
        yield f"{one.connector}: {what}: {became}"
    more = len(changes) - EFFECTS_SHOWN
    if more > 0:
        yield f"… and {more} more changes; -o json has them all"


def _text(answer: Answer) -> str:
    body = "" if answer.body == "" else f" {json_line(redacted_value('', answer.body))}"
    return safe(f"{answer.status}{body}")


# --- for machines -------------------------------------------------------------------------------


def print_document(
    about: dict[str, Any], found: Foreseen, plan: Plan, answer: Answer | None
) -> None:
    """Print all there is, to the byte: here nothing is hidden."""
    state = found.before
    print_json(
        about
        | {
            "profile": state.profile.release,
            "exactly_once": state.exactly_once,
            "command": msgspec.to_builtins(found.command),
            "assumed": list(found.assumed),
            "steps": [_step(step, state) for step in plan.steps],
            "commit_point": plan.commit_point,
            "effects": [_change(one) for one in found.effects()],
            "answer": None if answer is None else _answer(answer),
        }
    )


def _step(step: Step, state: ClusterState) -> dict[str, Any]:
    return {
        "name": step.name,
        "records": [_document(draft, state) for draft in step.records],
        "action": None if step.action is None else msgspec.to_builtins(step.action),
        "read_back": list(step.read_back),
        "best_effort": step.best_effort,
        "undo": None if step.undo is None else _step(step.undo, state),
    }


def _document(draft: Draft, state: ClusterState) -> dict[str, Any]:
    placed = {"topic": draft.topic, "partition": place_of(draft, state)}
    return placed | _bytes("key", draft.key) | _bytes("value", draft.value)


def _bytes(name: str, raw: bytes | None) -> dict[str, str | None]:
    """Bytes as text, or as base64 where they are none: as the histories have them."""
    if raw is None:
        return {name: None}
    try:
        return {name: raw.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(raw).decode()}


def _change(one: Change) -> dict[str, Any]:
    return {
        "connector": one.connector,
        "aspect": one.aspect.value,
        "item": one.item,
        "before": one.before,
        "after": one.after,
    }


def _answer(answer: Answer) -> dict[str, Any]:
    body = None if answer.body == "" else answer.body
    return {"status": answer.status, "headers": dict(answer.headers), "body": body}
