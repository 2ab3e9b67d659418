"""Runs of table queries, cluster by cluster; unreadable clusters are skipped or raised."""

import warnings
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

import pyarrow as pa

from replay.cluster_problem import ClusterProblem, streamed
from replay.fleet.archive_source import ArchiveSource, UnreadableCluster
from replay.fleet.table_queries import TableQuery


class OnUnreadable(Enum):
    """Treatment of a cluster without an answer."""

    SKIP = "skip"
    """The cluster has no rows and is named; the others are answered."""
    RAISE = "raise"
    """The query ends with `UnreadableCluster`."""


class SkippedCluster(UserWarning):
    """A cluster has no rows in an answer. The message names it and the reason."""


def skip_or_raise(problem: ClusterProblem, unreadable: OnUnreadable) -> None:
    """Name a cluster that has no rows, by a warning.

    Raises:
        UnreadableCluster: the cluster is not to be skipped.
    """
    if unreadable is OnUnreadable.RAISE:
        raise UnreadableCluster(problem.line)
    # `warnings.warn` would show a repeated warning once, so that a second query would be silent.
    warnings.warn_explicit(SkippedCluster(problem.line), SkippedCluster, "replay", 1)


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
            skip_or_raise(batch, work.unreadable)
        else:
            yield batch
