"""Assessment of one cluster as a value: any process can run it."""

import msgspec

from controlplane.core.order import OrderedEntries
from replay.cluster_records import ClusterRecords
from replay.compat.assessment import assess_each
from replay.compat.assessment_report import ReportedAssessment, reported
from replay.compat.release_change import ReleaseChange


class CompatOutcome(msgspec.Struct, frozen=True):
    """Assessments of one cluster, one per step of the change."""

    rolls: tuple[ReportedAssessment, ...]


class CompatTask(msgspec.Struct, frozen=True):
    """Task: assess one cluster. The result depends on nothing but the fields and the log."""

    way: tuple[ReleaseChange, ...]
    """Steps of the release change."""

    def __call__(self, log: ClusterRecords) -> CompatOutcome:
        """Return the assessment of each step.

        Raises:
            ReplayError: an archive is damaged.
            LogError: a log cannot be read.
        """
        assessments = assess_each(
            OrderedEntries(log.entries()),
            self.way,
            topics=log.topics,
            cluster=log.cluster,
            exactly_once=log.exactly_once,
        )
        return CompatOutcome(tuple(reported(assessment, log.topics) for assessment in assessments))
