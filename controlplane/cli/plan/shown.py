"""A plan as people and machines are shown it."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from controlplane.cli.plan.foreseen import Foreseen
from controlplane.cli.printing import count, print_json, safe, say, short
from controlplane.cli.tables import table
from controlplane.core import shown as fact
from controlplane.core.decide.ahead import place_of
from controlplane.core.diff import Aspect, Change
from controlplane.core.plan import (
    AlterGroup,
    AnyAction,
    DeleteGroup,
    Draft,
    FenceProducers,
    Plan,
    RestartInstances,
    Step,
)
from controlplane.core.redact import redacted_text, redacted_value
from controlplane.core.shown import TOMBSTONE, json_line
from controlplane.core.state import ClusterState
from controlplane.rest.errors import Answer

EFFECTS_SHOWN = 20
"""How many effects people are shown; JSON has them all."""

OUTSIDE = "-"
"""Instead of a topic, where nothing is written."""


def print_plan(who: str, found: Foreseen, plan: Plan, answer: Answer | None) -> None:
    """Print who would write what, what comes of it, and what is assumed of the world."""
    say(f"{who}: {_amount(plan)}", style="bold")
    if plan.steps:
        table(
            ("STEP", "TOPIC", "PARTITION", "KEY", "VALUE", "THEN"),
            [row for step in plan.steps for row in _rows(step, found.before)],
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


def _amount(plan: Plan) -> str:
    records = sum(len(step.records) for step in plan.steps)
    actions = sum(step.action is not None for step in plan.steps)
    parts = [count(records, "record")] if records else []
    parts += [f"{count(actions, 'action')} outside of the log"] if actions else []
    if not parts:
        return "nothing has to be done"
    return f"{' and '.join(parts)}, in {count(len(plan.steps), 'step')}"


def _rows(step: Step, state: ClusterState) -> Iterator[tuple[str, ...]]:
    """A row for each record or action; the first tells the step, the last what comes then."""
    rows = [_record(draft, state) for draft in step.records]
    if step.action is not None:
        rows.append((OUTSIDE, "", "", _words(step.action)))
    then = ", ".join(_then(step, state))
    for number, row in enumerate(rows):
        yield step.name if not number else "", *row, then if number == len(rows) - 1 else ""
    if step.undo is not None:
        for name, *cells, _ in _rows(step.undo, state):
            yield f"({name})" if name else "", *cells, "if a later step fails" if name else ""


def _record(draft: Draft, state: ClusterState) -> tuple[str, ...]:
    topic, partition = state.topics.short(draft.topic), place_of(draft, state)
    return topic, str(partition), short(redacted_text(_decoded(draft.key))), _value(draft.value)


def _value(raw: bytes | None) -> str:
    """The very bytes, unless there is a secret in them."""
    if raw is None:
        return TOMBSTONE
    text = _decoded(raw)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return short(redacted_text(text))
    hidden = redacted_value("", value)
    return short(text if hidden == value else json_line(hidden))


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _then(step: Step, state: ClusterState) -> Iterator[str]:
    """What comes before the next step may begin."""
    if step.barrier and {*step.barrier} == {draft.topic for draft in step.records}:
        yield "read back"
    elif step.barrier:
        yield f"read {' and '.join(map(state.topics.short, step.barrier))}"
    if step.best_effort:
        yield "go on even if it fails"


def _words(action: AnyAction) -> str:
    match action:
        case AlterGroup(group=group, put=put, remove=remove):
            set_ = [f"{topic}-{partition} to {offset}" for topic, partition, offset in put]
            removed = [f"{topic}-{partition}" for topic, partition in remove]
            parts = [*(["set " + ", ".join(set_)] if set_ else [])]
            parts += ["remove " + ", ".join(removed)] if removed else []
            return f"in consumer group {group}: {'; '.join(parts)}"
        case DeleteGroup(group=group):
            return f"delete consumer group {group}"
        case FenceProducers(transactional_ids=ids):
            return f"fence the producers {', '.join(ids)}"
        case RestartInstances(connector=name, instances=instances):
            pieces = [name if one is None else f"task {name}-{one}" for one in instances]
            return f"restart {', '.join(pieces)}, where it runs"


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
        "barrier": list(step.barrier),
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
