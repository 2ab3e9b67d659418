"""`GET /targets`: what connectors were told to be, whether or not a worker has followed."""

from controlplane.core import views
from controlplane.core.records import Target
from controlplane.rest.calls import Call
from controlplane.rest.entities import TARGETS
from controlplane.rest.errors import OK, Answer


async def show_targets(call: Call) -> Answer:
    """The target state of each connector; `connector=` chooses one.

    In the words of `initial_state` (KIP-980). Connect has them in its log, and shows them nowhere.
    """
    state, notices = await call.then()
    only = call.asked("connector")
    names = [name for name in views.connectors(state) if only in {None, name}]
    targets = {name: views.target(state, name) or Target.STARTED for name in names}
    told = {"targets": {name: TARGETS[target] for name, target in targets.items()}}
    return Answer(OK, told, pure=call.request.as_of is None).noticed(notices)
