"""Runs of table queries, cluster by cluster; unreadable clusters are skipped or raised."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from controlplane.core.text.safe_text import utf8_text
from replay.cluster_problem import ClusterProblem, attempted, streamed
from replay.engine.query import StateQuery
from replay.fleet.answer_warnings import KnownConnectors
from replay.fleet.archive_source import ArchiveSource, UnreadableCluster
from replay.fleet.table_queries import StateTableQuery, TableQuery

T = TypeVar("T")


class OnUnreadable(Enum):
    """Treatment of a cluster without an answer."""

    SKIP = "skip"
    """The cluster has no rows and is named; the others are answered."""
    RAISE = "raise"
    """The query ends with `UnreadableCluster`."""


class SkippedCluster(UserWarning):
    """A cluster has no rows in an answer. The message names it and the reason."""


def skip_or_raise(problem: str, unreadable: OnUnreadable) -> None:
    """Give a warning about a cluster that has no rows; it consists of the name and the reason.

    Raises:
        UnreadableCluster: the cluster is not to be skipped.
    """
    if unreadable is OnUnreadable.RAISE:
        raise UnreadableCluster(problem)
    # `warnings.warn` would show a repeated warning once, so that a second query would be silent.
    warnings.warn_explicit(SkippedCluster(problem), SkippedCluster, "replay", 1)


class TableWork(NamedTuple):
    """Query on some clusters of an archive."""

    query: TableQuery[Any]
    source: ArchiveSource
    clusters: Sequence[str]
    unreadable: OnUnreadable


def attempted_plan(query: TableQuery[T], source: ArchiveSource, cluster: str) -> T | ClusterProblem:
    """Open and plan one cluster, in any process; return the plan, or the problem."""
    return attempted(cluster, partial(query.planned, source, cluster))


def readable_batches(
    work: TableWork, cluster: str, planned: Any = None, known_names: set[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Make the rows of a cluster, which may be planned; an unreadable one has none.

    If a merge has removed files since the cluster was planned, it is planned again. `known_names`
    receives named connectors that the cluster knows, although they may have no rows.

    Raises:
        UnreadableCluster: the cluster is unreadable and not to be skipped.
    """
    plans = [] if planned is None else [planned]

    def rows() -> Iterable[pa.RecordBatch | ClusterProblem | KnownConnectors]:
        plan = plans.pop() if plans else work.query.planned(work.source, cluster)
        return [plan] if isinstance(plan, ClusterProblem) else work.query.batches(work.source, plan)

    for batch in streamed(cluster, rows):
        if isinstance(batch, ClusterProblem):
            skip_or_raise(batch.line, work.unreadable)
        elif not isinstance(batch, KnownConnectors):
            yield batch
        elif known_names is not None:
            known_names.update(map(utf8_text, batch.names))


def tables_of_cluster(
    queries: Mapping[str, StateTableQuery],
    work: TableWork,
    cluster: str,
    planned: StateQuery | ClusterProblem,
) -> dict[str, pa.Table]:
    """Tables of a cluster, all of one plan, by the names of their queries.

    The query of `work` makes the plan; the other queries are of the same moment. If a merge has
    removed files since then, the cluster is planned again, and all tables are made again. An
    unreadable cluster has no rows in any of them.

    Raises:
        UnreadableCluster: the cluster is unreadable and not to be skipped.
    """
    plans = [planned]

    def tables() -> dict[str, pa.Table] | ClusterProblem:
        plan = plans.pop() if plans else work.query.planned(work.source, cluster)
        if isinstance(plan, ClusterProblem):
            return plan
        return {
            name: pa.Table.from_batches(query.batches(work.source, plan), query.schema)
            for name, query in queries.items()
        }

    answer = attempted(cluster, tables)
    if not isinstance(answer, ClusterProblem):
        return answer
    skip_or_raise(answer.line, work.unreadable)
    return {name: query.schema.empty_table() for name, query in queries.items()}
