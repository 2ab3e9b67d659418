"""Collection of everything that a page shows of one cluster, from its records."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from controlplane.core.entry import Entry, Position
from controlplane.core.records import Target
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ConfigState, Topics
from controlplane.core.text.record_text import PlaceFormatter, key, place, value
from controlplane.core.text.redaction import redacted_text
from controlplane.core.views.hazards import Danger
from controlplane.page.timeline import TimeRange
from replay.audit import ClusterLog, audited
from replay.audit.decoded_log import DecodedRecord
from replay.audit.trail.request_trail import TrailTask
from replay.compat import ReleaseVerdict, assess_each, roll
from replay.compat.assessment import hazard_severity
from replay.compat.assessment_report import (
    VERDICTS,
    ReportedAssessment,
    ReportedConnector,
    reported,
)
from replay.doubts import AnswerDoubts, Doubt, MayBeOlder, never_older
from replay.findings import Finding, Severity
from replay.gaps import OffsetGap
from replay.lint import lint
from replay.report.connector_timelines import ConnectorActivity, by_state
from replay.report.evidence_order import ends_of, named
from replay.report.page_facts import (
    ClusterFacts,
    FindingFacts,
    FindingsFacts,
    GapFacts,
    JudgedConnector,
    PartitionFacts,
    ReleaseFacts,
    ReportConnector,
    ShownRecord,
    VerdictReason,
)
from replay.report.page_limits import REASONS, PageLimits

_RANK = {severity: rank for rank, severity in enumerate(Severity)}


class RecordStream(NamedTuple):
    """Records of one cluster, of a log or an archive."""

    cluster: str
    topics: Topics
    exactly_once: bool
    entries: Sequence[Entry]
    """Entries in the one order: the total order of all partitions (`controlplane.core.order`)."""
    head: str | None = None
    gaps: Sequence[OffsetGap] = ()
    """Offsets that were removed from the captured log before a capture read them."""
    doubts: AnswerDoubts = AnswerDoubts()
    """Unknown spans and other doubts that follow from missing offsets."""
    may_be_older: MayBeOlder = never_older
    """True for positions before which records may be missing (see `MayBeOlder`)."""


class ReportTask(TrailTask, frozen=True):
    """Collects the facts of a cluster; they depend only on this task's fields and the records."""

    profile: Profile
    """Release of the workers."""
    goals: tuple[Profile, ...]
    """Releases to compare with."""
    limits: PageLimits

    def __call__(self, log: RecordStream) -> ClusterFacts:
        """Collect the facts of a cluster."""
        return _ReportPass(self, log).facts()


