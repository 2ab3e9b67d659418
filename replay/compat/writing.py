"""What an older worker writes next, while both releases live, and what each then reads.

The records are those that `decide` makes for the release: the same bytes that its worker writes.
"""

from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec

from controlplane.core.commands import PauseConnector, ResumeConnector
from controlplane.core.context import Context
from controlplane.core.decide import decide
from controlplane.core.decide.ahead import ahead
from controlplane.core.plan import Draft, Plan
from controlplane.core.state import ClusterState, ConfigState, StatusState
from replay.compat.rolls import Roll
from replay.compat.views import View, view

_Part = TypeVar("_Part", ConfigState, StatusState)

_ASKED: tuple[tuple[str, type[PauseConnector | ResumeConnector]], ...] = (
    ("pause", PauseConnector),
    ("resume", ResumeConnector),
)
"""What any worker writes itself when it is asked; all else is the leader's."""


class Written(msgspec.Struct, frozen=True):
    """One request to an older worker, and what comes of it."""

    request: str
    records: tuple[Draft, ...]
    older: View
    newer: View


def next_writes(older: ClusterState, newer: ClusterState, name: str) -> Iterator[Written]:
    """What the older release writes of a connector when it is asked to."""
    states = _alone(older, name), _alone(newer, name)
    for request, command in _ASKED:
        decision = decide(states[0], command(name), Context(profile=older.profile))
        if isinstance(decision, Plan):
            records = tuple(draft for step in decision.steps for draft in step.records)
            after = (view(ahead(state, decision), name) for state in states)
            yield Written(request, records, *after)


def _alone(state: ClusterState, name: str) -> ClusterState:
    """A state that knows of no other connector: to go on from it costs no more than that."""
    return msgspec.structs.replace(
        state,
        config=_only(state.config, name),
        status=_only(state.status, name),
        offsets={},
        causes={},
        changed={},
        unreadable={},
        unreadable_counts={},
    )


def _only(part: _Part, name: str) -> _Part:
    """The tables of a part, each with this one connector."""
    tables = {field: getattr(part, field) for field in part.__struct_fields__}
    only = {
        field: {name: table[name]} if name in table else {}
        for field, table in tables.items()
        if isinstance(table, Mapping)
    }
    return msgspec.structs.replace(part, **only)


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
"""Endpoints that not every release has, and what a worker without one answers."""

WHILE_MIXED: tuple[tuple[str, str], ...] = (
    ("creates_in_state", "POST /connectors with initial_state is refused"),
    ("restart_requests", "a restart with includeTasks or onlyFailed is taken for a plain one"),
)
"""Requests that only the newer release understands, and what becomes of them while a worker of the
older one leads, or is asked."""


def remarks(roll: Roll) -> Iterator[str]:
    """What no longer works, or not yet, while both releases live and afterwards."""
    if roll.mixed:
        for field, what in (*ENDPOINTS, *WHILE_MIXED):
            if roll.gains(field):
                yield f"while a worker of {roll.older.release} leads or is asked, {what}"
        for field, what in ENDPOINTS:
            if roll.loses(field):
                yield f"while a worker of {roll.newer.release} is asked, {what}"
    for field, what in ENDPOINTS:
        if getattr(roll.start, field) and not getattr(roll.goal, field):
            yield f"when all workers are of {roll.goal.release}, {what}"


def interim(roll: Roll) -> str:
    """What is reported of everything that runs while its worker is changed."""
    return (
        f"a worker of {roll.start.release} that ends reports its connectors and tasks UNASSIGNED, "
        "unless they have FAILED: they are shown so until the next worker reports them "
        "(RUNNING, PAUSED or STOPPED)"
    )
