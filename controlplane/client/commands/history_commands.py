"""`history`, `undo`, `commands`: past changes, their undo, and the audit trail.

Kafka's workers have none of them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from controlplane.client.commands.batch import (
    ConnectorResult,
    act_on_each,
    dry_run_option,
    yes_option,
)
from controlplane.client.commands.documents import (
    before_document,
    output_option,
    output_option_without_secrets,
    print_document,
)
from controlplane.client.commands.verbs import change_command, read_command
from controlplane.client.connectors.selection import name_argument
from controlplane.client.http.api import Api, connector
from controlplane.core.moments import read_time_ms, time_text
from controlplane.core.text.redaction import redacted_text
from controlplane.core.text.safe_text import count
from controlplane.terminal.log_options import not_empty
from controlplane.terminal.number_options import WholeNumber
from controlplane.terminal.option_names import MOMENT, TIME
from controlplane.terminal.output import note, say
from controlplane.terminal.prompts import confirm
from controlplane.terminal.tables import table

OFFSETS_IN_A_ROW = 10
"""Maximum number of consecutive source offsets that a table shows; JSON has them all."""

DELETION = "delete-config"
"""Step with which a plan deletes a connector."""

HistoryItem = Mapping[str, Any]


@read_command(
    "history",
    name_argument,
    click.option(
        "--last",
        type=WholeNumber(1),
        metavar="N",
        help="Show only the last N changes. [default: all]",
    ),
    output_option_without_secrets,
)
async def history(api: Api, name: str, last: int | None, output: str) -> None:
    """Show every change of a connector, with its record and time; the oldest first.

    --as-of, `diff` and `undo` take the positions in the column RECORD.
    """
    api.need("history")
    events = await all_rows(api, connector(name, "history"), "events")
    shown = events if last is None else events[-last:]
    if output != "table":
        print_document({"connector": name, "events": shown}, output)
        return
    heads = ("RECORD", "TIME", "WHAT", "CHANGE")
    table(heads, _event_rows(list(_shortened(shown))), spare=("TIME",))


async def all_rows(api: Api, path: str, field: str, **query: str) -> list[HistoryItem]:
    """Rows of all pages of an answer; in each page, `field` has the rows."""
    page = await api.get(path, **query)
    rows = list(page[field])
    while page["next"] is not None:
        page = await api.get(path, **query, after=page["next"])
        rows += page[field]
    return rows


def _shortened(events: list[HistoryItem]) -> Iterator[HistoryItem | int]:
    """Yield the events; the rest of a long run of source offsets is replaced by its length."""
    run = left_out = 0
    for event in events:
        run = run + 1 if event["what"].startswith("source offset") else 0
        if run > OFFSETS_IN_A_ROW:
            left_out += 1
            continue
        if left_out:
            yield left_out
            left_out = 0
        yield event
    if left_out:
        yield left_out


def _event_rows(events: list[HistoryItem | int]) -> Iterator[tuple[str, str, str, str]]:
    last = ""
    for event in events:
        if isinstance(event, int):
            yield "", "", "source offsets", f"… {event} more; -o json has them"
            continue
        record = event["record"]
        place = event["at"]
        again, last = place == last, place
        time = time_text(record["timestamp"])
        yield "" if again else place, "" if again else time, event["what"], event["words"]


# --- undo ---------------------------------------------------------------------------------------


@change_command(
    "undo",
    name_argument,
    click.option(
        "--to",
        required=True,
        metavar="MOMENT",
        callback=not_empty,
        help=f"Moment to restore: {MOMENT}.",
    ),
    click.option("--offsets", is_flag=True, help="Restore the source offsets as well."),
    yes_option,
    dry_run_option,
    output_option,
)
async def undo(  # noqa: PLR0913 - click gives one argument per option
    api: Api, name: str, to: str, output: str, *, offsets: bool, yes: bool, dry_run: bool
) -> None:
    """Restore the config and target state of a connector, and with --offsets its offsets.

    A connector that did not exist at that moment is deleted. Shows the records and asks for
    confirmation, unless --yes is given. Kafka's workers do not support it.
    """
    api.need("undo", in_its_log=False)
    path, query = connector(name, "undo"), {"to": to, "offsets": str(offsets).lower()}
    plan = (await api.send("POST", path, query=query, dry_run=True)).body
    deletes = any(step["name"] == DELETION for step in plan["steps"])
    change = f"deleted, as it did not exist at {to}" if deletes else f"put back to {to}"
    planned = ConnectorResult(name, change, plan=plan)
    if dry_run:
        await _print(planned, output)
    elif not plan["steps"]:
        await _print(
            ConnectorResult(name, f"already as it was at {to}", "nothing is written"), output
        )
    else:
        if yes:
            _warn(plan)
        else:
            with before_document(output):
                planned.say()
            confirm(f"delete {name}?" if deletes else f"put {name} back?", yes=False)
        await api.send("POST", path, query=query)
        await _print(ConnectorResult(name, change), output)


def _warn(plan: Mapping[str, Any]) -> None:
    """Print the assumptions of a plan that is not shown."""
    for sentence in plan["assumed"]:
        note(f"Warning: assumed: {redacted_text(sentence)}")


async def _print(result: ConnectorResult, output: str) -> None:
    async def act(_: str) -> ConnectorResult:
        return result

    await act_on_each([result.name], act, output)


# --- the audit trail ----------------------------------------------------------------------------


@read_command(
    "commands",
    click.option("--connector", metavar="NAME", help="List only commands about this connector."),
    click.option("--principal", metavar="NAME", help="List only commands of this caller."),
    click.option(
        "--command",
        metavar="COMMAND",
        help="List only commands of this kind: create, put-config, stop, …",
    ),
    click.option(
        "--outcome",
        metavar="OUTCOME",
        help="List only this outcome: done, failed, refused, unfinished or unknown.",
    ),
    click.option("--since", metavar="TIME", help=f"List only commands from this time on: {TIME}."),
    click.option(
        "--limit",
        type=WholeNumber(1),
        metavar="N",
        help="List at most N commands. [default: 1000]",
    ),
    click.option(
        "--after", metavar="ID", help="List the commands after this ID, for the next page."
    ),
    output_option_without_secrets,
)
async def commands(api: Api, output: str, **filters: Any) -> None:
    """List commands with time, caller and outcome; the oldest first.

    Kafka's workers do not support it.
    """
    api.need("audit trail", in_its_log=False)
    query = {name: str(value) for name, value in filters.items() if value is not None}
    if "since" in query:  # an earlier version of `serve` accepts only milliseconds
        query["since"] = str(read_time_ms(query["since"]))
    page = await api.get("/commands", **query)
    if output != "table":
        print_document(page, output)
        return
    heads = ("TIME", "WHO", "COMMAND", "CONNECTOR", "OUTCOME", "ID")
    table(heads, map(_command_row, page["commands"]), spare=("ID", "WHO"))
    say(count(len(page["commands"]), "command"))
    if page["next"] is not None:
        note(f"there are more: list them with --after {page['next']}")


def _command_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    reason = f": {row['reason']}" if row.get("reason") else ""
    facts = row["principal"] or "-", row["command"], row["connector"] or "-"
    return time_text(row["at_ms"]), *facts, f"{row['outcome']}{reason}", row["id"]
