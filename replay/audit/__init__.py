"""Audits: what the logs of a fleet tell that no status page does.

Pure functions over ordered entries, in a single pass; what they remember grows with keys.
"""

from collections.abc import Iterable

import msgspec

from replay.audit.about import About, Audit, Clock
from replay.audit.fleet import Shares, Sharing, in_common
from replay.audit.kinds import TABLE
from replay.audit.reading import Cluster, read
from replay.audit.thresholds import Thresholds
from replay.findings import Finding, Severity, by_name

__all__ = ["Audited", "Cluster", "audit", "audited", "together"]

_WORST_FIRST = {severity: -rank for rank, severity in enumerate(Severity)}


class Audited(msgspec.Struct, frozen=True):
    """One cluster: what was found, and what it may share with others."""

    findings: tuple[Finding, ...]
    shares: Shares


def audit(clusters: Iterable[Cluster], thresholds: Thresholds | None = None) -> list[Finding]:
    """Everything that is found in these clusters, and between them; the worst comes first.

    Each cluster's entries are gone through once, before those of the next one are touched.
    """
    return together([audited(cluster, thresholds) for cluster in clusters])


def together(fleet: Iterable[Audited]) -> list[Finding]:
    """What was found in some clusters, and what is found between them; the worst comes first."""
    clusters = list(fleet)
    alone = (finding for one in clusters for finding in one.findings)
    return sorted([*alone, *in_common(one.shares for one in clusters)], key=_order)


def audited(cluster: Cluster, thresholds: Thresholds | None = None) -> Audited:
    """What is found in one cluster, in one pass."""
    limits = thresholds or Thresholds()
    about = About(cluster.name, cluster.profile, Clock(), cluster.topics, limits, cluster.trail)
    audits = [kind(about) for kind in TABLE]
    sharing = Sharing(cluster.name)
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
    return Audited(tuple(found), sharing.end())


def _order(finding: Finding) -> tuple[object, ...]:
    rank, evidence = _WORST_FIRST[finding.severity], finding.evidence
    return rank, finding.cluster, by_name(finding.connector), finding.kind, evidence
