"""One situation of an upgrade or downgrade, and where a log has it."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from controlplane.core.entry import Position
from controlplane.core.state import Aspect
from replay.compat.evidence import Evidence
from replay.compat.rolls import Roll
from replay.compat.steps import Step, When
from replay.findings import Severity


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """A situation, recognised in a log."""

    connector: str | None = None
    """Whom it is about; None: the whole cluster."""
    evidence: tuple[Position, ...]
    severity: Severity
    sentence: str
    steps: tuple[Step, ...] = ()

    @property
    def counts_as(self) -> Severity:
        """How bad it is for the verdict.

        A warning about which there is nothing to do but afterwards needs no preparation.
        """
        afterwards = bool(self.steps) and all(one.when is When.AFTER for one in self.steps)
        return Severity.INFO if afterwards and self.severity is Severity.WARNING else self.severity


Look = Callable[[Evidence], Iterator[Sighting]]


class Situation(NamedTuple):
    """A row of the table: what it is called, between which releases it can be, how it is found."""

    number: int
    """Which one it is in the list of situations of the version matrix."""
    name: str
    ground: str
    """The KIP or issue that brought it."""
    concerns: Callable[[Roll], bool]
    look: Look
    explains: frozenset[Aspect] = frozenset()
    """In what the two releases differ because of it."""
