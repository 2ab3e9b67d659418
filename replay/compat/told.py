"""An assessment as it is told to people and machines: plain values, without secrets.

The names of the fields are those of the JSON. It can be kept and read back.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from controlplane.core.hazards import Hazard
from controlplane.core.redact import redacted_text, redacted_value
from controlplane.core.shown import bounded, item, shown
from controlplane.core.shown import change as change_text
from controlplane.core.shown_records import place
from controlplane.core.state import Topics
from replay.compat import rolls
from replay.compat.assessing import Assessed, Assessment, Divergence, Seen, Verdict
from replay.compat.steps import Step
from replay.compat.views import View
from replay.compat.writing import Written
from replay.findings import Severity


class ToldStep(msgspec.Struct, frozen=True):
    """`Step`."""

    when: str
    command: str
    why: str


class ToldDivergence(msgspec.Struct, frozen=True, rename={"start": "from", "goal": "to"}):
    """`Divergence`."""

    fact: str
    item: str
    start: Any
    goal: Any
    words: str
    """From what to what, for people."""
    record: str | None
    explained_by: str | None
    severity: Severity


class ToldSituation(msgspec.Struct, frozen=True):
    """`Seen`."""

    situation: int
    name: str
    ground: str
    severity: Severity
    sentence: str
    evidence: tuple[str, ...]
    steps: tuple[ToldStep, ...]


class ToldHazard(msgspec.Struct, frozen=True):
    """`Hazard`."""

    danger: str
    reason: str
    record: str


class ToldWrite(msgspec.Struct, frozen=True):
    """`Written`."""

    request: str
    records: tuple[str, ...]
    views: tuple[View, ...]
    """As the older release reads it then, and as the newer."""


class ToldConnector(msgspec.Struct, frozen=True):
    """`Assessed`."""

    connector: str | None
    verdict: str
    views: tuple[View, ...]
    divergences: tuple[ToldDivergence, ...]
    situations: tuple[ToldSituation, ...]
    hazards: tuple[ToldHazard, ...]
    writes: tuple[ToldWrite, ...]

    @property
    def reasons(self) -> list[str]:
        """Why the verdict is what it is, a line each."""
        lines = []
        for one in self.situations:
            text = f"{one.name} ({one.ground}): {one.sentence}"
            lines.append(f"{one.severity.value}: {text} [{', '.join(one.evidence)}]")
        for found in self.divergences:
            where = "" if found.record is None else f" [{found.record}]"
            fact = f"{found.fact} {found.item}".strip()
            lines.append(f"{found.severity.value}: {fact}: {found.words}{where}")
        return lines + [f"{one.danger}: {one.reason} [{one.record}]" for one in self.hazards]


class ToldRoll(msgspec.Struct, frozen=True, rename={"start": "from", "goal": "to"}):
    """`Assessment`."""

    cluster: str
    start: str
    goal: str
    mode: str
    verdict: str
    connectors: tuple[ToldConnector, ...]
    remarks: tuple[str, ...]
    plan: tuple[ToldStep, ...]

    def __str__(self) -> str:
        return rolls.change_text(self.start, self.goal, self.mode)


VERDICTS: Mapping[str, Verdict] = {one.words: one for one in Verdict}
"""By their words."""


def told(assessment: Assessment, topics: Topics) -> ToldRoll:
    """One change of release."""
    roll = assessment.roll
    return ToldRoll(
        assessment.cluster,
        roll.start.release,
        roll.goal.release,
        roll.mode.value,
        assessment.verdict.words,
        tuple(_connector(one, topics) for one in assessment.assessed),
        assessment.remarks,
        tuple(map(_step, assessment.plan)),
    )


def _connector(one: Assessed, topics: Topics) -> ToldConnector:
    return ToldConnector(
        one.connector,
        one.verdict.words,
        one.views,
        tuple(_divergence(found, topics) for found in one.divergences),
        tuple(_situation(found, topics) for found in one.situations),
        tuple(_hazard(found, topics) for found in one.hazards),
        tuple(_write(found) for found in one.writes),
    )


def _divergence(found: Divergence, topics: Topics) -> ToldDivergence:
    change = found.change
    before, after = (
        bounded(shown(change.aspect, change.item, value)) for value in (change.before, change.after)
    )
    return ToldDivergence(
        change.aspect.value,
        item(change.aspect, change.item),
        before,
        after,
        change_text(change.aspect, change.item, change.before, change.after),
        None if change.cause is None else place(change.cause, topics),
        found.explained,
        found.severity,
    )


def _situation(found: Seen, topics: Topics) -> ToldSituation:
    situation, sighting = found.situation, found.sighting
    return ToldSituation(
        situation.number,
        situation.name,
        situation.ground,
        sighting.severity,
        sighting.sentence,
        tuple(place(one, topics) for one in sighting.evidence),
        tuple(map(_step, sighting.steps)),
    )


def _hazard(found: Hazard, topics: Topics) -> ToldHazard:
    return ToldHazard(
        found.danger.value, redacted_text(found.reason), place(found.position, topics)
    )


def _write(found: Written) -> ToldWrite:
    records = tuple(_record(draft.key, draft.value) for draft in found.records)
    return ToldWrite(found.request, records, (found.older, found.newer))


def _record(key: bytes, value: bytes | None) -> str:
    """A record that is to be written, on one line."""
    text = "∅" if value is None else str(redacted_value("", value.decode("utf-8", "replace")))
    return f"{key.decode('utf-8', 'replace')} {text}"


def _step(step: Step) -> ToldStep:
    return ToldStep(step.when.value, step.command, step.why)
