"""Tables of dry runs: the records and actions of one connector's plan, or of several in one."""

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from controlplane.core.text.redaction import redacted_text, redacted_value
from controlplane.core.text.safe_text import bytes_text, count
from controlplane.core.text.value_text import TOMBSTONE, json_line, redacted_json
from controlplane.terminal.output import say
from controlplane.terminal.tables import table

OUTSIDE = "-"
"""Topic column of an action outside of the log."""

HEADS = ("STEP", "TOPIC", "KEY", "VALUE", "THEN")

PlanDocument = Mapping[str, Any]


def joined(plans: Sequence[PlanDocument]) -> PlanDocument:
    """Join consecutive plans into one: their steps and assumptions, in order."""
    assumed = [sentence for plan in plans for sentence in plan["assumed"]]
    return {
        **plans[-1],
        "steps": [step for plan in plans for step in plan["steps"]],
        "assumed": list(dict.fromkeys(assumed)),
    }


def print_plan(title: str, plan: PlanDocument) -> None:
    """Print the records and actions of a dry run, in order."""
    say(f"{title}: {_amount([plan])}", style="bold")
    if plan["steps"]:
        table(HEADS, _lines(plan), spare=("THEN",))
    for sentence in plan["assumed"]:
        say(f"assumed: {redacted_text(sentence)}")


def print_plans(title: str, plans: Sequence[tuple[str, PlanDocument]]) -> None:
    """Print the plans of several connectors as one, in the order of their execution."""
    say(f"{title}: {_amount([plan for _, plan in plans])}", style="bold")
    lines = [
        (name if not number else "", *line)
        for name, plan in plans
        for number, line in enumerate(_lines(plan))
    ]
    if lines:
        table(("CONNECTOR", *HEADS), lines, spare=("THEN",))
    if idle := [name for name, plan in plans if not plan["steps"]]:
        say(f"nothing to write: {', '.join(idle)}")
    for name, plan in plans:
        for sentence in plan["assumed"]:
            say(f"assumed of {name}: {redacted_text(sentence)}")


def _amount(plans: Sequence[PlanDocument]) -> str:
    """Number of records and actions: `2 records and 1 action outside of the log`."""
    steps = [step for plan in plans for step in plan["steps"]]
    records = sum(len(step["records"]) for step in steps)
    actions = sum("action" in step for step in steps)
    outside = f" and {count(actions, 'action')} outside of the log" if actions else ""
    return f"{count(records, 'record')}{outside}"


def _lines(plan: PlanDocument) -> Iterator[tuple[str, ...]]:
    return (line for step in plan["steps"] for line in _lines_of_step(step))


def _lines_of_step(step: PlanDocument) -> Iterator[tuple[str, ...]]:
    """A line per record or action; STEP stands in the first line only, THEN in the last."""
    lines = [
        (record["topic"], redacted_text(str(_text(record["key"]))), _value(_text(record["value"])))
        for record in step["records"]
    ]
    if "action" in step:
        lines.append((OUTSIDE, "", json_line(redacted_value("", _with_texts(step["action"])))))
    then = "read back" if step["read_back"] else ""
    for number, line in enumerate(lines):
        yield step["name"] if not number else "", *line, then if number == len(lines) - 1 else ""


def _with_texts(action: PlanDocument) -> PlanDocument:
    """The action with the text of its records, in which secrets can be recognised."""
    if "records" not in action:
        return action
    records = [
        {**record, "key": _text(record["key"]), "value": _text(record["value"])}
        for record in action["records"]
    ]
    return {**action, "records": records}


def _text(content: Any) -> Any:
    """Text of a key or value, whose Base64 is decoded; None: no value."""
    if isinstance(content, Mapping) and "base64" in content:
        with suppress(ValueError):
            return bytes_text(b64decode(content["base64"]))
    return content


def _value(text: Any) -> str:
    """Value of a record without secrets."""
    return TOMBSTONE if text is None else redacted_json(str(text))
