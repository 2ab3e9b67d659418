"""A dry run's answer, as people read it: which records come when, and what is done outside."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.core.text.redaction import redacted_text, redacted_value
from controlplane.core.text.safe_text import count
from controlplane.core.text.value_text import TOMBSTONE, json_line
from controlplane.terminal.output import say
from controlplane.terminal.tables import table

OUTSIDE = "-"
"""Instead of a topic, where nothing is written."""

PlanDocument = Mapping[str, Any]


def print_plan(who: str, plan: PlanDocument) -> None:
    """Print which records would be written, in order."""
    steps = plan["steps"]
    records = sum(len(step["records"]) for step in steps)
    actions = sum("action" in step for step in steps)
    outside = f" and {count(actions, 'action')} outside of the log" if actions else ""
    say(f"{who}: {count(records, 'record')}{outside}", style="bold")
    if steps:
        table(
            ("STEP", "TOPIC", "KEY", "VALUE", "THEN"),
            (row for step in steps for row in _rows(step)),
            spare=("THEN",),
        )
    for sentence in plan["assumed"]:
        say(f"assumed: {sentence}")


def _rows(step: PlanDocument) -> Iterator[tuple[str, ...]]:
    """A line for each record or action; the step is named once, and so is what comes behind it."""
    lines = [
        (one["topic"], redacted_text(str(one["key"])), _value(one["value"]))
        for one in step["records"]
    ]
    if "action" in step:
        lines.append((OUTSIDE, "", json_line(redacted_value("", step["action"]))))
    then = "read back" if step["read_back"] else ""
    for number, line in enumerate(lines):
        yield step["name"] if not number else "", *line, then if number == len(lines) - 1 else ""


def _value(text: Any) -> str:
    """A record's value without secrets."""
    if text is None:
        return TOMBSTONE
    try:
        value = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return redacted_text(str(text))
    hidden = redacted_value("", value)
    return str(text) if hidden == value else json_line(hidden)
