"""Runs of table queries, cluster by cluster; unreadable clusters are skipped or raised."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import msgspec
import pyarrow as pa

from replay.cluster_problem import ClusterProblem, streamed
from replay.fleet.archive_source import ArchiveSource, OpenedSource, UnreadableCluster
from replay.fleet.table_queries import TableQuery


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

    query: TableQuery
    source: ArchiveSource
    clusters: Sequence[str]
    unreadable: OnUnreadable


def readable_batches(work: TableWork, cluster: str) -> Iterator[pa.RecordBatch]:
    """Make the rows of a cluster; an unreadable one has none.

    Raises:
        UnreadableCluster: the cluster is unreadable and not to be skipped.
    """
    for batch in streamed(cluster, lambda: work.query.batches(work.source, cluster)):
        if isinstance(batch, ClusterProblem):
            skip_or_raise(batch.line, work.unreadable)
        else:
            yield batch


def tables_of_cluster(
    queries: Mapping[str, TableQuery],
    source: ArchiveSource,
    cluster: str,
    unreadable: OnUnreadable,
) -> dict[str, pa.Table]:
    """Tables of a cluster, all of one moment, by the names of their queries.

    If a merge removes files meanwhile, the cluster is opened once more, and all tables are made
    again. An unreadable cluster has no rows in any of them.

    Raises:
        UnreadableCluster: the cluster is unreadable and not to be skipped.
    """
    problem = ""
    for _ in range(2):
        opened = OpenedSource(*msgspec.structs.astuple(source))
        works = {
            name: TableWork(query, opened, [cluster], OnUnreadable.RAISE)
            for name, query in queries.items()
        }
        try:
            return {
                name: pa.Table.from_batches(readable_batches(work, cluster), work.query.schema)
                for name, work in works.items()
            }
        except UnreadableCluster as failure:
            problem = str(failure)
    skip_or_raise(problem, unreadable)
    return {name: query.schema.empty_table() for name, query in queries.items()}
