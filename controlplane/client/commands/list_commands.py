"""`get`: connectors, plugins, loggers – lists, as kcctl has them."""

from collections.abc import Mapping
from typing import Any

import click

from controlplane.client.commands.documents import output_option, print_document
from controlplane.client.commands.verbs import asks
from controlplane.client.connectors.connector_summary import (
    ConnectorSummary,
    rows,
    summaries,
    with_wanted,
)
from controlplane.client.connectors.selection import Selection, chosen
from controlplane.client.http.api import Api
from controlplane.client.http.request_errors import Declined
from controlplane.terminal.output import say
from controlplane.terminal.tables import table

KINDS = ("source", "sink", "transformation", "predicate", "converter", "header_converter")
"""Types of plugins, as `GET /connector-plugins` has them."""


@asks("connectors", chosen, output_option)
async def connectors(api: Api, selection: Selection, output: str) -> None:
    """Connectors and how they are: all of them, or those that are named or in a state.

    As JSON it is what GET /connectors?expand=info&expand=status answers, which `apply -f` takes.
    """
    names = set(await selection.of(api))
    found = [one for one in await summaries(api) if one.name in names]
    if missing := names - {one.name for one in found}:
        raise Declined(f"there is no connector {min(missing)}; `controlplane get` lists them all")
    if output != "table":
        print_document({one.name: _expanded(one) for one in found}, output)
    elif found or selection.states:
        styles = {number: one.style for number, one in enumerate(found) if one.style}
        heads = ("NAME", "TYPE", "STATE", "TASKS", "WORKER")
        table(heads, rows(await with_wanted(api, found)), styles, spare=("WORKER", "TYPE"))
    else:
        say(f"{api.name} has no connectors")


def _expanded(one: ConnectorSummary) -> Mapping[str, Any]:
    status = {} if one.status is None else {"status": one.status}
    return {**status, "info": one.info}


@asks(
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
        "--all", "every", is_flag=True, help="List converters, transformations, … as well."
    ),
    output_option,
)
async def plugins(api: Api, kinds: tuple[str, ...], output: str, *, every: bool) -> None:
    """List the connector classes of the cluster, and with --all or --type other plugins."""
    only = "false" if every or kinds else "true"
    found = await api.get("/connector-plugins", connectorsOnly=only)
    shown = [one for one in found if not kinds or one.get("type") in kinds]
    if output != "table":
        print_document(shown, output)
        return
    heads = ("TYPE", "CLASS", "VERSION")
    table(heads, ((one.get("type", ""), one["class"], one.get("version", "")) for one in shown))


@asks("loggers", output_option)
async def loggers(api: Api, output: str) -> None:
    """Loggers with a level of their own, of the worker that answers."""
    found = await api.get("/admin/loggers")
    if output != "table":
        print_document(found, output)
        return
    table(("LOGGER", "LEVEL"), ((name, str(one["level"])) for name, one in found.items()))


@asks("info", output_option)
async def info(api: Api, output: str) -> None:
    """Show the release and the cluster id of the server."""
    server = api.server
    told = {"url": api.name, "version": server.version, "kafka_cluster_id": server.cluster_id}
    if output != "table":
        print_document(told, output)
        return
    say(f"{api.name} is {server.name}, of the Kafka cluster {server.cluster_id or '?'}")
