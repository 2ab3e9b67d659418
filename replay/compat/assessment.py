"""Compatibility verdict for a release change, per connector, with reasons.

Pure: entries in, values out. A divergence is a fact that the two releases read differently. Known
situations explain divergences; unexplained ones need attention.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

import msgspec

from controlplane.core.entry import Entry
from controlplane.core.moments import position_text
from controlplane.core.state import Topics
from controlplane.core.views.diff import Aspect, Change, diff
from controlplane.core.views.hazards import Danger, Hazard
from replay.compat.interim_writes import InterimWrite, interim_remark, next_writes, remarks
from replay.compat.log_evidence import LogEvidence
from replay.compat.log_readings import LogReadings
from replay.compat.preparation import PreparationStep, StepTime
from replay.compat.release_change import ReleaseChange
from replay.compat.situation import DetectedSituation, Situation
from replay.compat.situations import ABORTED, SITUATIONS
from replay.compat.situations.state_commands import harmless_write
from replay.compat.worker_views import ReleaseView, view
from replay.findings import Finding, Severity, by_name


class ReleaseVerdict(IntEnum):
    """Verdict on a release change; its number is the exit code."""

    COMPATIBLE = 0
    NEEDS_PREPARATION = 1
    UNSAFE = 2

    @property
    def words(self) -> str:
        """The verdict for people: `needs preparation`."""
        return self.name.lower().replace("_", " ")


_VERDICTS = {
    Severity.INFO: ReleaseVerdict.COMPATIBLE,
    Severity.WARNING: ReleaseVerdict.NEEDS_PREPARATION,
    Severity.DANGER: ReleaseVerdict.UNSAFE,
}

_HAZARDOUS = {
    Danger.STOPS_WORKER: Severity.DANGER,
    Danger.LOSES_BATCH: Severity.DANGER,
    Danger.READ_FAILS: Severity.DANGER,
    Danger.OFFSETS_DISAGREE: Severity.WARNING,
}
"""Severity of hazards that the new release brings; see `hazard_severity`."""

_REPLACE = (
    "# write a valid record under the key of the record at {}, and let the topic be compacted"
)

_MENDING = {
    Danger.STOPS_WORKER: _REPLACE,
    Danger.LOSES_BATCH: _REPLACE,
    Danger.READ_FAILS: "# let the connector commit its tasks again, after {}",
}
"""Remedy of a hazard as a shell comment; `{}` is the position of its record."""

_REPORTED = {Aspect.STATUS, Aspect.TASK_STATUS, Aspect.ACTIVE_TOPIC}
"""Aspects that a worker reports anew by itself: differences in them heal."""


class ObservedSituation(msgspec.Struct, frozen=True):
    """A situation of a connector or of the cluster."""

    situation: Situation
    sighting: DetectedSituation

    def finding(self, cluster: str) -> Finding:
        """The situation as a finding; its advice joins the commands of all steps."""
        sighting = self.sighting
        advice = "; ".join(step.command for step in sighting.steps)
        return Finding(
            self.situation.name,
            sighting.severity,
            cluster,
            sighting.connector,
            sighting.evidence,
            sighting.sentence,
            advice,
        )


class Divergence(msgspec.Struct, frozen=True):
    """A fact that the two releases read differently.

    `change` has the value of the start (`before`), then the value of the goal (`after`).
    """

    change: Change
    explained: str | None
    """Situation that explains it."""
    severity: Severity


class ConnectorAssessment(msgspec.Struct, frozen=True):
    """Assessment of one connector or of the cluster as a whole."""

    connector: str | None
    """None for the cluster. A connector may have an empty name."""
    views: tuple[ReleaseView, ...]
    """View of a worker of the present release, and of one of the future release."""
    divergences: tuple[Divergence, ...]
    situations: tuple[ObservedSituation, ...]
    hazards: tuple[Hazard, ...]
    """Hazards that the change brings: a worker of the future release meets them (`_hazards`)."""
    writes: tuple[InterimWrite, ...]
    """Next records of an older worker while both releases run."""
    steps: tuple[PreparationStep, ...]
    """Steps of the preparation."""

    @property
    def verdict(self) -> ReleaseVerdict:
        """Worst verdict of the situations, divergences and hazards; compatible without any."""
        severities = [situation.sighting.counts_as for situation in self.situations]
        severities += [divergence.severity for divergence in self.divergences]
        severities += [hazard_severity(hazard.danger) for hazard in self.hazards]
        return max(
            (_VERDICTS[severity] for severity in severities), default=ReleaseVerdict.COMPATIBLE
        )


def hazard_severity(danger: Danger) -> Severity:
    """Severity of a hazard that the new release brings."""
    return _HAZARDOUS.get(danger, Severity.INFO)


class ClusterAssessment(msgspec.Struct, frozen=True):
    """Assessment of one cluster for one release change."""

    cluster: str
    roll: ReleaseChange
    assessed: tuple[ConnectorAssessment, ...]
    remarks: tuple[str, ...]
    """Limitations during and after the change, and the states that workers report meanwhile."""

    @property
    def verdict(self) -> ReleaseVerdict:
        """Worst verdict of all connectors; compatible without any."""
        return max(
            (assessed.verdict for assessed in self.assessed), default=ReleaseVerdict.COMPATIBLE
        )

    @property
    def plan(self) -> list[PreparationStep]:
        """All steps of the preparation, in order, each once.

        Steps for the whole cluster come last in their phase, because they may need all workers to
        be stopped.
        """
        why: dict[tuple[StepTime, str], dict[str, None]] = defaultdict(dict)
        for assessed_connector in sorted(
            self.assessed, key=lambda assessed_connector: assessed_connector.connector is None
        ):
            for step in assessed_connector.steps:
                why[step.when, step.command][step.why] = None
        steps = (
            PreparationStep(when, command, "; ".join(reasons))
            for (when, command), reasons in why.items()
        )
        return sorted(steps, key=lambda step: list(StepTime).index(step.when))

    @property
    def findings(self) -> list[Finding]:
        """All situations as findings, connector by connector."""
        return [
            situation.finding(self.cluster)
            for assessed in self.assessed
            for situation in assessed.situations
        ]


def assess(
    entries: Iterable[Entry],
    roll: ReleaseChange,
    *,
    topics: Topics | None = None,
    cluster: str = "",
    exactly_once: bool = False,
) -> ClusterAssessment:
    """Assess every connector of one cluster for a release change (`assess_each`)."""
    (assessment,) = assess_each(
        entries, (roll,), topics=topics, cluster=cluster, exactly_once=exactly_once
    )
    return assessment


def assess_each(
    entries: Iterable[Entry],
    rolls: Sequence[ReleaseChange],
    *,
    topics: Topics | None = None,
    cluster: str = "",
    exactly_once: bool = False,
) -> Iterator[ClusterAssessment]:
    """Assess every connector of one cluster for each release change, in their order.

    Releases that read the log alike share the work. `exactly_once` enables exactly-once support on
    all workers whose release has it.
    """
    readings = LogReadings(entries, rolls, topics=topics, exactly_once=exactly_once)
    for roll, offset_changes in zip(rolls, readings.offset_changes(), strict=True):
        evidence = LogEvidence(readings, roll)
        findings = _by_connector(evidence, offset_changes)
        names = sorted(findings, key=by_name)
        assessed = tuple(_assessed(evidence, name, findings[name]) for name in names)
        yield ClusterAssessment(cluster, roll, assessed, tuple(_remarks(evidence)))


def _remarks(evidence: LogEvidence) -> Iterator[str]:
    """Remarks on the change as a whole; none without connectors."""
    roll, state = evidence.roll, evidence.read_by(evidence.roll.start)
    if not state.config.connectors:
        return
    if any(view(state, name).meanwhile for name in state.config.connectors):
        yield interim_remark(roll)
    yield from remarks(roll)


class _ConnectorFindings(NamedTuple):
    """Situations, changes and hazards that concern one connector."""

    seen: list[ObservedSituation]
    changes: list[Change]
    hazards: list[Hazard]


def _by_connector(
    evidence: LogEvidence, offset_changes: Sequence[Change]
) -> dict[str | None, _ConnectorFindings]:
    """Group findings by connector: every connector that a release knows, and others with findings.

    The others are deleted connectors and the cluster as a whole (None).
    """
    existing = {*evidence.newer.config.connectors, *evidence.older.config.connectors}
    findings: dict[str | None, _ConnectorFindings] = defaultdict(
        lambda: _ConnectorFindings([], [], [])
    )
    findings.update({name: _ConnectorFindings([], [], []) for name in existing})
    for observed in _situations(evidence):
        findings[observed.sighting.connector].seen.append(observed)
    for change in _changes(evidence, offset_changes):
        findings[change.connector].changes.append(change)
    for hazard in _hazards(evidence):
        findings[hazard.connector].hazards.append(hazard)
    return findings


def _situations(evidence: LogEvidence) -> Iterable[ObservedSituation]:
    for situation in SITUATIONS:
        if situation.concerns(evidence.roll):
            yield from (
                ObservedSituation(situation, sighting) for sighting in situation.look(evidence)
            )


def _changes(evidence: LogEvidence, offset_changes: Sequence[Change]) -> list[Change]:
    """Differences between the releases, in the order of `diff`."""
    start, goal = evidence.read_by(evidence.roll.start), evidence.read_by(evidence.roll.goal)
    changes = [*diff(start, goal), *offset_changes]
    return sorted(changes, key=lambda change: (change.connector, change.aspect.value, change.item))


def _hazards(evidence: LogEvidence) -> list[Hazard]:
    """Hazards for workers of the future release that workers of the present one do not meet.

    Hazards that stop a starting worker are always included: a running one may have survived them.
    Disagreement on config offsets is judged for these two releases alone (`_disagreement`).
    """
    roll = evidence.roll
    met_at_start = set(evidence.readings.hazards(roll.start))
    new = [
        hazard
        for hazard in evidence.readings.hazards(roll.goal)
        if hazard not in met_at_start or hazard.danger is Danger.STOPS_WORKER
    ]
    others = [hazard for hazard in new if hazard.danger is not Danger.OFFSETS_DISAGREE]
    return others + _disagreement(evidence)


def _disagreement(evidence: LogEvidence) -> list[Hazard]:
    """Hazard of a mixed group whose members never agree on the end of the config topic."""
    older, newer = evidence.older.config.offset, evidence.newer.config.offset
    if not evidence.roll.mixed or older == newer:
        return []
    # The last record may belong to an aborted transaction that not all members see.
    last = evidence.topics.config, max(older, newer) - 1
    place = next(
        entry.position
        for entry in reversed(evidence.entries)
        if (entry.topic, entry.offset) == last
    )
    reason = (
        f"config offsets end at {older} ({evidence.roll.older.release}) and {newer} "
        f"({evidence.roll.newer.release}): the group rebalances until both can read a new record"
    )
    return [Hazard(Danger.OFFSETS_DISAGREE, place, reason)]


def _assessed(
    evidence: LogEvidence, name: str | None, findings: _ConnectorFindings
) -> ConnectorAssessment:
    divergences = tuple(_divergence(change, findings.seen) for change in findings.changes)
    situations, met = tuple(findings.seen), tuple(findings.hazards)
    steps = tuple(_steps(evidence, findings))
    if name is None:
        return ConnectorAssessment(None, (), divergences, situations, met, (), steps)
    roll, older, newer = evidence.roll, evidence.older, evidence.newer
    views = (view(evidence.read_by(profile), name) for profile in (roll.start, roll.goal))
    differs = bool(findings.changes or findings.seen) and name in newer.config.connectors
    writes = tuple(next_writes(older, newer, name)) if roll.mixed and differs else ()
    return ConnectorAssessment(name, tuple(views), divergences, situations, met, writes, steps)


def _steps(evidence: LogEvidence, findings: _ConnectorFindings) -> Iterator[PreparationStep]:
    """Steps of the preparation: hazards and disagreements first, as all else depends on them."""
    for hazard in findings.hazards:
        if hazard.danger is Danger.OFFSETS_DISAGREE:
            yield PreparationStep(StepTime.BEFORE, harmless_write(evidence), hazard.danger.value)
        elif hazard.danger in _MENDING:
            place = position_text(hazard.position, evidence.topics)
            yield PreparationStep(
                StepTime.BEFORE, _MENDING[hazard.danger].format(place), hazard.danger.value
            )
    for observed in sorted(
        findings.seen, key=lambda observed: observed.situation.number != ABORTED
    ):
        yield from observed.sighting.steps


def _divergence(change: Change, situations: Sequence[ObservedSituation]) -> Divergence:
    for observed in situations:
        if change.aspect in observed.situation.explains:
            return Divergence(change, observed.situation.name, observed.sighting.counts_as)
    harmless = change.aspect in _REPORTED
    return Divergence(change, None, Severity.INFO if harmless else Severity.WARNING)
