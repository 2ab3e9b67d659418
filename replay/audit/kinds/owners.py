"""Zombies: two workers that both run one connector or one task.

Who takes over a task after a crash reports it RUNNING in a later generation of the group, and the
one before it never gave it up: that is as it should be. A group of which nobody is left begins to
count again: a lower generation alone proves nothing either. Two owners are there where somebody
speaks in a generation in which he already was when the other one took over: he has missed that.
"""

from collections.abc import Iterator
from typing import NamedTuple

from controlplane.core.records import ConnectorStatus, State, Status, TaskStatus
from replay.audit.about import About, Words, instance
from replay.audit.reading import Told
from replay.findings import Finding, Severity

_HOLDS = (State.RUNNING, State.PAUSED, State.RESTARTING)
"""Whoever reports one of these has the task; whoever reports another state does not run it."""

_Instance = tuple[str, int | None]


class _Claim(NamedTuple):
    """Who has said last that he runs it."""

    worker: str
    generation: int
    number: int
    """The how-manieth report of all."""
    told: Told


class _Doubt(NamedTuple):
    """Two owners in one generation, unless the first one is dead and the group began anew."""

    first: _Claim
    second: _Claim


class Owners:
    """Follows each instance from owner to owner, and each worker from generation to generation."""

    concerns = (ConnectorStatus, TaskStatus)

    def __init__(self, about: About) -> None:
        self._about = about
        self._number = 0
        self._claims: dict[_Instance, _Claim] = {}
        self._since: dict[str, tuple[int, int]] = {}
        """Per worker its generation, and the number of its first report in it."""
        self._doubts: dict[str, dict[_Instance, _Doubt]] = {}
        self._told: set[_Instance] = set()

    def see(self, told: Told) -> Iterator[Finding]:
        """Two owners of one instance are told once; a tombstone begins it anew."""
        match told.record:
            case ConnectorStatus(name, status):
                yield from self._report((name, None), status, told)
            case TaskStatus(name, task, status):
                yield from self._report((name, task), status, told)

    def end(self) -> Iterator[Finding]:
        """A doubt that nobody has confirmed is none."""
        return iter(())

    def _report(self, what: _Instance, status: Status | None, told: Told) -> Iterator[Finding]:
        if status is None:
            self._claims.pop(what, None)
            self._told.discard(what)
            return
        if status.worker_id is None:
            return
        self._number += 1
        claim = _Claim(status.worker_id, status.generation, self._number, told.kept)
        yield from self._confirmed(claim)
        rival = self._claims.get(what)
        if rival is not None and rival.worker != claim.worker:
            yield from self._rivals(what, rival, claim, status.state)
        elif status.state in _HOLDS:
            self._claims[what] = claim
        else:
            self._claims.pop(what, None)
        self._hear(claim)

    def _rivals(
        self, what: _Instance, rival: _Claim, claim: _Claim, state: State
    ) -> Iterator[Finding]:
        """A report of somebody else than the owner. UNASSIGNED comes late, after any rebalance."""
        if state is State.UNASSIGNED:
            return
        if self._was_there(claim, rival):
            yield from self._zombie(what, rival, claim)
            return
        if state not in _HOLDS:
            return
        if claim.generation == rival.generation:
            self._doubts.setdefault(rival.worker, {})[what] = _Doubt(rival, claim)
        self._claims[what] = claim

    def _was_there(self, claim: _Claim, rival: _Claim) -> bool:
        """Whether he speaks in a generation in which he was before the owner took over."""
        generation, since = self._since.get(claim.worker, (None, 0))
        same = generation == claim.generation
        return same and claim.generation <= rival.generation and since < rival.number

    def _hear(self, claim: _Claim) -> None:
        if self._since.get(claim.worker, (None, 0))[0] != claim.generation:
            self._since[claim.worker] = claim.generation, claim.number

    def _confirmed(self, claim: _Claim) -> Iterator[Finding]:
        """Whoever speaks once more in the same generation is not dead."""
        for what, doubt in self._doubts.pop(claim.worker, {}).items():
            if claim.generation == doubt.first.generation:
                yield from self._zombie(what, doubt.first, doubt.second)

    def _zombie(self, what: _Instance, first: _Claim, second: _Claim) -> Iterator[Finding]:
        if what in self._told:
            return
        self._told.add(what)
        evidence = [first.told.position, second.told.position]
        words, severity = _words(what, first, second), Severity.DANGER
        yield self._about.finding("two-owners", severity, what[0], evidence, words)


def _words(what: _Instance, first: _Claim, second: _Claim) -> Words:
    stale, owner = sorted((first, second), key=lambda one: one.generation)
    if stale.generation == owner.generation:
        sentence = (
            f"{instance(*what)} has two owners: {first.worker} and {second.worker} both run it in "
            f"generation {owner.generation}"
        )
        advice = (
            "Restart both workers, one after the other, and look whether they really are of one "
            f"cluster (group.id). {_TWICE}"
        )
        return Words(sentence, advice)
    sentence = (
        f"{instance(*what)} has two owners: {owner.worker} runs it in generation "
        f"{owner.generation}, and {stale.worker} still speaks for it in generation "
        f"{stale.generation}"
    )
    advice = f"Restart the worker {stale.worker}: it has lost the group unnoticed. {_TWICE}"
    return Words(sentence, advice)


_TWICE = (
    "What both wrote meanwhile is there twice; exactly-once support fences such a task of a source."
)
