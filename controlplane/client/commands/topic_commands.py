"""`topics`: list or reset the topics that a connector has used (KIP-558)."""

from functools import partial

from controlplane.client.commands.batch import (
    ConnectorChange,
    ConnectorResult,
    change,
    change_each,
    dry_run_option,
)
from controlplane.client.commands.documents import output_option, print_document
from controlplane.client.commands.verbs import change_command, read_command, verb
from controlplane.client.connectors.selection import Selection, explicit_selection, name_argument
from controlplane.client.http.api import Api, connector
from controlplane.client.http.request_errors import no_connector
from controlplane.terminal.output import say


@read_command("get", name_argument, output_option)
async def get(api: Api, name: str, output: str) -> None:
    """List the topics that a connector has used since the last reset."""
    used = await _used_topics(api, name)
    if output != "table":
        print_document(used, output)
        return
    for topic in used:
        say(topic)
    if not used:
        say(f"{name} has used no topics")


@change_command("reset", explicit_selection, dry_run_option, output_option)
async def reset(api: Api, selection: Selection, output: str, *, dry_run: bool) -> None:
    """Clear the list of topics that connectors have used."""

    async def plan(name: str, *, dry_run: bool = True) -> ConnectorResult:
        await _used_topics(api, name)
        path = connector(name, "topics", "reset")
        return await change(api, "PUT", path, ConnectorResult(name, "reset"), dry_run=dry_run)

    requested = ConnectorChange(plan, partial(plan, dry_run=False))
    await change_each(api, await selection.of(api), requested, output, dry_run=dry_run)


async def _used_topics(api: Api, name: str) -> list[str]:
    """Topics that a connector has used. A deleted connector may still have some.

    Raises:
        Declined: there is no such connector, for which Connect answers with an empty list.
    """
    answer = await api.get(connector(name, "topics"))
    used = sorted(answer[name]["topics"])
    if not used and await api.find(connector(name)) is None:
        raise no_connector(name)
    return used


topics = verb(
    "topics", "List or reset the topics that connectors use.", "get", (get, reset), part="action"
)
