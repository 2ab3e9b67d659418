"""View of a connector by a worker of one release: visible state, and future reports."""

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
"""Reports of a worker after it has applied a target state (`WorkerConnector#doTransitionTo`)."""


class ReleaseView(msgspec.Struct, frozen=True):
    """A connector in the state of a worker of one release."""

    release: str
    configured: bool
    target: str | None
    """Target state; None if the release has none."""
    tasks: int | None
    """Number of tasks to run; None if the worker fails to count them."""
    inconsistent: bool
    reported: str | None
    """Visible connector state; None if there is none (404)."""
    task_states: Mapping[int, str]
    """Visible states of tasks."""
    meanwhile: str | None
    """State that the ending worker reports before the next one reports `will_report`; None: no
    report."""
    will_report: str | None
    """State that a worker reports once it runs the connector without failures."""


def view(state: ClusterState, name: str) -> ReleaseView:
    """View of a connector in a state."""
    config, status = state.config, state.status
    reported, target = status.connectors.get(name), config.targets.get(name)
    configured = name in config.connectors
    return ReleaseView(
        state.profile.release,
        configured,
        None if target is None else target.value,
        _tasks(state, name),
        name in config.inconsistent,
        None if reported is None else reported.state.value,
        {
            task: task_status.state.value
            for task, task_status in sorted(status.tasks.get(name, {}).items())
        },
        _meanwhile(state, name),
        _REPORTS[target or Target.STARTED].value if configured and state.profile.statuses else None,
    )


def _meanwhile(state: ClusterState, name: str) -> str | None:
    """UNASSIGNED; None without a config or a status, or if the connector has failed."""
    reported = state.status.connectors.get(name)
    if name not in state.config.connectors or reported is None or reported.state is State.FAILED:
        return None
    return State.UNASSIGNED.value


def _tasks(state: ClusterState, name: str) -> int | None:
    try:
        return len(views.task_ids(state, name))
    except views.ReadFailed:
        return None
