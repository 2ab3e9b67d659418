"""Plan of a migration: its steps in order, as values.

The order keeps a connector from running in both clusters. The connector is stopped before its
offsets are read. It is started in the other cluster only after its copy was compared. Until then
each step can be undone. Every step may be repeated, so a migration that was cut off continues with
the step that had begun.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from controlplane.client.connectors.connector_summary import PAUSED, RUNNING, STOPPED
from controlplane.core.text.safe_text import count

FORMAT = 1
"""Version of the journal's format; files of another version are refused."""


class MigrationStep(Enum):
    """Steps of a migration, in order."""

    STOP = "stop"
    READ = "read"
    CREATE = "create"
    OFFSETS = "offsets"
    VERIFY = "verify"
    START = "start"
    DELETE = "delete"


CAN_BE_UNDONE = (
    MigrationStep.START,
    MigrationStep.OFFSETS,
    MigrationStep.CREATE,
    MigrationStep.STOP,
)
"""Steps with an effect that is undone after a failure, in the order of undoing. The other cluster
comes first: the connector must not run in both."""


class StepGaps(NamedTuple):
    """Names of the two gaps of a step: moments at which tests kill the process.

    First the journal notes that the step has begun. Then come the gap `before`, the effect of the
    step, and the gap `after`. Last, the journal notes that the step is done. An undo of
    the step is noted only after its effect.
    """

    before: str
    after: str

    @classmethod
    def around(cls, action: str) -> "StepGaps":
        """Return the gaps around an action."""
        return cls(f"before {action}", f"after {action}")


GAPS: Mapping[MigrationStep, StepGaps] = {
    step: StepGaps.around(step.value) for step in MigrationStep
}
"""Gaps of each step, in order."""

UNDO_GAPS: Mapping[MigrationStep, StepGaps] = {
    step: StepGaps.around(f"undoing {step.value}") for step in CAN_BE_UNDONE
}
"""Gaps of each step that is undone, in the order of undoing."""

END = "before the journal is removed"
"""Gap behind the last step. Tests kill the process in this gap and in all gaps of steps."""

TARGET_VERBS = {RUNNING: "resume", PAUSED: "pause"}
"""Endpoint that gives a stopped connector a target state."""


class Migration(msgspec.Struct, frozen=True):
    """A migration as its journal stores it: the user's choices, the findings, the progress."""

    migration: int
    name: str
    source: str
    """Address of the cluster that has the connector, without credentials."""
    target: str
    deletes: bool
    """True if the connector is deleted in the end; else it stays stopped."""
    state: str
    """Target state before the migration: RUNNING, PAUSED or STOPPED."""
    config: dict[str, str | None]
    begun: tuple[MigrationStep, ...] = ()
    """Steps that may have had their effect."""
    done: tuple[MigrationStep, ...] = ()
    offsets: list[dict[str, Any]] | None = None
    """Offsets of the stopped connector; None: not read yet."""
    previous: list[dict[str, Any]] | None = None
    """Offsets in the other cluster before the migration, for its undo. They are of an earlier
    connector of this name, or of a consumer group that both clusters share. None: not read yet."""
    failure: str | None = None
    """Reason for undoing; None: the migration goes on."""
    undone: tuple[MigrationStep, ...] = ()

    @property
    def steps(self) -> list[MigrationStep]:
        """Steps of this migration, in order."""
        left_out = {MigrationStep.DELETE} if not self.deletes else set()
        if self.state == STOPPED:
            left_out |= {MigrationStep.STOP, MigrationStep.START}
        return [step for step in MigrationStep if step not in left_out]

    @property
    def open_steps(self) -> list[MigrationStep]:
        """Steps that are left to do."""
        return [step for step in self.steps if step not in self.done]

    @property
    def steps_to_undo(self) -> list[MigrationStep]:
        """Steps that are left to undo, in the order of undoing."""
        return [step for step in CAN_BE_UNDONE if step in self.begun and step not in self.undone]

    def rows(self, offsets: int | None) -> Iterator[tuple[str, str, str, str]]:
        """A table row per step: step, cluster, effect, how it is undone.

        If the migration has failed, only the steps to undo have rows, in the order of undoing.
        `offsets`: number of offsets at present; None: unknown.
        """
        texts = _texts(self, offsets)
        for step in self.steps if self.failure is None else self.steps_to_undo:
            is_at_source = step in (MigrationStep.STOP, MigrationStep.READ, MigrationStep.DELETE)
            effect, undo = texts[step]
            yield step.value, self.source if is_at_source else self.target, effect, undo


def _texts(migration: Migration, offsets: int | None) -> dict[MigrationStep, tuple[str, str]]:
    """Effect of each step, and how it is undone."""
    number = "offsets" if offsets is None else f"{count(offsets, 'offset')} at present"
    verb = TARGET_VERBS.get(migration.state, "")
    return {
        MigrationStep.STOP: ("stop the connector, wait for its tasks to end", verb),
        MigrationStep.READ: (f"read its offsets ({number})", "-"),
        MigrationStep.CREATE: ("create it stopped, with the same config", "delete it"),
        MigrationStep.OFFSETS: ("set its offsets", "restore the offsets from before"),
        MigrationStep.VERIFY: ("compare config, offsets and state with the original", "-"),
        MigrationStep.START: (f"{verb} it", "stop it, unless its offsets have moved"),
        MigrationStep.DELETE: ("delete the original; its offsets stay", "not undone"),
    }
