"""Audits: what the logs of a fleet tell that no status page does.

Pure functions over ordered entries, in a single pass; what they remember grows with keys.
"""

from collections.abc import Iterable

from replay.audit.about import About, Audit, Clock
from replay.audit.fleet import Fleet
from replay.audit.kinds import TABLE
from replay.audit.reading import Cluster, read
from replay.audit.thresholds import Thresholds
from replay.findings import Finding, Severity, by_name

__all__ = ["Cluster", "audit"]

_WORST_FIRST = {severity: -rank for rank, severity in enumerate(Severity)}


def audit(clusters: Iterable[Cluster], thresholds: Thresholds | None = None) -> list[Finding]:
    """Everything that is found in these clusters, and between them; the worst comes first.

    Each cluster's entries are gone through once, before those of the next one are touched.
    """
    fleet, found = Fleet(), []
    for cluster in clusters:
        about = About(
            cluster.name,
            cluster.profile,
            Clock(),
            cluster.topics,
            thresholds or Thresholds(),
            cluster.trail,
        )
        found += _one(cluster, about, fleet)
    found += fleet.end()
    return sorted(found, key=_order)


def _one(cluster: Cluster, about: About, fleet: Fleet) -> list[Finding]:
    audits = [kind(about) for kind in TABLE]
    found: list[Finding] = []
    looking: dict[type, list[Audit]] = {}
    for told in read(cluster):
        about.clock.now_ms = max(about.clock.now_ms, told.time_ms)
        fleet.see(cluster.name, told)
        record = type(told.record)
        if record not in looking:
            looking[record] = [one for one in audits if issubclass(record, one.concerns)]
        for one in looking[record]:
            found += one.see(told)
    fleet.cluster_ends(cluster.name)
    for one in audits:
        found += one.end()
    return found


def _order(finding: Finding) -> tuple[object, ...]:
    rank, evidence = _WORST_FIRST[finding.severity], finding.evidence
    return rank, finding.cluster, by_name(finding.connector), finding.kind, evidence