class _ReportPass:
    """Collection of the facts of one cluster, in several passes over its records."""

    def __init__(self, task: ReportTask, log: RecordStream) -> None:
        self._task, self._log = task, log
        support = log.exactly_once and task.profile.exactly_once_support
        trail = task.trail(log.cluster)
        self._cluster = ClusterLog(
            log.cluster, log.entries, task.profile, log.topics, support, trail, log.may_be_older
        )
        self._place = PlaceFormatter(log.topics)
        self._time = _time_of(log.entries, log.topics)
        self._config = ConfigState()
        self._followed: dict[str, ConnectorActivity] = {}
        """Activity of every connector that has a record."""

    def facts(self) -> ClusterFacts:
        log, task = self._log, self._task
        linted, rolls = self._linted(), self._rolls()
        result = audited(self._cluster, listener=self._follow)
        every = self._connectors([*result.findings, *linted], rolls)
        connectors = self._drawn(every[: task.limits.listed])
        wrong, rehearsed = self._findings(result.findings), self._findings(linted)
        changes = tuple(self._change(change, {row.name for row in connectors}) for change in rolls)
        shared = map(self._place, result.shares.positions)
        listed = (*wrong.listed, *rehearsed.listed)
        parts, missing = _parts(log.entries), list(self._missing())
        shown_gaps = tuple(missing[: task.limits.findings])
        beside = chain.from_iterable(gap.places for gap in missing)
        ends = chain(shared, ends_of(self._time, parts, log.topics), beside)
        mentioned = named(listed, ends, changes, connectors)
        evidence = self._evidence(mentioned)
        return ClusterFacts(
            cluster=log.cluster,
            topics=log.topics,
            limits=task.limits,
            release=task.profile.release,
            head=log.head,
            has_trail=bool(task.requests.get(log.cluster)),
            time=self._time,
            parts=parts,
            missing=shown_gaps,
            missing_more=len(missing) - len(shown_gaps),
            certain_from=log.doubts.certain_sentence,
            connectors=connectors,
            connectors_more=len(every) - len(connectors),
            numbers=_numbers(every),
            audited=wrong,
            linted=rehearsed,
            shares=result.shares,
            changes=changes,
            evidence=evidence,
            evidence_more=len(mentioned) - len(evidence),
        )

    def _linted(self) -> list[Finding]:
        log, support = self._log, self._cluster.exactly_once
        profile, topics, name = self._task.profile, log.topics, log.cluster
        return lint(log.entries, profile, topics=topics, cluster=name, exactly_once=support)

    # --- connectors -------------------------------------------------------------------------

    def _follow(self, record: DecodedRecord) -> None:
        """Add a record to the activity of its connector."""
        self._config = record.config  # the last one is the final config: `_connector` reads it
        if record.about is None:
            return
        if record.about not in self._followed:
            # Without a time range, `_drawn` draws no timeline, so any range will do.
            time = self._time or TimeRange(0, 0)
            self._followed[record.about] = ConnectorActivity(
                time, self._place, self._log.may_be_older
            )
        self._followed[record.about].see(record)

    def _connectors(
        self, findings: Iterable[Finding], rolls: Sequence[ReportedAssessment]
    ) -> list[ReportConnector]:
        """All connectors: the worst first, then the most active."""
        worst: dict[str | None, Severity] = {}
        for finding in findings:
            worst[finding.connector] = max(
                finding.severity,
                worst.get(finding.connector, finding.severity),
                key=_RANK.__getitem__,
            )
        verdicts = [
            {connector.connector: VERDICTS[connector.verdict] for connector in roll.connectors}
            for roll in rolls
        ]
        rows = [
            self._connector(
                name,
                activity,
                worst.get(name),
                tuple(each.get(name, ReleaseVerdict.COMPATIBLE) for each in verdicts),
            )
            for name, activity in self._followed.items()
        ]
        return sorted(rows, key=_worst_first)

    def _drawn(self, rows: Sequence[ReportConnector]) -> tuple[ReportConnector, ...]:
        """Add timelines to the first connectors."""
        number = self._task.limits.drawn if self._time is not None else 0
        drawn = (
            msgspec.structs.replace(row, timeline=self._followed[row.name].timeline())
            for row in rows[:number]
        )
        return (*drawn, *rows[number:])

    def _connector(
        self,
        name: str,
        activity: ConnectorActivity,
        worst: Severity | None,
        verdicts: tuple[int, ...],
    ) -> ReportConnector:
        exists = name in self._config.connectors
        target = self._config.targets.get(name, Target.STARTED).value if exists else None
        return ReportConnector(
            name,
            exists,
            target,
            None if activity.reported is None else activity.reported.value,
            by_state(activity.tasks),
            dict(activity.numbers),
            activity.places,
            activity.latest(),
            worst,
            tuple(map(int, verdicts)),
        )

    # --- findings ---------------------------------------------------------------------------

    def _findings(self, findings: Sequence[Finding]) -> FindingsFacts:
        worst_first = sorted(findings, key=lambda finding: -_RANK[finding.severity])
        shown, topics = worst_first[: self._task.limits.findings], self._cluster.topics
        listed = tuple(finding_facts(finding, {self._log.cluster: topics}) for finding in shown)
        return FindingsFacts(listed, _by_severity(findings))

    # --- what is missing --------------------------------------------------------------------

    def _missing(self) -> Iterator[GapFacts]:
        """Gaps and doubts, each with the records before and after it."""
        gaps, doubts = self._log.gaps, self._log.doubts.doubts
        every: list[tuple[OffsetGap | Doubt, int, int | None]] = [
            *((gap, gap.offsets.start, gap.offsets.stop) for gap in gaps),
            # `until - 1` is the first known offset after the missing ones.
            *((doubt, doubt.after + 1, doubt.until and doubt.until - 1) for doubt in doubts),
        ]
        offsets: dict[tuple[str, int], list[int]] = {
            (missing.topic, missing.partition): [] for missing, _, _ in every
        }
        for entry in self._log.entries if offsets else ():
            if (entry.topic, entry.partition) in offsets:
                offsets[entry.topic, entry.partition].append(entry.offset)
        for missing, first, known_from in every:
            where = missing.topic, missing.partition
            beside = _beside(offsets[where], first, known_from)
            places = (self._place(Position(*where, offset)) for offset in beside)
            yield GapFacts(missing.sentence, tuple(places))

    # --- changes of release -----------------------------------------------------------------

    def _rolls(self) -> list[ReportedAssessment]:
        log, profile = self._log, self._task.profile
        assessments = assess_each(
            log.entries,
            [roll(profile, goal) for goal in self._task.goals],
            topics=log.topics,
            cluster=log.cluster,
            # A goal may have the support that `profile` lacks; `assess_each` decides per release.
            exactly_once=log.exactly_once,
        )
        return [reported(assessment, log.topics) for assessment in assessments]

    def _change(self, step: ReportedAssessment, listed: set[str]) -> ReleaseFacts:
        bad = [
            connector
            for connector in step.connectors
            if VERDICTS[connector.verdict] is not ReleaseVerdict.COMPATIBLE
        ]
        shown = [
            connector
            for connector in bad
            if connector.connector is None or connector.connector in listed
        ]
        listed_steps = step.plan[: self._task.limits.findings]
        return ReleaseFacts(
            step.goal,
            VERDICTS[step.verdict],
            tuple(map(judged, shown)),
            len(bad) - len(shown),
            tuple((line.when, line.command, line.why) for line in listed_steps),
            len(step.plan) - len(listed_steps),
        )

    # --- evidence ---------------------------------------------------------------------------

    def _evidence(self, mentioned: dict[str, None]) -> tuple[ShownRecord, ...]:
        """Records to show, in the one order; the first mentioned ones if there are too many."""
        limit = self._task.limits.evidence
        shown = {evidence for evidence, _ in zip(mentioned, range(limit), strict=False)}
        return tuple(
            ShownRecord(at, entry.timestamp, key(entry), value(entry))
            for entry in self._log.entries
            if (at := self._place(entry.position)) in shown
        )


