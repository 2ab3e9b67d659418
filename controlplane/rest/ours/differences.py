"""`GET /diff`: what differs between two moments, as facts of the core."""

from collections.abc import Callable
from functools import partial
from typing import Any

from controlplane.core import shown
from controlplane.core.diff import Change, diff, differences, is_known
from controlplane.core.state import ClusterState
from controlplane.event_loop import in_thread
from controlplane.rest.calls import Call
from controlplane.rest.errors import OK, Answer, BadQuestion, NotFound
from controlplane.rest.ours.pages import Page


async def show_differences(call: Call) -> Answer:
    """Every fact that differs between `from=` and `as_of=` (default: now), secrets hidden.

    `connector=` chooses one connector; `limit=` and `after=` page.

    Raises:
        BadQuestion: `from=` is missing.
        NotFound: neither state knows the connector.
        UnknownMoment: the log has nothing at one of the moments.
    """
    begin = call.asked("from")
    if not begin:
        raise BadQuestion("from= is missing: give the moment to compare with, e.g. from=config@57")
    page: Page[Change] = Page(call, _place)
    before = await call.service.follower.state_at(begin, call.profile)
    after = await call.then()
    await in_thread(partial(_fill, page, before.state, after.state, call.asked("connector")))
    page.check_begun()
    told = {"profile": call.profile.release, "changes": page.rows, "next": page.next}
    return Answer(OK, told).noticed((*before.notices, *after.notices))


def _fill(
    page: Page[Change],
    before: ClusterState,
    after: ClusterState,
    connector: str | None,
    left: Callable[[], bool],
) -> None:
    """Fill a page with the differences until it is full or the client has left."""
    for change in _changes(before, after, connector):
        if page.is_in(change):
            row = _document(change)
            page.put(row, len(shown.json_line(row)))
        elif page.next is not None:
            return
        if left():
            return


def _changes(before: ClusterState, after: ClusterState, name: str | None) -> Any:
    """Changes of all connectors one by one, or of one connector."""
    if name is None:
        return differences(before, after)
    if not (is_known(before, name) or is_known(after, name)):
        raise NotFound(f"There is no connector {name}, neither then nor at the end")
    return diff(before, after, name)


def _place(change: Change) -> str:
    return f"{change.connector}/{change.aspect.value}/{change.item}"


def _document(change: Change) -> dict[str, Any]:
    aspect, item = change.aspect, change.item
    return {
        "connector": change.connector,
        "aspect": aspect.value,
        "item": shown.item(aspect, item),
        "before": shown.shown(aspect, item, change.before),
        "after": shown.shown(aspect, item, change.after),
        "words": shown.change(aspect, item, change.before, change.after),
        "record": None if change.cause is None else change.cause._asdict(),
    }
