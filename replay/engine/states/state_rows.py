"""States as rows, one per connector, without secrets: the output of `replay state`."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from controlplane.core import views
from controlplane.core.entry import Position
from controlplane.core.java import json_codec
from controlplane.core.records import Status
from controlplane.core.state import ClusterState
from controlplane.core.text.redaction import redacted, redacted_text, redacted_value
from controlplane.core.text.safe_text import count, utf8_text
from controlplane.core.topics.source_partitions import OffsetsByConnector

SCHEMA = pa.schema(
    [
        ("cluster", pa.string()),
        ("release", pa.string()),
        ("connector", pa.string()),
        ("config", pa.string()),
        ("target_state", pa.string()),
        ("tasks", pa.int64()),
        ("inconsistent", pa.bool_()),
        ("status", pa.string()),
        ("task_status", pa.string()),
        ("offsets", pa.string()),
        ("remarks", pa.list_(pa.string())),
        ("order_dependent", pa.list_(pa.string())),
    ]
)
"""Arrow schema of the rows; nested values are JSON text."""

UNREADABLE_LISTED = 100
"""Unreadable records that are listed with a reason; further ones are counted only."""


class ConnectorRow(msgspec.Struct, frozen=True):
    """Connector in the state of one release."""

    cluster: str
    release: str
    connector: str
    config: dict[str, Any] | None
    """None if the connector has no config."""
    target_state: str | None
    tasks: int | None
    """None without a config, or if the worker fails to count the tasks."""
    inconsistent: bool
    status: dict[str, Any] | None
    task_status: dict[int, dict[str, Any]]
    offsets: list[dict[str, Any]]
    remarks: tuple[str, ...]
    """Errors of reading its tasks, half-done changes, and unusable source offsets."""
    order_dependent: tuple[str, ...] = ()
    """Facts that depend on the order in which a worker reads partitions."""


def rows(cluster: str, state: ClusterState, wanted: Iterable[str] = ()) -> Iterator[ConnectorRow]:
    """Connectors of a state by name; only the wanted ones, if any are named."""
    halves: dict[str, list[str]] = {}
    for name, half in views.half_done(state):
        halves.setdefault(name, []).append(half.value)
    names = {*views.connectors(state), *halves}
    only = set(wanted)
    offsets = OffsetsByConnector(state)
    for name in sorted(names & only if only else names):
        yield _row(cluster, offsets.state_of(name), name, tuple(halves.get(name, ())))


def _row(cluster: str, state: ClusterState, name: str, remarks: tuple[str, ...]) -> ConnectorRow:
    config = state.config.connectors.get(name)
    target = views.target(state, name)
    tasks, trouble = _tasks(state, name) if config is not None else (None, ())
    reported = state.status.tasks.get(name, {})
    offsets = views.all_source_offsets(state, name)
    return ConnectorRow(
        cluster,
        state.profile.release,
        name,
        None if config is None else redacted(config),
        target.value if target else None,
        tasks,
        name in state.config.inconsistent,
        _status(state.status.connectors.get(name)),
        {
            task: shown
            for task, task_status in sorted(reported.items())
            if (shown := _status(task_status))
        },
        [
            {"partition": redacted_value("", view.partition), "offset": _offset(view.offset)}
            for view in offsets.shown
        ],
        (*trouble, *remarks, *_left_out(offsets.left_out)),
    )


def _tasks(state: ClusterState, name: str) -> tuple[int | None, tuple[str, ...]]:
    try:
        return len(views.task_ids(state, name)), ()
    except views.ReadFailed as error:
        return None, (f"reading its tasks fails: {error}",)


def _left_out(offsets: list[views.UnreadableOffset]) -> Iterator[str]:
    if offsets:
        first = redacted_text(offsets[0].reason)
        yield f"{count(len(offsets), 'unusable source offset')}: {first}"


def _offset(offset: Any) -> Any:
    return None if offset is None else redacted_value("", offset)


def _status(status: Status | None) -> dict[str, Any] | None:
    if status is None:
        return None
    trace = status.trace and redacted_text(status.trace)
    return views.status_fields(status) | {"trace": trace}


class UnreadableCounts(NamedTuple):
    """Config, status and command records that a worker could not use."""

    number: int
    """Number of them; for statuses only those that no later record replaces."""
    records: list[tuple[Position, str]]
    """The first of them with a reason, without secrets."""


def unreadable(state: ClusterState) -> UnreadableCounts:
    """Collect unusable records. Problems of offsets are remarks of their rows."""
    first = sorted(state.unreadable.items())[:UNREADABLE_LISTED]
    return UnreadableCounts(state.unreadable_count, [(at, redacted_text(why)) for at, why in first])


def table_of(connector_rows: Iterable[ConnectorRow]) -> pa.Table:
    """Rows as a table; half surrogate pairs, which Arrow text cannot hold, become escapes."""
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    for row in connector_rows:
        for name in SCHEMA.names:
            columns[name].append(_cell(getattr(row, name)))
    return pa.table(columns, schema=SCHEMA)


def _cell(value: Any) -> Any:
    if isinstance(value, dict):
        return json_codec.encode({str(key): item for key, item in value.items()}).decode()
    if isinstance(value, list):
        return json_codec.encode(value).decode()
    if isinstance(value, str):
        return utf8_text(value)
    return value
