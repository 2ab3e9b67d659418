"""`GET /diff`: differences between two moments."""

from collections.abc import Callable
from functools import partial
from typing import Any

from controlplane.core.state import ClusterState
from controlplane.core.text import value_text
from controlplane.core.views.diff import Change, diff, differences, is_known
from controlplane.event_loop import in_thread
from controlplane.rest.errors import OK, Answer, InvalidParameter, NotFound
from controlplane.rest.extensions.pagination import Page
from controlplane.rest.requests import Call


async def show_differences(call: Call) -> Answer:
    """List every fact that differs between `from=` and `as_of=` (default: now), secrets hidden.

    `connector=` selects one connector; `limit=` and `after=` select the page.

    Raises:
        InvalidParameter: `from=` is missing.
        NotFound: neither state has the connector.
        UnknownMoment: the log has nothing at one of the moments.
    """
    begin = call.moment("from")
    if not begin:
        raise InvalidParameter(
            "from= is missing: give the moment to compare with, such as from=config@57"
        )
    page: Page[Change] = Page(call, _row_key, shared_keys=True)
    before = await call.service.follower.state_at(begin, call.profile)
    after = await call.requested_state()
    await in_thread(partial(_fill, page, before.state, after.state, call.parameter("connector")))
    page.check_after()
    shown = {"profile": call.profile.release, "changes": page.rows, "next": page.next}
    return Answer(OK, shown).with_notices((*before.notices, *after.notices))


def _fill(
    page: Page[Change],
    before: ClusterState,
    after: ClusterState,
    connector: str | None,
    has_left: Callable[[], bool],
) -> None:
    """Fill a page with the differences until it is full or the client has left."""
    for change in _changes(before, after, connector):
        if page.is_in(change):
            row = _document(change)
            page.put(row, len(value_text.json_line(row)))
        elif page.next is not None:
            return
        if has_left():
            return


def _changes(before: ClusterState, after: ClusterState, name: str | None) -> Any:
    """Return the changes of all connectors one by one, or of one connector."""
    if name is None:
        return differences(before, after)
    if not (is_known(before, name) or is_known(after, name)):
        raise NotFound(f"Connector {name} exists at neither of the two moments")
    return diff(before, after, name)


def _row_key(change: Change) -> str:
    return f"{change.connector}/{change.aspect.value}/{change.item}"


def _document(change: Change) -> dict[str, Any]:
    aspect, item = change.aspect, change.item
    return {
        "connector": change.connector,
        "aspect": aspect.value,
        "item": value_text.item(aspect, item),
        "before": value_text.json_value(aspect, item, change.before),
        "after": value_text.json_value(aspect, item, change.after),
        "words": value_text.change(aspect, item, change.before, change.after),
        "record": None if change.cause is None else change.cause._asdict(),
    }
