"""Next writes of an older worker while both releases run, and their effect on each release.

`decide` makes the records for the older release: the same bytes that its worker would write.
"""

from collections.abc import Iterator

import msgspec

from controlplane.core.commands import PauseConnector, ResumeConnector
from controlplane.core.context import Context
from controlplane.core.decide import decide
from controlplane.core.decide.prediction import predicted_state
from controlplane.core.plan import Draft, Plan
from controlplane.core.state import ClusterState, part_of
from replay.compat.release_change import ReleaseChange
from replay.compat.worker_views import ReleaseView, view

_REQUESTS: tuple[tuple[str, type[PauseConnector | ResumeConnector]], ...] = (
    ("pause", PauseConnector),
    ("resume", ResumeConnector),
)
"""Requests that any worker performs itself; all other writes of configs go to the leader."""


class InterimWrite(msgspec.Struct, frozen=True):
    """Request to an older worker, and its effect."""

    request: str
    records: tuple[Draft, ...]
    older: ReleaseView
    newer: ReleaseView


def next_writes(older: ClusterState, newer: ClusterState, name: str) -> Iterator[InterimWrite]:
    """Yield the records that the older release writes for requests about a connector."""
    states = _alone(older, name), _alone(newer, name)
    for request, command in _REQUESTS:
        decision = decide(states[0], command(name), Context(profile=older.profile))
        if isinstance(decision, Plan):
            records = tuple(draft for step in decision.steps for draft in step.records)
            after = (view(predicted_state(state, decision), name) for state in states)
            yield InterimWrite(request, records, *after)


def _alone(state: ClusterState, name: str) -> ClusterState:
    """State restricted to one connector, so that predictions are cheap."""
    return msgspec.structs.replace(
        state,
        config=part_of(state.config, name),
        status=part_of(state.status, name),
        offsets={},
        causes={},
        changed={},
        unreadable={},
        unreadable_counts={},
    )


_NONE = "is answered 404"

ENDPOINTS: tuple[tuple[str, str], ...] = (
    ("stops", f"PUT /connectors/{{c}}/stop {_NONE}"),
    ("rest_offsets", f"GET /connectors/{{c}}/offsets {_NONE}"),
    ("alters_offsets", "PATCH and DELETE /connectors/{c}/offsets are answered 404 or 405"),
    ("rest_topics", f"GET /connectors/{{c}}/topics {_NONE}"),
    ("rest_tasks_config", f"GET /connectors/{{c}}/tasks-config {_NONE}"),
    ("rest_all_plugins", f"GET /connector-plugins/{{p}}/config {_NONE}"),
    ("rest_loggers", f"GET and PUT /admin/loggers {_NONE.replace('is', 'are')}"),
    ("rest_health", f"GET /health {_NONE}"),
    ("patches_configs", "PATCH /connectors/{c}/config is answered 405"),
)
"""Endpoints that some releases lack, and the response of a worker without them."""

WHILE_MIXED: tuple[tuple[str, str], ...] = (
    ("creates_in_state", "POST /connectors with initial_state is refused"),
    ("restart_requests", "a restart with includeTasks or onlyFailed is treated as a plain one"),
)
"""Requests that only the newer release knows, each with its result. The result is that of an older
worker, which receives the request, or handles it as the leader."""


def remarks(roll: ReleaseChange) -> Iterator[str]:
    """Yield features that fail while both releases run, or afterwards."""
    older, newer = roll.older.release, roll.newer.release
    if roll.mixed:
        for field, effect in (*ENDPOINTS, *WHILE_MIXED):
            if roll.gains(field):
                yield (
                    f"while both releases run, {effect} if a worker of {older} receives the "
                    "request, or handles it as the leader"
                )
        for field, effect in ENDPOINTS:
            if roll.loses(field):
                yield (
                    f"while both releases run, {effect} if a worker of {newer} receives the request"
                )
    for field, effect in ENDPOINTS:
        if getattr(roll.start, field) and not getattr(roll.goal, field):
            yield f"once all workers run {roll.goal.release}, {effect}"


def interim_remark(roll: ReleaseChange) -> str:
    """Reported states of running instances while their worker is replaced."""
    return (
        f"a stopping worker of {roll.start.release} reports its connectors and tasks UNASSIGNED, "
        "except FAILED ones. They stay UNASSIGNED until the next worker reports RUNNING, PAUSED or "
        "STOPPED"
    )
