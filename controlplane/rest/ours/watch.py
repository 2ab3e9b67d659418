"""`GET /watch`: changes as they happen, as server-sent events.

Each event is one change: `data:` JSON of the connector, what changed, before and after (secrets
hidden), and the place of its record. The last change of a record bears an `id:`, up to where the
log has been read, and with `records=true` the record's value. A browser that was cut off sends the
id as `Last-Event-ID`, and is told of all that it missed.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec

from controlplane.core.moments import UnknownMoment, is_vector, read_vector
from controlplane.core.shown import plain, shown
from controlplane.core.shown_records import document, reference
from controlplane.logs.log import LogError
from controlplane.rest.calls import Call
from controlplane.rest.errors import EVENTS, OK, Answer, BadQuestion, NotReady
from controlplane.watching import RELEASES_WATCHED, Ends, Seen, TooSlow

WATCHERS_MOST = 10_000
"""Who watch at once; others are told to come back. Each change is told to each of them, and what
one does not take waits for him: a reference each, the changes are shared."""

SILENCE_S = 15
"""After so long without a change a comment is sent: who has gone away is noticed, and proxies do
not take the connection for dead."""


async def watch(call: Call) -> Answer:
    """Begin to tell of changes. `connector=` chooses those of one.

    `since=` is an id that was sent, or a moment as in `as_of=`, which does the same.
    """
    since = _last_seen(call)
    if since is None:  # `{}` is the beginning of the log
        since = await _since_moment(call)
    watching = call.service.watching
    assert watching is not None  # else this endpoint is not there
    if watching.watchers >= WATCHERS_MOST:
        raise NotReady(f"{WATCHERS_MOST} are watching already: try again later")
    if not watching.may_watch(call.profile):
        raise NotReady(f"{RELEASES_WATCHED} other releases are watched already: try again later")
    await call.service.follower.state(call.profile)  # so that joining takes no time
    records = call.flag("records")
    changes = watching.changes(since, call.profile)
    told = _events(changes, call, records=records)
    return Answer(OK, "", EVENTS, {"cache-control": "no-store"}, told)


def _last_seen(call: Call) -> Ends | None:
    """Up to where the client has heard of changes, if it sends an `id` of an event.

    Raises:
        BadQuestion: no such `id` was ever sent.
    """
    for name, given in (
        ("Last-Event-ID", call.request.headers.get("last-event-id")),
        ("since=", call.asked("since")),
    ):
        if given and (name != "since=" or is_vector(given)):
            try:
                return read_vector(given)
            except UnknownMoment as error:
                text = f"{name} is none of the ids that were sent: {error}"
                raise BadQuestion(text) from None
    return None


async def _since_moment(call: Call) -> Ends | None:
    since = call.asked("since")
    if since:
        then = await call.service.follower.state_at(since, call.profile)
        return then.state.ends_by_topic
    return None if call.request.as_of is None else (await call.then()).state.ends_by_topic


async def _events(
    changes: AsyncGenerator[Seen, None], call: Call, *, records: bool
) -> AsyncIterator[bytes]:
    wanted = call.asked("connector")
    async with aclosing(changes):
        waiting: asyncio.Task[Seen] | None = asyncio.ensure_future(anext(changes))
        try:
            await asyncio.sleep(0)  # by then he has joined: whatever happens now, he hears of it
            yield b": watching\n\n"
            while True:
                waiting = waiting or asyncio.ensure_future(anext(changes))
                done, _ = await asyncio.wait([waiting], timeout=SILENCE_S)
                if not done:
                    yield b": nothing new\n\n"
                    continue
                one, waiting = waiting.result(), None
                told = wanted in (None, one.change.connector)
                yield _event(one, _document(one, record=records) if told else None)
        except (TooSlow, LogError) as error:
            yield _told("error", {"message": str(error)})
        except StopAsyncIteration:
            yield _told("end", {"message": "nothing will change any more"})
        finally:
            if waiting is not None:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)


def _event(one: Seen, document: dict[str, Any] | None) -> bytes:
    """A change on the wire; only its `id`, where it is not asked for."""
    place = b""
    if one.ends is not None:
        place = b"id: " + msgspec.json.encode({k: list(v) for k, v in one.ends.items()}) + b"\n"
    if document is None:
        return place and place + b"\n"
    return place + _told("change", document)


def _told(kind: str, told: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(told, ensure_ascii=True)}\n\n".encode("ascii")


def _document(one: Seen, *, record: bool) -> dict[str, Any]:
    """A change as JSON. The record comes once, with its last change, and only if asked for."""
    change = one.change
    before, after = (
        plain(shown(change.aspect, change.item, value)) for value in (change.before, change.after)
    )
    whole = record and one.ends is not None
    return {
        "connector": change.connector,
        "aspect": change.aspect.value,
        "item": change.item,
        "before": before,
        "after": after,
        "record": document(one.entry) if whole else reference(one.entry),
    }
