"""Two clusters on one status topic, seen from one log: the generations of two groups side by side.

The workers of one group are all in its newest generation. Of two groups on the same topics each
counts for itself: somebody moves on to a generation that others have left behind long ago, and
these go on from theirs, again and again. (A group of which nobody is left begins to count anew, and
catches up with what it was: that shows once.)
"""

from collections.abc import Iterator
from typing import NamedTuple

from controlplane.core.records import ConnectorStatus, Status, TaskStatus
from replay.audit.about import About, Words
from replay.audit.reading import Told
from replay.findings import Finding, Severity

CROSSINGS = 2
"""How often two workers must have moved on beside each other; a group that began anew does once."""


class _Heard(NamedTuple):
    """The last report of a worker."""

    generation: int
    number: int
    """The how-manieth report of all."""
    told: Told


class Groups:
    """Follows each worker from generation to generation."""

    concerns = (ConnectorStatus, TaskStatus)

    def __init__(self, about: About) -> None:
        self._about = about
        self._number = 0
        self._heard: dict[str, _Heard] = {}
        self._waiting: dict[str, dict[str, Told]] = {}
        """Per worker that is ahead, those who moved on behind it since it was heard last."""
        self._crossings: dict[tuple[str, str], int] = {}

    def see(self, told: Told) -> Iterator[Finding]:
        """Two workers are told of once."""
        match told.record:
            case ConnectorStatus(_, Status() as status) | TaskStatus(_, _, Status() as status):
                if status.worker_id is not None:
                    yield from self._report(status.worker_id, status.generation, told)

    def end(self) -> Iterator[Finding]:
        """Nothing is left to tell."""
        return iter(())

    def _report(self, worker: str, generation: int, told: Told) -> Iterator[Finding]:
        self._number += 1
        before = self._heard.get(worker)
        self._heard[worker] = _Heard(generation, self._number, told.kept)
        behind = self._waiting.pop(worker, {})
        if before is None or generation < before.generation:
            return
        for other, moved in behind.items():
            yield from self._crossed(worker, other, told, moved)
        if generation > before.generation:
            for ahead, heard in self._heard.items():
                if heard.generation > generation and heard.number > before.number:
                    self._waiting.setdefault(ahead, {})[worker] = told.kept

    def _crossed(self, ahead: str, behind: str, told: Told, moved: Told) -> Iterator[Finding]:
        crossings = self._crossings[ahead, behind] = self._crossings.get((ahead, behind), 0) + 1
        if crossings != CROSSINGS:
            return
        sentence = (
            f"{ahead} and {behind} report to one status topic from two groups: {ahead} in "
            f"generation {self._heard[ahead].generation}, while {behind} moves on in generation "
            f"{moved.record.status.generation}"
        )
        advice = (
            "Two clusters share their topics: give each a group.id and topics of its own. Until "
            "then both run every connector, and each overwrites what the other reports."
        )
        evidence, words = [moved.position, told.position], Words(sentence, advice)
        yield self._about.finding("two-clusters-one-topic", Severity.DANGER, None, evidence, words)
