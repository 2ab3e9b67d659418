"""One command for several connectors: each by itself, with a result or a dry run's plan."""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click

from controlplane.client.commands.documents import print_document
from controlplane.client.http.api import Api
from controlplane.client.http.request_errors import worst
from controlplane.core.text.redaction import redacted_text, redacted_value
from controlplane.core.text.safe_text import count
from controlplane.core.text.value_text import TOMBSTONE, json_line
from controlplane.terminal.option_names import Decorated
from controlplane.terminal.output import note, say
from controlplane.terminal.tables import table


class ConnectorResult(NamedTuple):
    """Result of a command for one connector."""

    name: str
    did: str
    """`created`, `paused`, …; of a dry run, what would have been done."""
    words: str = ""
    """Details for people."""
    facts: Mapping[str, Any] = {}
    """Details for machines."""
    plan: Mapping[str, Any] | None = None
    """The plan of a dry run."""

    def document(self) -> dict[str, Any]:
        """The result as JSON."""
        plan = {} if self.plan is None else {"plan": self.plan}
        return {"connector": self.name, "result": self.did, **self.facts, **plan}

    def say(self) -> None:
        """Print the result for people."""
        if self.plan is not None:
            print_plan(f"{self.name} would be {self.did}", self.plan)
        else:
            say(f"{self.name}: {self.did}{self.words and f' ({self.words})'}")


async def each(
    names: Sequence[str], act: Callable[[str], Awaitable[ConnectorResult]], output: str
) -> None:
    """Act on each connector in turn; a refusal is printed, and the next connector follows.

    Raises:
        SystemExit: some were refused; the exit code is that of the worst.
        ClickException: the only connector was refused.
    """
    results: list[ConnectorResult] = []
    failures: list[click.ClickException] = []
    for name in names:
        try:
            results.append(await act(name))
        except click.ClickException as failure:
            if len(names) == 1:
                raise
            failures.append(failure)
            note(f"Error: {name}: {failure.message}")
        else:
            if output == "table":
                results[-1].say()
    if output != "table":
        print_document([result.document() for result in results], output)
    if failures:
        raise SystemExit(worst(failures))


def dry_run_option(command: Decorated) -> Decorated:
    """Add `--dry-run`; the command gets `dry_run`."""
    return click.option(
        "--dry-run",
        is_flag=True,
        help="Show the records that the command would write; write none. Not with Kafka's workers.",
    )(command)


def yes_option(command: Decorated) -> Decorated:
    """Add `--yes`; the command gets `yes`."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")(command)


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation on the terminal, unless `yes`.

    Raises:
        Abort: the answer is no, or there is no terminal.
    """
    if not yes:
        click.confirm(question, abort=True, err=True)


async def change(
    api: Api, method: str, path: str, result: ConnectorResult, *, dry_run: bool
) -> ConnectorResult:
    """Request a change without a body, or its plan; return `result`, with the plan if any."""
    answer = await api.send(method, path, dry_run=dry_run)
    return result._replace(plan=answer.body) if dry_run else result


# --- plans ---------------------------------------------------------------------------------------

OUTSIDE = "-"
"""Topic column of an action outside of the log."""

PlanDocument = Mapping[str, Any]


def print_plan(title: str, plan: PlanDocument) -> None:
    """Print the records and actions of a dry run, in order."""
    steps = plan["steps"]
    records = sum(len(step["records"]) for step in steps)
    actions = sum("action" in step for step in steps)
    outside = f" and {count(actions, 'action')} outside of the log" if actions else ""
    say(f"{title}: {count(records, 'record')}{outside}", style="bold")
    if steps:
        table(
            ("STEP", "TOPIC", "KEY", "VALUE", "THEN"),
            (row for step in steps for row in _rows(step)),
            spare=("THEN",),
        )
    for sentence in plan["assumed"]:
        say(f"assumed: {sentence}")


def _rows(step: PlanDocument) -> Iterator[tuple[str, ...]]:
    """A row per record or action; STEP stands in the first row only, THEN in the last."""
    lines = [
        (record["topic"], redacted_text(str(record["key"])), _value(record["value"]))
        for record in step["records"]
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
