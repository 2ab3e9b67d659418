"""Assessment of one cluster as a value: any process can run it."""

import msgspec

from replay.cluster_records import ClusterRecords
from replay.compat.assessment import assess
from replay.compat.assessment_report import ReportedAssessment, reported
from replay.compat.release_change import ReleaseChange


class CompatOutcome(msgspec.Struct, frozen=True):
    """Assessments of one cluster, one per step of the change."""

    rolls: tuple[ReportedAssessment, ...]


class CompatTask(msgspec.Struct, frozen=True):
    """Task: assess one cluster. With the log, its fields are everything that affects the result."""

    way: tuple[ReleaseChange, ...]
    """Steps of the release change."""

    def __call__(self, log: ClusterRecords) -> CompatOutcome:
        """Return the assessment of each step.

        Raises:
            ReplayError: an archive is damaged.
            LogError: a log cannot be read.
        """
        entries = list(log.entries())
        rolls = (
            assess(
                entries,
                change,
                topics=log.topics,
                cluster=log.cluster,
                exactly_once=log.exactly_once,
            )
            for change in self.way
        )
        return CompatOutcome(tuple(reported(assessment, log.topics) for assessment in rolls))
