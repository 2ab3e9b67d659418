"""Runs of table queries in this process; unreadable clusters are skipped or raised."""

import warnings
from collections.abc import Iterator, Sequence
from enum import Enum

import pyarrow as pa

from controlplane.core.moments import UnknownMoment
from replay.errors import ReplayError
from replay.fleet.archive_source import ArchiveSource, UnreadableCluster
from replay.fleet.table_queries import TableQuery


class OnUnreadable(Enum):
    """Treatment of a cluster that cannot be answered about."""

    SKIP = "skip"
    """It has no rows and is named; the others are answered."""
    RAISE = "raise"
    """The query ends with `UnreadableCluster`."""


class SkippedCluster(UserWarning):
    """A cluster has no rows in an answer. The message names it and the reason."""


def readable_batches(
    query: TableQuery, source: ArchiveSource, cluster: str, unreadable: OnUnreadable
) -> Iterator[pa.RecordBatch]:
    """Make the rows of a cluster; an unreadable one has none.

    Raises:
        UnreadableCluster: the cluster is unreadable and not to be skipped.
    """
    try:
        yield from query.batches(source, cluster)
    except (ReplayError, UnknownMoment) as error:
        message = f"{cluster}: {error}"
        if unreadable is OnUnreadable.RAISE:
            raise UnreadableCluster(message) from None
        warnings.warn(SkippedCluster(message), stacklevel=2)


def arrow_table(
    query: TableQuery, source: ArchiveSource, clusters: Sequence[str], unreadable: OnUnreadable
) -> pa.Table:
    """Make the table of all clusters in this process.

    Raises:
        UnreadableCluster: a cluster is unreadable and not to be skipped.
    """
    batches = [
        batch
        for cluster in clusters
        for batch in readable_batches(query, source, cluster, unreadable)
    ]
    return pa.Table.from_batches(batches, query.schema)
