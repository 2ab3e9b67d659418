"""`watch`: changes as they happen, until Ctrl-C. Ours only.

A connection that breaks is made again, and what has happened meanwhile is told: the server counts.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

import click
import httpx

from controlplane.cli.cluster.api import Api, check_name
from controlplane.cli.cluster.exits import Unavailable
from controlplane.cli.cluster.output import json_line
from controlplane.cli.cluster.selecting import complete
from controlplane.cli.cluster.verbs import asks_now
from controlplane.cli.cluster.where import Need
from controlplane.cli.failing import flush, write
from controlplane.cli.options import not_empty
from controlplane.cli.printing import note, say
from controlplane.core import shown
from controlplane.core.diff import Aspect
from controlplane.core.moments import is_vector, time_text
from controlplane.option_names import named_option

PAUSE_S = 1.0
"""Before a connection that broke is made again."""


class Event(NamedTuple):
    """A server-sent event: its kind, what it tells, and where to go on from."""

    kind: str = "message"
    told: str = ""
    place: str | None = None


@asks_now(
    "watch",
    click.argument("name", required=False, callback=not_empty, shell_complete=complete),
    named_option(
        "--after",
        "since",
        former=("--since",),
        metavar="ID",
        callback=not_empty,
        help="Continue behind the event with this `id`, or a record: config@57. [default: now]",
    ),
    named_option(
        "--limit",
        "number",
        former=("--count",),
        type=click.IntRange(1),
        metavar="N",
        help="End after N changes. [default: never]",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        help="Lines for people, or a JSON document a line.",
    ),
    need=Need.FOLLOW,
)
async def watch(
    api: Api, name: str | None, since: str | None, number: int | None, output: str
) -> None:
    """Follow changes as they happen, of one connector or of all."""
    api.need("watch")
    if name is not None:
        check_name(name)
    seen = 0
    async for change in _changes(api, name, since):
        write(json_line(change) + "\n") if output == "json" else _say(change)
        flush()
        seen += 1
        if seen == number:
            return


async def _changes(api: Api, name: str | None, since: str | None) -> AsyncIterator[Any]:
    """Changes, over as many connections as it takes."""
    while True:
        try:
            async for event in _events(api, name, since):
                since = event.place or since
                told = json.loads(event.told) if event.told else {}
                if event.kind == "change":
                    yield told | {"id": since}
                elif event.kind != "message":
                    raise Unavailable(f"{api.name} tells no more: {told.get('message')}")
        except httpx.TransportError as failure:
            note(f"{api.name} is gone ({type(failure).__name__}): trying again")
        await asyncio.sleep(PAUSE_S)


async def _events(api: Api, name: str | None, since: str | None) -> AsyncIterator[Event]:
    """The events of one connection."""
    headers = {"accept": "text/event-stream"}
    query = {"connector": name} if name else {}
    if since is not None and is_vector(since):
        headers["last-event-id"] = since
    elif since is not None:
        query["since"] = since
    never = httpx.Timeout(None, connect=5.0)
    asked = api.client.stream("GET", "/watch", params=query, headers=headers, timeout=never)
    async with asked as answer:
        if not answer.is_success:
            await answer.aread()
            api.given(answer, "GET /watch")
        event = Event()
        async for line in answer.aiter_lines():
            if not line:
                yield event
                event = Event()
            field, _, value = line.partition(": ")
            if field in _FIELDS:
                event = event._replace(**{_FIELDS[field]: value})


_FIELDS = {"event": "kind", "data": "told", "id": "place"}
"""Lines of an event, and what they tell."""


def _say(change: Mapping[str, Any]) -> None:
    """A change on one line. The server has hidden what is secret."""
    aspect, record = Aspect(change["aspect"]), change["record"]
    what = " ".join(filter(None, (aspect.value, shown.item(aspect, change["item"]))))
    became = shown.change(aspect, change["item"], change["before"], change["after"])
    say(f"{time_text(record['timestamp'])}  {change['connector']}: {what}: {became}")
