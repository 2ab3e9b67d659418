"""`describe`: one connector, or one plugin, in full."""

from collections.abc import Mapping
from shlex import quote
from typing import Any

import click

from controlplane.client.commands.documents import output_option, print_document, say_pairs
from controlplane.client.commands.verbs import read_command, verb
from controlplane.client.connectors.connector_summary import (
    STYLES,
    ConnectorSummary,
    summary,
    with_target_states,
)
from controlplane.client.connectors.progress import UNKNOWN, progress
from controlplane.client.connectors.selection import Selection, selection_or_all
from controlplane.client.http.api import Api, connector, segment
from controlplane.client.http.request_errors import Declined, Unsupported, no_connector
from controlplane.core.state import Aspect
from controlplane.core.text import value_text
from controlplane.core.text.redaction import redacted_text
from controlplane.core.text.safe_text import count, short
from controlplane.terminal.output import say
from controlplane.terminal.table_text import is_wide
from controlplane.terminal.tables import table

TRACE_LINES = 24
"""Lines of a stack trace that are printed. A third is from its beginning, where Java names the
failure. The others are from its end, where Python names it. JSON and `--wide` have all of it."""


@read_command(
    "connector",
    selection_or_all,
    click.option(
        "--tasks-config", "with_tasks", is_flag=True, help="Also show the tasks' configs."
    ),
    output_option,
)
async def describe_connector(
    api: Api, selection: Selection, output: str, *, with_tasks: bool
) -> None:
    """Show config, state, tasks and topics of connectors.

    The JSON of a connector is the answer to GET /connectors/NAME, with `status` and `topics`. With
    --tasks-config it has `task_configs`. `apply -f` takes it.
    """
    documents = [
        await _document(api, name, with_tasks=with_tasks) for name in await selection.of(api)
    ]
    if output != "table":
        is_list = selection.needs_lookup or len(documents) > 1
        print_document(documents if is_list else documents[0], output)
        return
    described = [
        ConnectorSummary(document["name"], document, document["status"]) for document in documents
    ]
    for number, connector_summary in enumerate(await with_target_states(api, described)):
        if number:
            say()
        _print(connector_summary)
        await _print_lag(api, connector_summary)


async def _document(api: Api, name: str, *, with_tasks: bool) -> dict[str, Any]:
    connector_summary = await summary(api, name)
    if connector_summary is None:
        raise no_connector(name)
    document = {
        **connector_summary.info,
        "status": connector_summary.status,
        "topics": await _topics(api, name),
    }
    if with_tasks:
        document["task_configs"] = await api.get(connector(name, "tasks"))
    return document


async def _topics(api: Api, name: str) -> list[str] | None:
    """Topics that the connector has used; None if the cluster does not track them."""
    try:
        answer = await api.get(connector(name, "topics"))
    except (Unsupported, Declined):
        return None
    return sorted(answer[name]["topics"])


# --- for people ---------------------------------------------------------------------------------


def _print(described: ConnectorSummary) -> None:
    info, state, worker = described.info, described.state_in_words, described.worker
    say_pairs({"Name": described.name, "Type": described.type, "State": state, "Worker": worker})
    if described.status is not None:
        _print_trace(described.status["connector"])
    say("Config:", style="bold")
    say_pairs({key: _value(key, value) for key, value in sorted(info["config"].items())}, "  ")
    _print_tasks(described)
    for task in info.get("task_configs", ()):
        say(f"Config of task {task['id']['task']}:", style="bold")
        say_pairs({key: _value(key, value) for key, value in (task["config"] or {}).items()}, "  ")
    if info["topics"] is not None:
        say(f"Topics: {', '.join(info['topics']) or 'none'}")


async def _print_lag(api: Api, described: ConnectorSummary) -> None:
    """Print the lag of a sink, if the server knows it; Kafka's workers and /compat do not."""
    if described.type != "sink" or not api.server.ours or api.shows_past:
        return
    try:
        shown = await progress(api, described.name)
    except Unsupported:
        return
    except click.ClickException:
        name = quote(described.name)
        say(f"Lag: {UNKNOWN} (`controlplane offsets progress {name}` says why)")
        return
    lag = UNKNOWN if shown["lag"] is None else count(shown["lag"], "record")
    say(f"Consumer group: {shown['group']}")
    say(f"Lag: {lag}")


def _value(key: str, value: Any) -> str:
    """The value of a config key on one line, without secrets; `--wide` shows long values."""
    text = value_text.text(Aspect.CONFIG, key, value)
    return text if is_wide() else short(text)


def _print_tasks(described: ConnectorSummary) -> None:
    say(f"Tasks: {described.tasks_in_words}", style="bold")
    if described.tasks:
        rows = [
            (str(task["id"]), str(task["state"]), str(task["worker_id"]))
            for task in described.tasks
        ]
        styles = {
            number: STYLES[state] for number, (_, state, _) in enumerate(rows) if state in STYLES
        }
        table(("TASK", "STATE", "WORKER"), rows, styles)
    for task in described.tasks:
        _print_trace(task, f"Trace of task {task['id']}")


def _print_trace(reported: Mapping[str, Any], title: str = "Trace") -> None:
    trace = reported.get("trace")
    if trace:
        say(f"{title}:", style="bold")
        for line in _beginning_and_end(str(trace).splitlines()):
            say(f"  {redacted_text(line.expandtabs(2))}", style="red")


def _beginning_and_end(lines: list[str]) -> list[str]:
    if is_wide() or len(lines) <= TRACE_LINES:
        return lines
    left_out = len(lines) - TRACE_LINES
    first = TRACE_LINES // 3
    return [*lines[:first], f"… {count(left_out, 'line')} …", *lines[first + left_out :]]


# --- plugins ------------------------------------------------------------------------------------


@read_command("plugin", click.argument("plugin"), output_option)
async def describe_plugin(api: Api, plugin: str, output: str) -> None:
    """Show the settings of a plugin, by class or alias."""
    keys = await api.get(f"/connector-plugins/{segment(plugin)}/config")
    if output != "table":
        print_document(keys, output)
        return
    heads = ("KEY", "TYPE", "IMPORTANCE", "DEFAULT", "WHAT")
    table(heads, map(_key_row, keys), spare=("IMPORTANCE", "WHAT"))


def _key_row(key: Mapping[str, Any]) -> tuple[str, ...]:
    default = "(required)" if key["required"] else key.get("default_value")
    words = str(key.get("documentation") or "")
    return key["name"], key["type"], key["importance"], str(default or ""), words


describe = verb(
    "describe",
    "Show a connector or a plugin in full.",
    "connector",
    (describe_connector, describe_plugin),
)
