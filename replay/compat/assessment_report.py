"""Report of an assessment: plain values without secrets, for people and machines.

Field names are the names in JSON, unless a class renames them. A report can be stored and read
back.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from controlplane.core.state import Topics
from controlplane.core.text.record_text import place
from controlplane.core.text.redaction import redacted_text, redacted_value
from controlplane.core.text.value_text import bounded, item, json_value
from controlplane.core.text.value_text import change as change_text
from controlplane.core.views.hazards import Hazard
from replay.compat import release_change
from replay.compat.assessment import (
    ClusterAssessment,
    ConnectorAssessment,
    Divergence,
    ObservedSituation,
    ReleaseVerdict,
)
from replay.compat.interim_writes import InterimWrite
from replay.compat.preparation import PreparationStep
from replay.compat.worker_views import ReleaseView
from replay.findings import Severity


class ReportedStep(msgspec.Struct, frozen=True):
    """A `PreparationStep` in the report: its phase, command and reason."""

    when: str
    command: str
    why: str


class ReportedDivergence(msgspec.Struct, frozen=True, rename={"start": "from", "goal": "to"}):
    """A `Divergence` in the report; JSON names its values `from` and `to`."""

    fact: str
    item: str
    start: Any
    goal: Any
    words: str
    """The change in words."""
    record: str | None
    explained_by: str | None
    severity: Severity


class ReportedSituation(msgspec.Struct, frozen=True):
    """An `ObservedSituation` in the report; `evidence` holds positions as text."""

    situation: int
    name: str
    ground: str
    severity: Severity
    sentence: str
    evidence: tuple[str, ...]
    steps: tuple[ReportedStep, ...]


class ReportedHazard(msgspec.Struct, frozen=True):
    """A `Hazard` in the report; `record` is a position as text."""

    danger: str
    reason: str
    record: str


class ReportedWrite(msgspec.Struct, frozen=True):
    """An `InterimWrite` in the report."""

    request: str
    records: tuple[str, ...]
    views: tuple[ReleaseView, ...]
    """Views of the older and of the newer release after the write."""


class ReportedConnector(msgspec.Struct, frozen=True):
    """A `ConnectorAssessment` in the report; a `connector` of None is the cluster."""

    connector: str | None
    verdict: str
    views: tuple[ReleaseView, ...]
    divergences: tuple[ReportedDivergence, ...]
    situations: tuple[ReportedSituation, ...]
    hazards: tuple[ReportedHazard, ...]
    writes: tuple[ReportedWrite, ...]

    @property
    def reasons(self) -> list[str]:
        """Reasons of the verdict, one line each."""
        lines = []
        for situation in self.situations:
            text = f"{situation.name} ({situation.ground}): {situation.sentence}"
            lines.append(f"{situation.severity.value}: {text} [{', '.join(situation.evidence)}]")
        for divergence in self.divergences:
            where = "" if divergence.record is None else f" [{divergence.record}]"
            fact = f"{divergence.fact} {divergence.item}".strip()
            lines.append(f"{divergence.severity.value}: {fact}: {divergence.words}{where}")
        return lines + [
            f"{hazard.danger}: {hazard.reason} [{hazard.record}]" for hazard in self.hazards
        ]


class ReportedAssessment(msgspec.Struct, frozen=True, rename={"start": "from", "goal": "to"}):
    """A `ClusterAssessment` in the report; JSON names the releases `from` and `to`."""

    cluster: str
    start: str
    goal: str
    mode: str
    verdict: str
    connectors: tuple[ReportedConnector, ...]
    remarks: tuple[str, ...]
    plan: tuple[ReportedStep, ...]

    def __str__(self) -> str:
        return release_change.change_text(self.start, self.goal, self.mode)


VERDICTS: Mapping[str, ReleaseVerdict] = {level.words: level for level in ReleaseVerdict}
"""Verdicts by their words."""


def reported(assessment: ClusterAssessment, topics: Topics) -> ReportedAssessment:
    """Convert an assessment to its report."""
    roll = assessment.roll
    return ReportedAssessment(
        assessment.cluster,
        roll.start.release,
        roll.goal.release,
        roll.mode.value,
        assessment.verdict.words,
        tuple(_connector(assessed, topics) for assessed in assessment.assessed),
        assessment.remarks,
        tuple(map(_step, assessment.plan)),
    )


def _connector(assessment: ConnectorAssessment, topics: Topics) -> ReportedConnector:
    return ReportedConnector(
        assessment.connector,
        assessment.verdict.words,
        assessment.views,
        tuple(_divergence(divergence, topics) for divergence in assessment.divergences),
        tuple(_situation(situation, topics) for situation in assessment.situations),
        tuple(_hazard(hazard, topics) for hazard in assessment.hazards),
        tuple(_write(write) for write in assessment.writes),
    )


def _divergence(divergence: Divergence, topics: Topics) -> ReportedDivergence:
    change = divergence.change
    before, after = (
        bounded(json_value(change.aspect, change.item, value))
        for value in (change.before, change.after)
    )
    return ReportedDivergence(
        change.aspect.value,
        item(change.aspect, change.item),
        before,
        after,
        change_text(change.aspect, change.item, change.before, change.after),
        None if change.cause is None else place(change.cause, topics),
        divergence.explained,
        divergence.severity,
    )


def _situation(observed: ObservedSituation, topics: Topics) -> ReportedSituation:
    situation, sighting = observed.situation, observed.sighting
    return ReportedSituation(
        situation.number,
        situation.name,
        situation.ground,
        sighting.severity,
        sighting.sentence,
        tuple(place(position, topics) for position in sighting.evidence),
        tuple(map(_step, sighting.steps)),
    )


def _hazard(hazard: Hazard, topics: Topics) -> ReportedHazard:
    return ReportedHazard(
        hazard.danger.value, redacted_text(hazard.reason), place(hazard.position, topics)
    )


def _write(write: InterimWrite) -> ReportedWrite:
    records = tuple(_record(draft.key, draft.value) for draft in write.records)
    return ReportedWrite(write.request, records, (write.older, write.newer))


def _record(key: bytes, value: bytes | None) -> str:
    """A record to be written, on one line."""
    text = "∅" if value is None else str(redacted_value("", value.decode("utf-8", "replace")))
    return f"{key.decode('utf-8', 'replace')} {text}"


def _step(step: PreparationStep) -> ReportedStep:
    return ReportedStep(step.when.value, step.command, step.why)
