"""`GET /watch`: live changes as server-sent events.

An event `change` is one change. Its `data:` is JSON of the connector, the aspect, before and after
(secrets hidden), and the position of its record. One record may cause several changes. Only the
last of them has an `id:`, the end offsets read so far. With `records=true`, this last change also
has the record's value. A stream without a given starting position begins with the `id:` of the
present position. A reconnecting browser sends the last id as `Last-Event-ID`, and gets all changes
that it missed. Other events report an error (`error`) or the end of the stream (`end`).
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec

from controlplane.core.moments import UnknownMoment, is_vector, read_vector
from controlplane.core.order import Ends
from controlplane.core.text.record_text import document, reference
from controlplane.core.text.value_text import item, json_value, plain
from controlplane.logs.log import LogError
from controlplane.projection.change_feed import ChangeEvent, TooManyReleases, TooSlow
from controlplane.rest.errors import EVENTS, OK, Answer, InvalidParameter, NotReady
from controlplane.rest.requests import Call

SILENCE_S = 15
"""Seconds without a change after which a comment is sent. The comment detects clients that have
left, and keeps proxies from closing the connection."""


async def watch(call: Call) -> Answer:
    """Start a stream of changes. `connector=` selects those of one connector.

    `since=` is an event id, or a moment. `as_of=` with a moment has the same effect.
    """
    since = _last_seen(call)
    if since is None:  # an empty id, `{}`, is a position, too: the beginning of the log
        since = await _since_moment(call)
    _check_release(call)
    # The state is loaded now, so that joining is quick.
    state = await call.service.follower.state(call.profile)
    _check_release(call)  # during the load, other watchers may have joined
    records = call.flag("records")
    changes = call.service.watching.changes(since, call.profile)
    # A stream that breaks off before its first change can be resumed after this position.
    beginning = _id_line(state.ends_by_topic) if since is None else b""
    events = _events(changes, call, beginning, records=records)
    return Answer(OK, "", EVENTS, {"cache-control": "no-store"}, events)


def _check_release(call: Call) -> None:
    """Raise `NotReady` if too many other releases are watched."""
    if not call.service.watching.may_watch(call.profile):
        raise NotReady(str(TooManyReleases()))


def _last_seen(call: Call) -> Ends | None:
    """Return the end offsets of the last event that the client has seen, if it sends an `id`.

    Raises:
        InvalidParameter: the text is no vector of end offsets, so it is no `id`.
    """
    for name, text in (
        ("Last-Event-ID", call.request.headers.get("last-event-id")),
        ("since=", call.parameter("since")),
    ):
        if text and (name != "since=" or is_vector(text)):
            try:
                return read_vector(text)
            except UnknownMoment as error:
                reason = f"{name} is no id of an event: {error}"
                raise InvalidParameter(reason) from None
    return None


async def _since_moment(call: Call) -> Ends | None:
    since = call.moment("since")
    if since:
        past = await call.service.follower.state_at(since, call.profile)
        return past.state.ends_by_topic
    return (
        None if call.request.as_of is None else (await call.requested_state()).state.ends_by_topic
    )


async def _events(
    changes: AsyncGenerator[ChangeEvent, None], call: Call, beginning: bytes, *, records: bool
) -> AsyncIterator[bytes]:
    selected = call.parameter("connector")
    async with aclosing(changes):
        waiting: asyncio.Task[ChangeEvent] | None = asyncio.ensure_future(anext(changes))
        try:
            await asyncio.sleep(0)  # the watcher has joined by now: it gets every later change
            yield b": watching\n" + beginning + b"\n"
            while True:
                waiting = waiting or asyncio.ensure_future(anext(changes))
                done, _ = await asyncio.wait([waiting], timeout=SILENCE_S)
                if not done:
                    yield b": nothing new\n\n"
                    continue
                event, waiting = waiting.result(), None
                is_selected = selected in (None, event.change.connector)
                yield _change(event, _document(event, record=records) if is_selected else None)
        except (TooSlow, TooManyReleases, LogError) as error:
            yield _event("error", {"message": str(error)})
        except StopAsyncIteration:
            yield _event("end", {"message": "no further changes will come"})
        finally:
            if waiting is not None:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)


def _change(event: ChangeEvent, document: dict[str, Any] | None) -> bytes:
    """Return a change as an event; only its `id` if the connector is not selected."""
    id_line = b"" if event.ends is None else _id_line(event.ends)
    if document is None:
        return id_line and id_line + b"\n"
    return id_line + _event("change", document)


def _id_line(ends: Ends) -> bytes:
    listed = {topic: list(offsets) for topic, offsets in ends.items()}
    return b"id: " + msgspec.json.encode(listed) + b"\n"


def _event(kind: str, content: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(content, ensure_ascii=True)}\n\n".encode("ascii")


def _document(event: ChangeEvent, *, record: bool) -> dict[str, Any]:
    """Return a change as JSON.

    With `record`, the last of the changes that one record causes also has the record's value.
    """
    change = event.change
    before, after = (
        plain(json_value(change.aspect, change.item, value))
        for value in (change.before, change.after)
    )
    whole = record and event.ends is not None
    return {
        "connector": change.connector,
        "aspect": change.aspect.value,
        "item": item(change.aspect, change.item),
        "before": before,
        "after": after,
        "record": document(event.entry) if whole else reference(event.entry),
    }
