"""Audit of one cluster as a value: any process can run it."""

import msgspec

from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from replay.audit import AuditResult, ClusterLog, audited
from replay.audit.thresholds import Thresholds
from replay.audit.trail.request_trail import TrailTask
from replay.cluster_records import ClusterRecords


class AuditOutcome(msgspec.Struct, frozen=True):
    """Findings of one cluster, and the names of its topics."""

    topics: Topics
    audited: AuditResult


class AuditTask(TrailTask, frozen=True):
    """Task: audit one cluster. The result depends on nothing but the fields and the log."""

    profile: Profile
    limits: Thresholds

    def __call__(self, log: ClusterRecords) -> AuditOutcome:
        """Return the findings of a cluster.

        Raises:
            ReplayError: an archive is damaged.
            LogError: a log cannot be read.
        """
        cluster = ClusterLog(
            log.cluster,
            log.entries(),
            self.profile,
            log.topics,
            log.exactly_once,
            self.trail(log.cluster),
            log.may_be_older,
        )
        return AuditOutcome(log.topics, audited(cluster, self.limits))
