"""Zombies: two workers that both run the same connector or task.

In a regular takeover after a crash, the earlier owner has written no UNASSIGNED. The new owner
reports RUNNING in a later generation. A group without members restarts its generations, so a lower
generation alone proves nothing. Two owners exist if the earlier owner reports again in a
generation that it had joined before the takeover. It has missed the takeover.
"""

from collections.abc import Iterator
from typing import NamedTuple

from controlplane.core.records import ConnectorStatus, State, Status, TaskStatus
from replay.audit.context import AuditContext, ConnectorOrTask, instance, status_in
from replay.audit.decoded_log import DecodedRecord
from replay.findings import Finding, FindingText, Severity

_HOLDS = (State.RUNNING, State.PAUSED, State.RESTARTING)
"""States of an owner; a worker that reports any other state does not run the task."""


class _Ownership(NamedTuple):
    """Last worker whose report says that it runs an instance."""

    worker: str
    generation: int
    number: int
    """Sequence number of the report."""
    decoded: DecodedRecord


class _ContestedOwnership(NamedTuple):
    """Two reports of ownership in one generation, by different workers: a suspicion.

    Either both workers run the instance, or the first is dead and the group has restarted its
    generations.
    """

    first: _Ownership
    second: _Ownership


class Zombies:
    """Tracks the owner of each instance and the generation of each worker."""

    concerns = (ConnectorStatus, TaskStatus)

    def __init__(self, about: AuditContext) -> None:
        self._about = about
        self._number = 0
        self._claims: dict[ConnectorOrTask, _Ownership] = {}
        self._since: dict[str, tuple[int, int]] = {}
        """Generation of each worker, and the number of its first report in it."""
        self._doubts: dict[str, dict[ConnectorOrTask, _ContestedOwnership]] = {}
        self._reported: set[ConnectorOrTask] = set()

    def see(self, decoded: DecodedRecord) -> Iterator[Finding]:
        """Report two owners of one instance once; after a tombstone of its status, once again."""
        yield from self._report(*status_in(decoded), decoded)

    def end(self) -> Iterator[Finding]:
        """Yield nothing: a suspicion that no later report has confirmed is no finding."""
        return iter(())

    def _report(
        self, subject: ConnectorOrTask, status: Status | None, decoded: DecodedRecord
    ) -> Iterator[Finding]:
        if status is None:
            self._claims.pop(subject, None)
            self._reported.discard(subject)
            return
        if status.worker_id is None:
            return
        self._number += 1
        claim = _Ownership(
            status.worker_id, status.generation, self._number, decoded.without_states
        )
        yield from self._confirmed(claim)
        rival = self._claims.get(subject)
        if rival is not None and rival.worker != claim.worker:
            yield from self._rivals(subject, rival, claim, status.state)
        elif status.state in _HOLDS:
            self._claims[subject] = claim
        else:
            self._claims.pop(subject, None)
        self._hear(claim)

    def _rivals(
        self, subject: ConnectorOrTask, rival: _Ownership, claim: _Ownership, state: State
    ) -> Iterator[Finding]:
        """Judge a report of a non-owner; UNASSIGNED may arrive late after a rebalance."""
        if state is State.UNASSIGNED:
            return
        if self._was_there(claim, rival):
            yield from self._zombie(subject, rival, claim)
            return
        if state not in _HOLDS:
            return
        # The first owner may be dead and its group may have restarted the count. Only a later
        # report of the first owner in this generation confirms the suspicion.
        if claim.generation == rival.generation:
            self._doubts.setdefault(rival.worker, {})[subject] = _ContestedOwnership(rival, claim)
        self._claims[subject] = claim

    def _was_there(self, claim: _Ownership, rival: _Ownership) -> bool:
        """True if a worker reports in a generation that it joined before the takeover."""
        generation, since = self._since.get(claim.worker, (None, 0))
        same = generation == claim.generation
        return same and claim.generation <= rival.generation and since < rival.number

    def _hear(self, claim: _Ownership) -> None:
        if self._since.get(claim.worker, (None, 0))[0] != claim.generation:
            self._since[claim.worker] = claim.generation, claim.number

    def _confirmed(self, claim: _Ownership) -> Iterator[Finding]:
        """Confirm suspicions: a worker that reports again in the same generation is alive."""
        for subject, doubt in self._doubts.pop(claim.worker, {}).items():
            if claim.generation == doubt.first.generation:
                yield from self._zombie(subject, doubt.first, doubt.second)

    def _zombie(
        self, subject: ConnectorOrTask, first: _Ownership, second: _Ownership
    ) -> Iterator[Finding]:
        if subject in self._reported:
            return
        self._reported.add(subject)
        evidence = [first.decoded.position, second.decoded.position]
        words, severity = _words(subject, first, second), Severity.DANGER
        yield self._about.finding("two-owners", severity, subject[0], evidence, words)


def _words(subject: ConnectorOrTask, first: _Ownership, second: _Ownership) -> FindingText:
    stale, owner = sorted((first, second), key=lambda ownership: ownership.generation)
    if stale.generation == owner.generation:
        sentence = (
            f"{instance(*subject)} has two owners: {first.worker} and {second.worker} both run it "
            f"in generation {owner.generation}"
        )
        advice = (
            "Restart both workers, one after the other, and check that they belong to one cluster "
            f"(group.id). {_TWICE}"
        )
        return FindingText(sentence, advice)
    sentence = (
        f"{instance(*subject)} has two owners: {owner.worker} runs it in generation "
        f"{owner.generation}, {stale.worker} still reports it in generation "
        f"{stale.generation}"
    )
    advice = f"Restart the worker {stale.worker}: it left the group without noticing. {_TWICE}"
    return FindingText(sentence, advice)


_TWICE = (
    "Records that both wrote meanwhile exist twice; exactly-once support fences such tasks of "
    "sources."
)
