"""Two clusters on one status topic, detected by interleaved group generations.

Each rebalance begins the next generation of a group, and all its workers join it. Two groups on the
same topics count generations separately. One *interleaving* has two reports:

1. A worker joins a new generation, lower than that of a worker of the other group.
2. Then that other worker reports its own, higher generation.

Two groups interleave again and again. One group alone can seem to interleave once, because a group
without members restarts its count. An example with workers A and B of one group:

1. Before the restart, B reports generation 3, and then A reports 7.
2. After the restart, B reports 4: higher than B's last report (3), but lower than A's (7).
3. Four rebalances later, A reports 8, also in the new count.
"""

from collections.abc import Iterator
from typing import NamedTuple

from controlplane.core.records import ConnectorStatus, Status, TaskStatus
from replay.audit.context import AuditContext
from replay.audit.decoded_log import DecodedRecord
from replay.findings import Finding, FindingText, Severity

CROSSINGS = 2
"""Least number of interleavings of two workers; a restarted group shows one."""


class _WorkerReport(NamedTuple):
    """Generation in the last status that a worker wrote."""

    generation: int
    number: int
    """Sequence number of the report."""
    decoded: DecodedRecord


class MixedGroups:
    """Tracks the generation of each worker."""

    concerns = (ConnectorStatus, TaskStatus)

    def __init__(self, about: AuditContext) -> None:
        self._about = about
        self._number = 0
        self._heard: dict[str, _WorkerReport] = {}
        self._waiting: dict[str, dict[str, DecodedRecord]] = {}
        """By worker: others that joined a new, lower generation after this worker's last report."""
        self._crossings: dict[tuple[str, str], int] = {}

    def see(self, decoded: DecodedRecord) -> Iterator[Finding]:
        """Yield the finding that a record completes.

        Two workers A and B have at most two findings: one with A ahead, the other with B ahead.
        """
        match decoded.record:
            case ConnectorStatus(_, Status() as status) | TaskStatus(_, _, Status() as status):
                if status.worker_id is not None:
                    yield from self._report(status.worker_id, status.generation, decoded)

    def end(self) -> Iterator[Finding]:
        """Yield nothing: every pair was reported when it had interleaved `CROSSINGS` times."""
        return iter(())

    def _report(self, worker: str, generation: int, decoded: DecodedRecord) -> Iterator[Finding]:
        self._number += 1
        before = self._heard.get(worker)
        self._heard[worker] = _WorkerReport(generation, self._number, decoded.without_states)
        behind = self._waiting.pop(worker, {})
        if before is None or generation < before.generation:
            return
        for other, moved in behind.items():
            yield from self._crossed(worker, other, decoded, moved)
        if generation > before.generation:
            for ahead, report in self._heard.items():
                if report.generation > generation and report.number > before.number:
                    self._waiting.setdefault(ahead, {})[worker] = decoded.without_states

    def _crossed(
        self, ahead: str, behind: str, decoded: DecodedRecord, moved: DecodedRecord
    ) -> Iterator[Finding]:
        crossings = self._crossings[ahead, behind] = self._crossings.get((ahead, behind), 0) + 1
        if crossings != CROSSINGS:
            return
        sentence = (
            f"{ahead} and {behind} write one status topic from two groups: {ahead} is in "
            f"generation {self._heard[ahead].generation}, {behind} just joined generation "
            f"{moved.record.status.generation}"
        )
        advice = (
            "Two clusters share their topics: give each its own group.id and topics. Until then "
            "both run every connector, and they overwrite each other's statuses."
        )
        evidence, words = [moved.position, decoded.position], FindingText(sentence, advice)
        yield self._about.finding("two-clusters-one-topic", Severity.DANGER, None, evidence, words)
