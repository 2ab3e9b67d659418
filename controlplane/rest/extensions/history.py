"""`GET /connectors/{c}/history` and `POST /connectors/{c}/undo`: past changes and their undo."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from controlplane.core.commands import RestoreConnector
from controlplane.core.decide.undo import restoration
from controlplane.core.entry import Entry, Position
from controlplane.core.moments import UnknownMoment, position_text, read_position
from controlplane.core.state import ClusterState, Topics
from controlplane.core.text.record_text import document
from controlplane.core.text.value_text import json_line
from controlplane.core.views.history import HistoryEvent, HistoryFold
from controlplane.core.views.history_text import event_document
from controlplane.event_loop import in_thread
from controlplane.logs.log import ReadableLog
from controlplane.projection.past_states import cut_at, read_records
from controlplane.rest.errors import OK, Answer, InvalidParameter, NotFound
from controlplane.rest.extensions.pagination import Page
from controlplane.rest.requests import Call


async def show_history(call: Call) -> Answer:
    """List every change of a connector with the position of its record, the oldest first.

    Secrets are hidden. `limit=` and `after=` select the page; `after=` is the previous page's
    `next`, or any record. `records=true` adds the records of these changes, each once.

    Raises:
        NotFound: no record concerns the connector.
        UnknownMoment: the log does not have the record `after=`.
    """
    (name,) = call.names
    log = call.service.log
    with_records = call.flag("records")
    state, notices = await call.requested_state()
    records = await read_records(log, state, name)
    if not records:
        raise NotFound(f"No record of this log concerns connector {name}")
    page: Page[HistoryEvent] = Page(
        call,
        lambda event: position_text(event.entry.position, state.topics),
        lambda after: _normalized(after, state.topics),
        await _known_changes(call, log, state, records),
        shared_keys=True,
    )
    fold = HistoryFold(name, state.profile, state.topics)
    changed = await in_thread(partial(_fill, page, records, fold, with_records=with_records))
    page.check_after()
    shown: dict[str, Any] = {
        "connector": name,
        "profile": state.profile.release,
        "events": page.rows,
        "next": page.next,
    }
    if with_records:
        shown["records"] = await in_thread(partial(_documents, changed))
    return Answer(OK, shown).with_notices(notices)


async def _known_changes(
    call: Call, log: ReadableLog, state: ClusterState, records: Sequence[Entry]
) -> Callable[[HistoryEvent], bool] | None:
    """Return a test for changes up to the position `after=`; None if the page needs no test.

    The page needs none if `after=` is missing. If `after=` names one of the connector's `records`,
    the page finds the row by its key.
    """
    after = call.parameter("after")
    position = None if after is None else _position(after, state.topics)
    if after is None or position is None or any(entry.position == position for entry in records):
        return None
    support = state.exactly_once
    cut = await cut_at(log, after, state.topics, state.ends_by_topic, exactly_once=support)
    ends = cut.ends

    def is_known(change: HistoryEvent) -> bool:
        topic, partition, offset = change.entry.position
        topic_ends = ends.get(topic, ())
        return partition < len(topic_ends) and offset < topic_ends[partition]

    return is_known


def _fill(
    page: Page[HistoryEvent],
    records: list[Entry],
    fold: HistoryFold,
    has_left: Callable[[], bool],
    *,
    with_records: bool,
) -> list[Entry]:
    """Fill a page with changes until it is full or the client has left; return their records."""
    changed: dict[Position, Entry] = {}
    for entry, event in _changes(records, fold):
        if event is None:
            page.end_key(position_text(entry.position, fold.topics))
        elif page.is_in(event):
            shown = event_document(event, fold.topics)
            is_new = with_records and entry.position not in changed
            page.put(shown, len(json_line(shown)) + (len(entry.value or b"") if is_new else 0))
            changed[entry.position] = entry
        elif page.next is not None:
            break
        if has_left():
            break
    return list(changed.values())


def _changes(
    records: Iterable[Entry], fold: HistoryFold
) -> Iterator[tuple[Entry, HistoryEvent | None]]:
    """Yield each record's changes, then None for the end of that record."""
    for entry in records:
        for event in fold.apply(entry):
            yield entry, event
        yield entry, None


def _documents(records: Iterable[Entry], has_left: Callable[[], bool]) -> list[Any]:
    """Return the records as JSON until the client leaves: a large one takes long."""
    return [document(entry) for entry in records if not has_left()]


def _normalized(after: str, topics: Topics) -> str:
    """Return a position as answers write it: `config@57` for `connect-configs@57`.

    A text that is no position stays as it is.
    """
    position = _position(after, topics)
    return after if position is None else position_text(position, topics)


def _position(after: str, topics: Topics) -> Position | None:
    try:
        return read_position(after, topics)
    except UnknownMoment:
        return None


async def undo_command(call: Call) -> RestoreConnector:
    """Return the command that restores a connector as of `to=`, with its offsets on request.

    Raises:
        InvalidParameter: `to=` is missing.
        UnknownMoment: the log has nothing there.
        NotFound: the connector exists neither then nor now.
    """
    (name,) = call.names
    moment = call.moment("to")
    if not moment:
        raise InvalidParameter("to= is missing: give the moment to restore, such as to=config@57")
    offsets = call.flag("offsets")
    if (repeated := _repeated(call, name, moment, offsets=offsets)) is not None:
        return repeated
    follower = call.service.follower
    then = (await follower.state_at(moment, call.profile)).state
    now = await follower.state(call.profile)
    if name not in then.config.connectors and name not in now.config.connectors:
        raise NotFound(f"Connector {name} exists neither at {moment} nor now")
    return restoration(then, name, offsets=offsets, moment=moment)


def _repeated(call: Call, name: str, moment: str, *, offsets: bool) -> RestoreConnector | None:
    """Return the undo that the request's idempotency key stands for, if it is the same request.

    The undo is not computed again: the log may have lost that moment, and the connector may be
    gone.
    """
    commands = call.service.commands
    if commands is None or call.key is None:
        return None
    earlier = commands.command_of(call.key)
    if not isinstance(earlier, RestoreConnector):
        return None
    first = earlier.connector, earlier.moment, earlier.offsets is not None
    return earlier if first == (name, moment, offsets) else None
