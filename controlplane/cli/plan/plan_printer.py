"""Output of a plan, as a table or as JSON."""

import base64
from collections.abc import Iterator
from typing import Any

import msgspec

from controlplane.core.plan import Draft, Plan, Step
from controlplane.core.state import ClusterState
from controlplane.core.text import value_text
from controlplane.core.text.plan_text import amount, lines
from controlplane.core.text.redaction import redacted_text, redacted_value
from controlplane.core.text.safe_text import safe
from controlplane.core.text.value_text import json_line
from controlplane.core.topics.partitioner import draft_partition
from controlplane.core.views.diff import Aspect, Change
from controlplane.read_only.forecast import Forecast
from controlplane.rest.errors import Answer
from controlplane.terminal.output import print_json, say
from controlplane.terminal.tables import table

EFFECTS_SHOWN = 20
"""Number of effects in a table; JSON has them all."""


def print_plan(title: str, forecast: Forecast, plan: Plan, answer: Answer | None) -> None:
    """Print the steps, the answer, the effects, and the assumptions behind the plan."""
    say(f"{title}: {amount(plan)}", style="bold")
    if plan.steps:
        table(
            ("STEP", "TOPIC", "PARTITION", "KEY", "VALUE", "THEN"),
            lines(plan, forecast.before),
            spare=("PARTITION",),
        )
    if plan.steps and plan.commit_point is not None:
        say(f"commit point: {plan.commit_point}")
    if answer is not None:
        say(f"answer: {_text(answer)}")
    for line in _effects(forecast):
        say(line)
    for sentence in forecast.assumed:
        say(f"assumed: {redacted_text(sentence)}")


def _effects(forecast: Forecast) -> Iterator[str]:
    # Task configs are long, and the table above has those that the plan writes.
    changes = [change for change in forecast.effects() if change.aspect is not Aspect.TASK_CONFIG]
    for change in changes[:EFFECTS_SHOWN]:
        item = value_text.item(change.aspect, change.item)
        subject = " ".join(filter(None, (change.aspect.value, item)))
        became = value_text.change(change.aspect, change.item, change.before, change.after)
        yield f"{change.connector}: {subject}: {became}"
    unlisted = len(changes) - EFFECTS_SHOWN
    if unlisted > 0:
        yield f"… and {unlisted} more changes; -o json has them all"


def _text(answer: Answer) -> str:
    body = "" if answer.body == "" else f" {json_line(redacted_value('', answer.body))}"
    return safe(f"{answer.status}{body}")


# --- for machines -------------------------------------------------------------------------------


def print_document(
    about: dict[str, Any], forecast: Forecast, plan: Plan, answer: Answer | None
) -> None:
    """Print the plan as JSON, with the exact bytes of its records; secrets are not hidden."""
    state = forecast.before
    print_json(
        about
        | {
            "profile": state.profile.release,
            "exactly_once": state.exactly_once,
            "command": msgspec.to_builtins(forecast.command),
            "assumed": list(forecast.assumed),
            "steps": [_step(step, state) for step in plan.steps],
            "commit_point": plan.commit_point,
            "effects": [_change(change) for change in forecast.effects()],
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
    placed = {"topic": draft.topic, "partition": draft_partition(draft, state)}
    return placed | _bytes("key", draft.key) | _bytes("value", draft.value)


def _bytes(name: str, raw: bytes | None) -> dict[str, str | None]:
    """Bytes as text, or as base64 if they are no UTF-8: the form of recorded histories."""
    if raw is None:
        return {name: None}
    try:
        return {name: raw.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(raw).decode()}


def _change(change: Change) -> dict[str, Any]:
    return {
        "connector": change.connector,
        "aspect": change.aspect.value,
        "item": change.item,
        "before": change.before,
        "after": change.after,
    }


def _answer(answer: Answer) -> dict[str, Any]:
    body = None if answer.body == "" else answer.body
    return {"status": answer.status, "headers": dict(answer.headers), "body": body}
