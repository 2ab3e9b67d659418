"""Jobs of histories: one pass over the records of a cluster, for one connector and release."""

from collections.abc import Iterator
from typing import NamedTuple

from replay.archive.archived_cluster import ArchivedCluster
from replay.engine.ordered_records import ordered
from replay.engine.plans.read_plan import ReadPlan
from replay.timeline.connector_history import EventEffect, HistoryPass, HistoryReader
from replay.timeline.shared_fold import chunks


class HistoryJob(NamedTuple):
    """A cluster, its plan, and the connector and release of the history.

    The plan reads segments only (`LocalOptions.derived` is False), because every record counts.
    """

    cluster: ArchivedCluster
    plan: ReadPlan
    reader: HistoryReader


class HistoryStep(NamedTuple):
    """Effects of one chunk of records, and the number of its records."""

    records: int
    effects: list[EventEffect]


def history_steps(job: HistoryJob) -> Iterator[HistoryStep]:
    """Yield the effects of all records, in the one order, in chunks.

    Raises:
        ArchiveCorrupt: a file is missing or damaged.
    """
    past = HistoryPass(job.reader)
    for records in chunks(ordered(job.cluster, job.plan.parts)):
        yield HistoryStep(len(records), list(past.take(records)))
