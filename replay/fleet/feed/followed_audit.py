"""Findings of one cluster after each batch; a batch continues from stored audits.

The findings after a batch are those of an audit of the whole archive up to there. Each batch stores
its audits as they were at the *horizon*: a time 10 minutes or more before the last record. The next
batch continues these audits with all records after the horizon, old and new, in the one order.

A new record may sort before the horizon. It comes too late for the stored audits, so the batch
audits the archive again from the first record on. Later batches then keep a greater distance
between the horizon and the last record.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from controlplane.core.order import RankedEntry
from replay.archive.archived_cluster import ArchivedCluster
from replay.audit import worst_first
from replay.audit.audit_pass import AuditPass, AuditSubject
from replay.audit.pass_snapshot import UnusableSnapshot, frozen, thawed
from replay.audit.shared_topics import SharedResources
from replay.engine.ordered_records import ordered
from replay.findings import Finding
from replay.fleet.feed.cluster_checkpoint import AuditCheckpoint, CheckpointFiles
from replay.fleet.feed.followed_state import ReadEnds, plans_between
from replay.fleet.feed.positions import latest_ms

PATIENCE_MS = 10 * 60 * 1000
"""Time that records of one partition may come later than those of others: 10 minutes, in ms.

A capture reads topics one after the other, and clocks of workers differ.
"""

LONGEST_PATIENCE_MS = 24 * 60 * 60 * 1000
"""Greatest patience: a day, in ms. Each batch goes over the records of that time again."""


class FindingChanges(NamedTuple):
    """Findings that a batch raises and resolves, and the audits for the next one."""

    raised: list[Finding]
    resolved: list[Finding]
    shares: SharedResources
    checkpoint: AuditCheckpoint


class AuditFollower:
    """Audits one cluster batch by batch."""

    def __init__(
        self, cluster: ArchivedCluster, subject: AuditSubject, files: CheckpointFiles
    ) -> None:
        self._cluster = cluster
        self._subject = subject
        self._files = files

    def changes(
        self, checkpoint: AuditCheckpoint | None, since: ReadEnds | None, ends: ReadEnds
    ) -> FindingChanges:
        """Audit the records of a batch; compare with the findings before it.

        Raises:
            ArchiveCorrupt: a file of the archive is missing or damaged.
            NotWritable: the audits cannot be written.
        """
        resumed = self._resumed(checkpoint, ends)
        if checkpoint is not None and resumed is not None:
            before = [*checkpoint.findings]
        else:
            before = self._findings(since)
            resumed = self._begun(checkpoint, ends)
        after = self._after(resumed, ends)
        old, new = Counter(before), Counter(after.findings)
        return FindingChanges(
            sorted((new - old).elements(), key=worst_first),
            sorted((old - new).elements(), key=worst_first),
            after.shares,
            after.checkpoint,
        )

    def _resumed(
        self, checkpoint: AuditCheckpoint | None, ends: ReadEnds
    ) -> "_ResumedAudit | None":
        """Stored audits with the records after their horizon; None if they cannot go on."""
        content = None if checkpoint is None else self._files.content(checkpoint.stored)
        if checkpoint is None or content is None:
            return None
        try:
            audits = thawed(content, self._subject)
        except UnusableSnapshot:
            return None
        parts = plans_between(self._cluster, checkpoint.ends, ends)
        records = ordered(self._cluster, parts, audits.log.latest_ms)
        first = next(records, None)
        # The stored audits have passed the place of this record in the one order.
        if first is not None and first.time_ms <= checkpoint.horizon_ms:
            return None
        rest = records if first is None else chain([first], records)
        return _ResumedAudit(
            audits, rest, checkpoint.ends, checkpoint.horizon_ms, checkpoint.patience_ms
        )

    def _begun(self, checkpoint: AuditCheckpoint | None, ends: ReadEnds) -> "_ResumedAudit":
        """Audits of all records, from the first on."""
        patience_ms = PATIENCE_MS
        # A checkpoint exists, but its audits cannot go on: a record came later than `patience_ms`
        # allows, or the stored audits are unusable. More patience prevents the first case.
        if checkpoint is not None:
            patience_ms = min(LONGEST_PATIENCE_MS, 4 * checkpoint.patience_ms)
        records = ordered(self._cluster, plans_between(self._cluster, None, ends))
        return _ResumedAudit(AuditPass(self._subject), records, {}, -1, patience_ms)

    def _findings(self, ends: ReadEnds | None) -> list[Finding]:
        """Findings up to the end of the last batch, from the first record on."""
        if ends is None:
            return []
        audits = AuditPass(self._subject)
        records = ordered(self._cluster, plans_between(self._cluster, None, ends))
        return [*audits.take_all(ranked.entry for ranked in records), *audits.pending()]

    def _after(self, resumed: "_ResumedAudit", ends: ReadEnds) -> "_BatchAudit":
        audits, records, begun, horizon_ms, patience_ms = resumed
        horizon_ms = max(horizon_ms, self._latest_ms(ends) - patience_ms)
        reached = {topic: [*begun.get(topic, ())] for topic in ends}
        for topic, topic_ends in ends.items():
            reached[topic] += [0] * (len(topic_ends) - len(reached[topic]))
        findings: list[Finding] = []
        stored = None
        for ranked in records:
            # The first record after the horizon: the audits are stored as they were before it.
            if stored is None and ranked.time_ms > horizon_ms:
                stored, completed = self._files.add("feed-audits", frozen(audits)), len(findings)
            if stored is None:
                reached[ranked.topic][ranked.partition] = ranked.offset + 1
            findings += audits.take(ranked.entry)
        if stored is None:
            stored, completed = self._files.add("feed-audits", frozen(audits)), len(findings)
            reached = {topic: [*topic_ends] for topic, topic_ends in ends.items()}
        pending = audits.pending()
        behind = (*findings[completed:], *pending)
        return _BatchAudit(
            [*findings, *pending],
            audits.shares(),
            AuditCheckpoint(horizon_ms, patience_ms, reached, stored, behind),
        )

    def _latest_ms(self, ends: ReadEnds) -> int:
        """Time of the last record, at most that of the last manifest: clocks may be ahead."""
        written_ms = self._cluster.chain.manifests[-1].written_at_ms
        return min(latest_ms(self._cluster, ends), written_ms)


class _ResumedAudit(NamedTuple):
    """Audits, and the records with which they go on."""

    audits: AuditPass
    records: Iterator[RankedEntry]
    ends: ReadEnds
    """End offsets of the records that the audits have seen."""
    horizon_ms: int
    patience_ms: int


class _BatchAudit(NamedTuple):
    findings: list[Finding]
    shares: SharedResources
    checkpoint: AuditCheckpoint
