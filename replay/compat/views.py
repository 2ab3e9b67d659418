"""What a worker of one release makes of a connector: what it shows now, and will report itself."""

from collections.abc import Mapping

import msgspec

from controlplane.core import views
from controlplane.core.records import State, Target
from controlplane.core.state import ClusterState

_REPORTS: Mapping[Target, State] = {
    Target.STARTED: State.RUNNING,
    Target.PAUSED: State.PAUSED,
    Target.STOPPED: State.STOPPED,
}
"""What a worker reports of a connector that it has brought where it is wanted
(`WorkerConnector#doTransitionTo`)."""


class View(msgspec.Struct, frozen=True):
    """A connector, as a worker of one release has it after reading the log."""

    release: str
    configured: bool
    target: str | None
    """What is wanted of it; None: the release knows nothing of that."""
    tasks: int | None
    """How many tasks it is to run; None: the worker fails when it is asked."""
    inconsistent: bool
    reported: str | None
    """The state that the worker shows; None: none (404)."""
    task_states: Mapping[int, str]
    """The states of its tasks that the worker shows."""
    meanwhile: str | None
    """The state that its worker reports when it ends, before another worker reports `will_report`;
    None: it reports nothing."""
    will_report: str | None
    """What the worker reports once it runs the connector, if nothing fails."""


def view(state: ClusterState, name: str) -> View:
    """One connector as one release reads the log."""
    config, status = state.config, state.status
    reported, wanted = status.connectors.get(name), config.targets.get(name)
    configured = name in config.connectors
    return View(
        state.profile.release,
        configured,
        None if wanted is None else wanted.value,
        _tasks(state, name),
        name in config.inconsistent,
        None if reported is None else reported.state.value,
        {task: one.state.value for task, one in sorted(status.tasks.get(name, {}).items())},
        _meanwhile(state, name),
        _REPORTS[wanted or Target.STARTED].value if configured and state.profile.statuses else None,
    )


def _meanwhile(state: ClusterState, name: str) -> str | None:
    """UNASSIGNED, unless nothing is reported of the connector, or its failure."""
    reported = state.status.connectors.get(name)
    if name not in state.config.connectors or reported is None or reported.state is State.FAILED:
        return None
    return State.UNASSIGNED.value


def _tasks(state: ClusterState, name: str) -> int | None:
    try:
        return len(views.task_ids(state, name))
    except views.ReadFailed:
        return None
