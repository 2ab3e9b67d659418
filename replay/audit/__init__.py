"""Audits: problems in the logs of a fleet that no status page shows.

Pure functions over ordered entries, in a single pass; their memory grows with the number of keys.
"""

from collections.abc import Iterable

import msgspec

from replay.audit.context import Audit, AuditContext, LogClock
from replay.audit.decoded_log import ClusterLog, read
from replay.audit.kinds import TABLE
from replay.audit.shared_topics import SharedResourceFinder, SharedResources, in_common
from replay.audit.thresholds import Thresholds
from replay.findings import Finding, Severity, by_name

__all__ = ["AuditResult", "ClusterLog", "audit", "audited", "together"]

_WORST_FIRST = {severity: -rank for rank, severity in enumerate(Severity)}


class AuditResult(msgspec.Struct, frozen=True):
    """Result of one cluster: findings, and resources that it may share with others."""

    findings: tuple[Finding, ...]
    shares: SharedResources


def audit(clusters: Iterable[ClusterLog], thresholds: Thresholds | None = None) -> list[Finding]:
    """Audit these clusters; return all findings, the worst first.

    The entries of one cluster are consumed before those of the next.
    """
    return together([audited(cluster, thresholds) for cluster in clusters])


def together(fleet: Iterable[AuditResult]) -> list[Finding]:
    """Combine the findings of clusters with those between them, the worst first."""
    clusters = list(fleet)
    alone = (finding for one in clusters for finding in one.findings)
    return sorted([*alone, *in_common(one.shares for one in clusters)], key=_order)


def audited(cluster: ClusterLog, thresholds: Thresholds | None = None) -> AuditResult:
    """Audit one cluster in one pass."""
    limits = thresholds or Thresholds()
    about = AuditContext(
        cluster.name, cluster.profile, LogClock(), cluster.topics, limits, cluster.trail
    )
    audits = [kind(about) for kind in TABLE]
    sharing = SharedResourceFinder(cluster.name)
    found: list[Finding] = []
    looking: dict[type, list[Audit]] = {}
    for told in read(cluster):
        about.clock.now_ms = max(about.clock.now_ms, told.time_ms)
        sharing.see(told)
        record = type(told.record)
        if record not in looking:
            looking[record] = [one for one in audits if issubclass(record, one.concerns)]
        for one in looking[record]:
            found += one.see(told)
    for one in audits:
        found += one.end()
    return AuditResult(tuple(found), sharing.end())


def _order(finding: Finding) -> tuple[object, ...]:
    rank, evidence = _WORST_FIRST[finding.severity], finding.evidence
    return rank, finding.cluster, by_name(finding.connector), finding.kind, evidence
