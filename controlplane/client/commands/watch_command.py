"""`watch`: follow changes as they happen, until Ctrl-C. Kafka's workers do not have it.

The command reconnects after a broken connection, and loses no change: the server resumes after the
last id. Without `--after`, the server first sends the id of the present position.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple

import click
import httpx

from controlplane.client.commands.documents import json_line
from controlplane.client.commands.verbs import read_command_at_present
from controlplane.client.connectors.selection import complete
from controlplane.client.http.api import Api, check_name, checked_texts
from controlplane.client.http.cluster_address import ClusterAccess
from controlplane.client.http.request_errors import NotServing, Unavailable
from controlplane.core.moments import is_vector, time_text
from controlplane.core.text import value_text
from controlplane.core.text.safe_text import short
from controlplane.core.views.diff import Aspect
from controlplane.terminal.command_errors import flush, write
from controlplane.terminal.log_options import not_empty
from controlplane.terminal.number_options import WholeNumber
from controlplane.terminal.option_names import named_option
from controlplane.terminal.output import note, say

_EVENT_STREAM = "text/event-stream"

PAUSE_S = 1.0
"""Pause in seconds before a broken connection is made again."""

SILENCE_S = 60.0
"""Silence in seconds after which a connection counts as broken. The service sends a comment after
15 s without a change."""


class ServerSentEvent(NamedTuple):
    """Server-sent event: its kind, its payload (JSON), and its id, from which to resume."""

    kind: str = "message"
    payload: str = ""
    event_id: str | None = None


@read_command_at_present(
    "watch",
    click.argument("name", required=False, callback=not_empty, shell_complete=complete),
    named_option(
        "--after",
        "since",
        former=("--since",),
        metavar="ID",
        callback=not_empty,
        help="Start after the event with this `id`, or after a record: config@57. [default: now]",
    ),
    named_option(
        "--limit",
        "number",
        former=("--count",),
        type=WholeNumber(1),
        metavar="N",
        help="End after N changes. [default: never]",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        help="Lines for people, or one JSON document per line. [default: table]",
    ),
    need=ClusterAccess.FOLLOW,
)
async def watch(
    api: Api, name: str | None, since: str | None, number: int | None, output: str
) -> None:
    """Follow the changes of one connector, or of all, as they happen.

    Kafka's workers do not support it.
    """
    api.need("watch")
    if name is not None:
        check_name(name)
    printed = 0
    async with aclosing(changes(api, name, since)) as followed:
        async for change in followed:
            write(json_line(change) + "\n") if output == "json" else _say(change)
            flush()
            printed += 1
            if printed == number:
                return


async def changes(api: Api, name: str | None, since: str | None) -> AsyncGenerator[Any, None]:
    """Yield changes; reconnect when the connection breaks, also while the server restarts.

    Raises:
        Unavailable: the first answer is 502, 503 or 504, or the server has ended the stream.
        Declined: the server refuses.
    """
    was_connected = False
    while True:
        try:
            async with aclosing(_events(api, name, since)) as events:
                async for event in events:
                    was_connected = True
                    since = event.event_id or since
                    document = json.loads(event.payload) if event.payload else {}
                    if event.kind == "change":
                        yield document | {"id": since}
                    elif event.kind != "message":
                        message = document.get("message")
                        raise Unavailable(f"{api.name} ended the stream: {message}")
        except httpx.TransportError as failure:
            note(f"the connection to {api.name} is lost ({type(failure).__name__}): reconnecting")
        except NotServing as failure:
            if not was_connected:
                raise
            note(f"{failure.message}: reconnecting")
        await asyncio.sleep(PAUSE_S)


async def _events(
    api: Api, name: str | None, since: str | None
) -> AsyncGenerator[ServerSentEvent, None]:
    """Yield the events of one connection."""
    headers = {"accept": _EVENT_STREAM}
    query = {"connector": name} if name else {}
    if since is not None and is_vector(since):
        headers["last-event-id"] = since
    elif since is not None:
        query["since"] = since
    limits = httpx.Timeout(SILENCE_S, connect=5.0)
    with checked_texts():
        request = api.client.build_request(
            "GET", "/watch", params=query, headers=headers, timeout=limits
        )
    async with aclosing(await api.client.send(request, stream=True)) as answer:
        kind = answer.headers.get("content-type", "")
        if not (answer.is_success and kind.startswith(_EVENT_STREAM)):
            await answer.aread()
            api.checked_answer(answer, "GET /watch")
            raise Unavailable(f"{api.name} answers GET /watch with {short(kind)}, not with events")
        event = ServerSentEvent()
        async for line in answer.aiter_lines():
            if not line:
                yield event
                event = ServerSentEvent()
            field, _, value = line.partition(": ")
            if field in _FIELDS:
                event = event._replace(**{_FIELDS[field]: value})


_FIELDS = {"event": "kind", "data": "payload", "id": "event_id"}
"""Names of an event's lines → fields of `ServerSentEvent`."""


def _say(change: Mapping[str, Any]) -> None:
    """Print a change on one line; the server has hidden secrets."""
    aspect, record = Aspect(change["aspect"]), change["record"]
    subject = " ".join(filter(None, (aspect.value, value_text.item(aspect, change["item"]))))
    became = value_text.change(aspect, change["item"], change["before"], change["after"])
    say(f"{time_text(record['timestamp'])}  {change['connector']}: {subject}: {became}")
