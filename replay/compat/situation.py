"""Situations of a release change, and their sightings in a log."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from controlplane.core.entry import Position
from controlplane.core.state import Aspect
from replay.compat.log_evidence import LogEvidence
from replay.compat.preparation import PreparationStep, StepTime
from replay.compat.release_change import ReleaseChange
from replay.findings import Severity


class DetectedSituation(msgspec.Struct, frozen=True, kw_only=True):
    """Occurrence of a situation in a log."""

    connector: str | None = None
    """Connector of the situation; None is the whole cluster."""
    evidence: tuple[Position, ...]
    severity: Severity
    sentence: str
    steps: tuple[PreparationStep, ...] = ()

    @property
    def counts_as(self) -> Severity:
        """Severity for the verdict.

        A warning needs no preparation if all its steps come after the change.
        """
        afterwards = bool(self.steps) and all(step.when is StepTime.AFTER for step in self.steps)
        return Severity.INFO if afterwards and self.severity is Severity.WARNING else self.severity


SituationRule = Callable[[LogEvidence], Iterator[DetectedSituation]]


class Situation(NamedTuple):
    """Known situation: name, affected releases, and the rule that detects it."""

    number: int
    """Number in reports; it never changes."""
    name: str
    ground: str
    """KIP or issue that introduced it."""
    concerns: Callable[[ReleaseChange], bool]
    look: SituationRule
    explains: frozenset[Aspect] = frozenset()
    """Aspects in which the releases differ because of it."""
