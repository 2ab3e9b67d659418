"""`get`: lists of connectors, plugins and loggers, and the server's release."""

from collections.abc import Mapping
from typing import Any

import click

from controlplane.client.commands.documents import output_option, print_document
from controlplane.client.commands.verbs import read_command
from controlplane.client.connectors.connector_summary import (
    ConnectorSummary,
    rows,
    summaries,
    with_target_states,
)
from controlplane.client.connectors.progress import SinkLag, lags
from controlplane.client.connectors.selection import Selection, selection_or_all
from controlplane.client.http.api import Api
from controlplane.client.http.request_errors import no_connector
from controlplane.terminal.output import note, say
from controlplane.terminal.tables import table

KINDS = ("source", "sink", "transformation", "predicate", "converter", "header_converter")
"""Types of plugins, as `GET /connector-plugins` has them."""


@read_command(
    "connectors",
    selection_or_all,
    click.option(
        "--lag",
        "with_lag",
        is_flag=True,
        help="Also show the lag of sinks: the records that their groups have yet to commit.",
    ),
    output_option,
)
async def connectors(api: Api, selection: Selection, output: str, *, with_lag: bool) -> None:
    """List connectors with their states: all, or those selected by name or state.

    The JSON is the answer to GET /connectors?expand=info&expand=status, which `apply -f` takes.
    With --lag a sink has the field `lag`, too.
    """
    names = set(await selection.of(api))
    listed = [summary for summary in await summaries(api) if summary.name in names]
    if missing := names - {summary.name for summary in listed}:
        raise no_connector(min(missing))
    sinks = [summary.name for summary in listed if summary.type == "sink"] if with_lag else []
    lag_by_name = await lags(api, sinks) if with_lag else {}
    if output != "table":
        documents = {summary.name: _expanded(summary, lag_by_name) for summary in listed}
        print_document(documents, output)
    elif listed or selection.states:
        styles = {number: summary.style for number, summary in enumerate(listed) if summary.style}
        heads = ("NAME", "TYPE", "STATE", "TASKS", "WORKER", *(("LAG",) if with_lag else ()))
        listed = await with_target_states(api, listed)
        cells = zip(listed, rows(listed), strict=True)
        table(
            heads,
            (
                (*row, _lag_words(summary, lag_by_name)) if with_lag else row
                for summary, row in cells
            ),
            styles,
            spare=("WORKER", "TYPE"),
        )
    else:
        say(f"{api.name} has no connectors")
    for name, lag in lag_by_name.items():
        if lag.reason:
            note(f"{name}: {lag.reason}")


def _lag_words(summary: ConnectorSummary, lag_by_name: Mapping[str, SinkLag]) -> str:
    return lag_by_name[summary.name].words if summary.name in lag_by_name else ""


def _expanded(summary: ConnectorSummary, lag_by_name: Mapping[str, SinkLag]) -> Mapping[str, Any]:
    status = {} if summary.status is None else {"status": summary.status}
    lag = {"lag": lag_by_name[summary.name].lag} if summary.name in lag_by_name else {}
    return {**status, "info": summary.info, **lag}


@read_command(
    "plugins",
    click.option(
        "--type",
        "kinds",
        type=click.Choice(KINDS),
        multiple=True,
        metavar="TYPE",
        help=f"List plugins of a type: {', '.join(KINDS)}. May be repeated.",
    ),
    click.option(
        "--all", "every", is_flag=True, help="Also list transformations, predicates and converters."
    ),
    output_option,
)
async def plugins(api: Api, kinds: tuple[str, ...], output: str, *, every: bool) -> None:
    """List the connector classes of the cluster; with --all or --type also other plugins."""
    only = "false" if every or kinds else "true"
    installed = await api.get("/connector-plugins", connectorsOnly=only)
    listed = [plugin for plugin in installed if not kinds or plugin.get("type") in kinds]
    if output != "table":
        print_document(listed, output)
        return
    cells = (
        (plugin.get("type", ""), plugin["class"], plugin.get("version", "")) for plugin in listed
    )
    table(("TYPE", "CLASS", "VERSION"), cells)


@read_command("loggers", output_option)
async def loggers(api: Api, output: str) -> None:
    """List the loggers of the worker that answers, with their levels.

    Releases before 4.0 list only loggers that have a level of their own. Only processes have
    loggers, so --cluster must be the URL of a service or worker, and not a LOG.
    """
    api.need_loggers()
    levels = await api.get("/admin/loggers")
    if output != "table":
        print_document(levels, output)
        return
    table(("LOGGER", "LEVEL"), ((name, str(logger["level"])) for name, logger in levels.items()))


@read_command("info", output_option)
async def info(api: Api, output: str) -> None:
    """Show the release and the cluster id of the server."""
    server = api.server
    if output != "table":
        ids = {"version": server.version, "kafka_cluster_id": server.cluster_id}
        print_document({"url": api.name, **ids}, output)
        return
    say(f"{api.name} is {server.name}, of the Kafka cluster {server.cluster_id or '?'}")
