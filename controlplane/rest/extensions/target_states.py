"""`GET /targets`: requested target states, whether or not a worker has followed."""

from controlplane.core import views
from controlplane.core.records import Target
from controlplane.event_loop import sliced
from controlplane.rest.endpoints.entities import TARGETS
from controlplane.rest.errors import OK, Answer
from controlplane.rest.extensions.pagination import Page
from controlplane.rest.requests import Call


async def show_targets(call: Call) -> Answer:
    """Return the target state of each connector, by name; `connector=` selects one.

    `limit=` and `after=` (a connector) select the page. The values are those of `initial_state`
    (KIP-980). Connect stores target states in its log, but none of its endpoints shows them.
    """
    state, notices = await call.requested_state()
    selected = call.parameter("connector")
    names = [name for name in views.connectors(state) if selected in {None, name}]
    page: Page[str] = Page(call, str)
    async for name in sliced(names):
        if page.is_in(name):
            target = views.target(state, name) or Target.STARTED
            page.put((name, TARGETS[target]), len(name))
        elif page.next is not None:
            break
    page.check_after()
    shown = {"targets": dict(page.rows), "next": page.next}
    return Answer(OK, shown, pure=call.request.as_of is None).with_notices(notices)
