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


WHILE_MIXED: tuple[tuple[str, str], ...] = (
    ("stops", "PUT /connectors/{c}/stop is answered 404"),
    ("alters_offsets", "PATCH and DELETE /connectors/{c}/offsets are answered 404 or 405"),
    ("creates_in_state", "POST /connectors with initial_state is refused"),
    ("patches_configs", "PATCH /connectors/{c}/config is answered 405"),
    ("restart_requests", "a restart with includeTasks or onlyFailed is taken for a plain one"),
    ("rest_topics", "GET /connectors/{c}/topics is answered 404"),
)
"""Requests that only the newer release knows, and what becomes of them while a worker of the older
one leads, or is asked."""


def remarks(older: ClusterState, newer: ClusterState) -> Iterator[str]:
    """What no longer works, or not yet, while both releases live."""
    new, old = newer.profile, older.profile
    for field, what in WHILE_MIXED:
        if getattr(new, field) and not getattr(old, field):
            yield f"while a worker of {old.release} leads or is asked, {what}"