def _beside(offsets: Sequence[int], first: int, known_from: int | None) -> list[int]:
    """Record before the first missing offset, and the first one from `known_from` on."""
    before = offsets[: bisect_left(offsets, first)][-1:]
    after = [] if known_from is None else offsets[bisect_left(offsets, known_from) :][:1]
    return [*before, *after]


def finding_facts(finding: Finding, topics: Mapping[str, Topics]) -> FindingFacts:
    """Convert a finding for the page; `topics` are those of each cluster."""
    return FindingFacts(
        finding.kind,
        finding.severity,
        finding.cluster,
        finding.connector,
        redacted_text(finding.sentence),
        finding.advice,
        tuple(place(position, topics[cluster]) for cluster, position in finding.places),
        finding.clusters,
    )


def _worst_first(connector: ReportConnector) -> tuple[object, ...]:
    rank = -1 if connector.worst is None else _RANK[connector.worst]
    # Routine commits of offsets would outweigh all other events.
    happened = sum(number for kind, number in connector.numbers.items() if kind != "moved")
    return (
        -rank,
        -max(connector.verdicts, default=0),
        not connector.there,
        -happened,
        connector.name,
    )


def judged(connector: ReportedConnector) -> JudgedConnector:
    """Return the verdict about a connector, with its worst reasons."""
    reasons = [
        VerdictReason(
            each.severity, _situation_text(each.name, each.ground, each.sentence), each.evidence
        )
        for each in connector.situations
    ]
    reasons += [
        VerdictReason(
            each.severity, f"{each.fact} {each.item}: {each.words}", _places_of(each.record)
        )
        for each in connector.divergences
        # The situation that explains a divergence is a reason already.
        if each.explained_by is None
    ]
    reasons += [
        VerdictReason(
            hazard_severity(Danger(each.danger)), f"{each.danger}: {each.reason}", (each.record,)
        )
        for each in connector.hazards
    ]
    reasons.sort(key=lambda each: -_RANK[each.severity])
    shown = tuple(reasons[:REASONS])
    return JudgedConnector(
        connector.connector, VERDICTS[connector.verdict], shown, len(reasons) - len(shown)
    )


def _situation_text(name: str, ground: str, sentence: str) -> str:
    return f"{name} ({ground}): {sentence}"


def _places_of(record: str | None) -> tuple[str, ...]:
    return () if record is None else (record,)


def _time_of(entries: Sequence[Entry], topics: Topics) -> TimeRange | None:
    """Time range of the records; None if no record has a time."""
    timed = [entry for entry in entries if entry.timestamp >= 0]
    if not timed:
        return None
    first, last = min(timed, key=_at), max(timed, key=_at)
    named = (place(entry.position, topics) for entry in (first, last))
    return TimeRange(first.timestamp, last.timestamp, *named)


def _at(entry: Entry) -> int:
    return entry.timestamp


def _parts(entries: Iterable[Entry]) -> tuple[PartitionFacts, ...]:
    offsets: dict[tuple[str, int], list[int]] = {}
    for entry in entries:
        numbers_of = offsets.setdefault((entry.topic, entry.partition), [0, entry.offset, 0])
        numbers_of[0] += 1
        numbers_of[2] = entry.offset
    return tuple(PartitionFacts(*where, *numbers) for where, numbers in sorted(offsets.items()))


def _numbers(connectors: Iterable[ReportConnector]) -> dict[str, int]:
    """Number of connectors, in total and by reported state."""
    existing = [connector for connector in connectors if connector.there]
    states = Counter(connector.reported or "UNKNOWN" for connector in existing)
    # The fleet table adds this number to that of FAILED connectors: each counts once.
    failed = sum(
        "FAILED" in connector.tasks and connector.reported != "FAILED" for connector in existing
    )
    return {"there": len(existing), "with failed tasks": failed, **states}


def _by_severity(findings: Iterable[Finding]) -> dict[str, int]:
    numbers = Counter(finding.severity for finding in findings)
    return {severity.value: numbers[severity] for severity in reversed(Severity)}
