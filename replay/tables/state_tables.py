"""Rows of the tables of a state: connectors, tasks, offsets, statuses and topics."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa

from controlplane.core import views
from controlplane.core.records import Status
from controlplane.core.state import ClusterState, Topics
from controlplane.core.text.redaction import redacted, redacted_text
from controlplane.core.text.safe_text import utf8_text
from replay.tables.cells import RowDocument, batches, text_map
from replay.tables.offset_batches import offset_batches
from replay.tables.offset_rows import OFFSET_COLUMNS, offset_rows

OrderFacts = Mapping[str, Sequence[str]]
"""Facts that depend on the order between partitions, by connector.

Half surrogate pairs in the names are escapes (`utf8_text`).
"""

StateRows = Callable[[ClusterState, OrderFacts | None], Iterable[RowDocument]]
"""Makes the rows of a table, without the columns that all tables have."""

BatchMaker = Callable[[pa.Schema, ClusterState, RowDocument], Iterator[pa.RecordBatch]]
"""Makes the rows of a table as batches; the last argument has the columns with one value."""


class StateTable(NamedTuple):
    """Table of a state: its rows, and the topics that it is folded from."""

    rows: StateRows
    topics: Callable[[Topics, Sequence[str]], list[str]]
    """Selects the table's topics, from the names of Connect's topics and the topics of a plan."""
    columns: BatchMaker | None = None
    """Makes the rows as batches, without an object for each; None: the table is small."""

    def of(
        self, cluster: str, state: ClusterState, order: OrderFacts | None = None
    ) -> Iterator[RowDocument]:
        """Rows of a state; `order` is None if facts that depend on the order were not searched."""
        head = _head(cluster, state)
        for row in self.rows(state, order):
            yield head | row

    def batches(
        self,
        schema: pa.Schema,
        cluster: str,
        state: ClusterState,
        order: OrderFacts | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a state as batches; `schema` has all columns of the table, or some of them."""
        if self.columns is None:
            return batches(schema, self.of(cluster, state, order))
        return self.columns(schema, state, _head(cluster, state))


def _head(cluster: str, state: ClusterState) -> RowDocument:
    """Columns that all tables have."""
    return {"cluster": cluster, "release": state.profile.release}


def _connectors(state: ClusterState, order: OrderFacts | None) -> Iterator[RowDocument]:
    remarks: dict[str, list[str]] = {}
    for name, half in views.half_done(state):
        remarks.setdefault(name, []).append(half.value)
    for name in sorted({*views.connectors(state), *remarks}):
        config = state.config.connectors.get(name)
        target, report = views.target(state, name), state.status.connectors.get(name)
        tasks, trouble = _task_count(state, name) if config is not None else (None, [])
        properties = None if config is None else text_map(redacted(config))
        yield {
            "connector": utf8_text(name),
            "class": dict(properties or ()).get("connector.class"),
            "config": properties,
            "target_state": target.value if target else None,
            "tasks": tasks,
            "inconsistent": name in state.config.inconsistent,
            "state": report.state.value if report else None,
            "worker": _worker(report),
            "remarks": [*trouble, *remarks.get(name, ())],
            "order_dependent": None if order is None else list(order.get(utf8_text(name), ())),
        }


def _task_count(state: ClusterState, name: str) -> tuple[int | None, list[str]]:
    try:
        return len(views.task_ids(state, name)), []
    except views.ReadFailed as error:
        return None, [f"reading its tasks fails: {error}"]


def _tasks(state: ClusterState, _: OrderFacts | None) -> Iterator[RowDocument]:
    for name in views.connectors(state):
        try:
            configs = views.task_configs(state, name)
        except views.ReadFailed:
            # A worker cannot list these tasks, as the table `connectors` says. The known configs
            # still become rows.
            configs = {**state.config.tasks.get(name, {})}
        for task, config in sorted(configs.items()):
            properties = None if config is None else text_map(redacted(config))
            yield {"connector": utf8_text(name), "task": task, "config": properties}


def _offsets(state: ClusterState, _: OrderFacts | None) -> Iterator[RowDocument]:
    return (dict(zip(OFFSET_COLUMNS, row, strict=True)) for row in offset_rows(state))


def _statuses(state: ClusterState, _: OrderFacts | None) -> Iterator[RowDocument]:
    reported = state.status
    for name in sorted({*reported.connectors, *reported.tasks}):
        if name in reported.connectors:
            yield _status(name, None, reported.connectors[name])
        for task, report in sorted(reported.tasks.get(name, {}).items()):
            yield _status(name, task, report)


def _status(name: str, task: int | None, report: Status) -> RowDocument:
    return {
        "connector": utf8_text(name),
        "task": task,
        "state": report.state.value,
        "worker": _worker(report),
        "generation": report.generation,
        "version": None if report.version is None else utf8_text(report.version),
        "trace": None if report.trace is None else utf8_text(redacted_text(report.trace)),
    }


def _worker(report: Status | None) -> str | None:
    return None if report is None or report.worker_id is None else utf8_text(report.worker_id)


def _topics(state: ClusterState, _: OrderFacts | None) -> Iterator[RowDocument]:
    for name, used in sorted(state.status.active_topics.items()):
        for topic, activity in sorted(used.items()):
            yield {
                "connector": utf8_text(name),
                "topic": utf8_text(topic),
                "task": activity.task,
                "discovered_ms": activity.discovered_at_ms,
            }


def _of_config_and_status(topics: Topics, _: Sequence[str]) -> list[str]:
    return [topics.config, topics.status]


def _of_config(topics: Topics, _: Sequence[str]) -> list[str]:
    return [topics.config]


def _of_status(topics: Topics, _: Sequence[str]) -> list[str]:
    return [topics.status]


def _of_config_and_offsets(topics: Topics, planned: Sequence[str]) -> list[str]:
    return [topic for topic in planned if topic not in (topics.status, topics.commands)]


CONNECTORS_TABLE = "connectors"
"""Table whose rows have the facts that depend on the order between partitions."""

STATE_TABLES: Mapping[str, StateTable] = MappingProxyType(
    {
        CONNECTORS_TABLE: StateTable(_connectors, _of_config_and_status),
        "tasks": StateTable(_tasks, _of_config),
        "offsets": StateTable(_offsets, _of_config_and_offsets, offset_batches),
        "statuses": StateTable(_statuses, _of_status),
        "topics": StateTable(_topics, _of_status),
    }
)
"""Tables of a state, by the names of `schemas.STATE_SCHEMAS`."""
