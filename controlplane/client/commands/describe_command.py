"""`describe`: all that a cluster says of one connector, or of one plugin."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import click

from controlplane.client.commands.documents import output_option, print_document, say_pairs
from controlplane.client.commands.verbs import asks, verb
from controlplane.client.connectors.connector_summary import (
    STYLES,
    ConnectorSummary,
    summary,
    with_wanted,
)
from controlplane.client.connectors.selection import Selection, chosen
from controlplane.client.http.api import Api, connector
from controlplane.client.http.request_errors import Declined, Unsupported
from controlplane.core.state import Aspect
from controlplane.core.text import value_text
from controlplane.core.text.redaction import redacted_text
from controlplane.core.text.safe_text import short
from controlplane.terminal.output import say
from controlplane.terminal.tables import table

TRACE_CHARACTERS = 2_000
"""So much of a stack trace is shown to people; JSON has all of it."""


@asks(
    "connector",
    chosen,
    click.option("--tasks-config", "with_tasks", is_flag=True, help="The tasks' configs, too."),
    output_option,
)
async def describe_connector(
    api: Api, selection: Selection, output: str, *, with_tasks: bool
) -> None:
    """Config, state, tasks and topics of connectors.

    As JSON a connector is what GET /connectors/NAME answers, with `status`, `topics` and, if asked
    for, `task_configs` beside it: `apply -f` takes it.
    """
    found = [await _described(api, name, with_tasks=with_tasks) for name in await selection.of(api)]
    if output != "table":
        print_document(found if selection.is_open or len(found) > 1 else found[0], output)
        return
    told = [ConnectorSummary(one["name"], one, one["status"]) for one in found]
    for number, one in enumerate(await with_wanted(api, told)):
        if number:
            say()
        _print(one)


async def _described(api: Api, name: str, *, with_tasks: bool) -> dict[str, Any]:
    found = await summary(api, name)
    if found is None:
        names = ", ".join(sorted(await api.get("/connectors"))) or "none"
        raise Declined(short(f"there is no connector {name}; there are: {names}"))
    told = {**found.info, "status": found.status, "topics": await _topics(api, name)}
    if with_tasks:
        told["task_configs"] = await api.get(connector(name, "tasks"))
    return told


async def _topics(api: Api, name: str) -> list[str] | None:
    """The topics that it has used; None where the cluster does not keep them."""
    try:
        told = await api.get(connector(name, "topics"))
    except (Unsupported, Declined):
        return None
    return sorted(told[name]["topics"])


# --- for people ---------------------------------------------------------------------------------


def _print(one: ConnectorSummary) -> None:
    told, state = one.info, one.state_in_words
    say_pairs({"Name": one.name, "Type": one.type, "State": state, "Worker": one.worker})
    if one.status is not None:
        _print_trace(one.status["connector"])
    say("Config:", style="bold")
    say_pairs({key: _value(key, value) for key, value in sorted(told["config"].items())}, "  ")
    _print_tasks(one)
    for task in told.get("task_configs", ()):
        say(f"Config of task {task['id']['task']}:", style="bold")
        say_pairs({key: _value(key, value) for key, value in (task["config"] or {}).items()}, "  ")
    if told["topics"] is not None:
        say(f"Topics: {', '.join(told['topics']) or 'none'}")


def _value(key: str, value: Any) -> str:
    """The value of a config key on one line, without secrets."""
    return short(value_text.text(Aspect.CONFIG, key, value))


def _print_tasks(one: ConnectorSummary) -> None:
    say(f"Tasks: {one.tasks_in_words}", style="bold")
    if one.tasks:
        states = [str(task["state"]) for task in one.tasks]
        styles = {number: STYLES[state] for number, state in enumerate(states) if state in STYLES}
        table(("TASK", "STATE", "WORKER"), _task_rows(one), styles)
    for task in one.tasks:
        _print_trace(task, f"Trace of task {task['id']}")


def _task_rows(one: ConnectorSummary) -> Iterator[tuple[str, str, str]]:
    for task in one.tasks:
        yield str(task["id"]), str(task["state"]), str(task["worker_id"])


def _print_trace(reported: Mapping[str, Any], title: str = "Trace") -> None:
    trace = reported.get("trace")
    if trace:
        say(f"{title}:", style="bold")
        for line in str(trace)[:TRACE_CHARACTERS].splitlines():
            say(f"  {redacted_text(line.expandtabs(2))}", style="red")


# --- plugins ------------------------------------------------------------------------------------


@asks("plugin", click.argument("plugin"), output_option)
async def describe_plugin(api: Api, plugin: str, output: str) -> None:
    """Show the settings of a plugin, by class or alias."""
    found = await api.get(f"/connector-plugins/{quote(plugin, safe='')}/config")
    if output != "table":
        print_document(found, output)
        return
    heads = ("KEY", "TYPE", "IMPORTANCE", "DEFAULT", "WHAT")
    table(heads, map(_key, found), spare=("IMPORTANCE", "WHAT"))


def _key(one: Mapping[str, Any]) -> tuple[str, ...]:
    default = "(required)" if one["required"] else one.get("default_value")
    words = str(one.get("documentation") or "")
    return one["name"], one["type"], one["importance"], str(default or ""), words


describe = verb(
    "describe",
    "Show all that is known of something.",
    "connector",
    (describe_connector, describe_plugin),
)
