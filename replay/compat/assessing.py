"""The verdict on a change of release: what each connector would go through, and why.

Pure: entries in, values out. A divergence is a fact that the two releases read differently; a
situation that is known explains some of them. What nothing explains has to be looked at.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

import msgspec

from controlplane.core.diff import Aspect, Change, diff
from controlplane.core.entry import Entry
from controlplane.core.hazards import Danger, Hazard, hazards
from controlplane.core.moments import position_text
from controlplane.core.profiles import Profile
from controlplane.core.state import Topics
from replay.compat.evidence import Evidence
from replay.compat.rolls import Roll
from replay.compat.sightings import Sighting, Situation
from replay.compat.situations import ABORTED, SITUATIONS
from replay.compat.situations.keeping import anything_again
from replay.compat.steps import Step, When
from replay.compat.views import View, view
from replay.compat.writing import Written, interim, next_writes, remarks
from replay.findings import Finding, Severity, by_name


class Verdict(IntEnum):
    """How a change of release goes; its number is the exit code."""

    COMPATIBLE = 0
    NEEDS_PREPARATION = 1
    UNSAFE = 2

    @property
    def words(self) -> str:
        """As people are told."""
        return self.name.lower().replace("_", " ")


_VERDICTS = {
    Severity.INFO: Verdict.COMPATIBLE,
    Severity.WARNING: Verdict.NEEDS_PREPARATION,
    Severity.DANGER: Verdict.UNSAFE,
}

_HAZARDOUS = {
    Danger.STOPS_WORKER: Severity.DANGER,
    Danger.LOSES_BATCH: Severity.DANGER,
    Danger.READ_FAILS: Severity.DANGER,
    Danger.OFFSETS_DISAGREE: Severity.WARNING,
}
"""How bad a hazard is that the release brings which is gone to; all others are worth knowing."""

_REPLACE = "# write a good record under the key of the one at {}, and let the topic be compacted"

_MENDING = {
    Danger.STOPS_WORKER: _REPLACE,
    Danger.LOSES_BATCH: _REPLACE,
    Danger.READ_FAILS: "# let the connector commit its tasks anew, behind {}",
}
"""What is to be done about a hazard before anything else."""

_REPORTED = {Aspect.STATUS, Aspect.TASK_STATUS, Aspect.ACTIVE_TOPIC}
"""What a worker reports anew by itself: a difference there heals."""


class Seen(msgspec.Struct, frozen=True):
    """A situation that a connector, or the cluster, is in."""

    situation: Situation
    sighting: Sighting

    def finding(self, cluster: str) -> Finding:
        """The same as all of replay tells what it finds."""
        one = self.sighting
        advice = "; ".join(step.command for step in one.steps)
        return Finding(
            self.situation.name,
            one.severity,
            cluster,
            one.connector,
            one.evidence,
            one.sentence,
            advice,
        )


class Divergence(msgspec.Struct, frozen=True):
    """One fact that the two releases read differently; the change goes from start to goal."""

    change: Change
    explained: str | None
    """The situation that it belongs to."""
    severity: Severity


class Assessed(msgspec.Struct, frozen=True):
    """One connector, or the cluster as a whole."""

    connector: str | None
    """None: the cluster. A connector may have the empty name."""
    views: tuple[View, ...]
    """As a worker of the start reads the log, and as one of the goal."""
    divergences: tuple[Divergence, ...]
    situations: tuple[Seen, ...]
    hazards: tuple[Hazard, ...]
    """Those that a worker of the goal meets and one of the start did not, when it started."""
    writes: tuple[Written, ...]
    """What an older worker would write next, while both releases live."""
    steps: tuple[Step, ...]
    """What has to be done about it."""

    @property
    def verdict(self) -> Verdict:
        """The worst of all that was found."""
        found = [one.sighting.counts_as for one in self.situations]
        found += [one.severity for one in self.divergences]
        found += [_HAZARDOUS.get(one.danger, Severity.INFO) for one in self.hazards]
        return max((_VERDICTS[one] for one in found), default=Verdict.COMPATIBLE)


class Assessment(msgspec.Struct, frozen=True):
    """One cluster and one change of release."""

    cluster: str
    roll: Roll
    assessed: tuple[Assessed, ...]
    remarks: tuple[str, ...]
    """What does not work while both releases live, or afterwards; what is shown meanwhile."""

    @property
    def verdict(self) -> Verdict:
        """The worst of all connectors."""
        return max((one.verdict for one in self.assessed), default=Verdict.COMPATIBLE)

    @property
    def plan(self) -> list[Step]:
        """What has to be done, in the order in which it is to be done, each thing once.

        For the cluster as a whole it is done last: no worker may be left then who could be asked.
        """
        why: dict[tuple[When, str], dict[str, None]] = defaultdict(dict)
        for one in sorted(self.assessed, key=lambda one: one.connector is None):
            for step in one.steps:
                why[step.when, step.command][step.why] = None
        steps = (Step(when, command, "; ".join(told)) for (when, command), told in why.items())
        return sorted(steps, key=lambda step: list(When).index(step.when))

    @property
    def findings(self) -> list[Finding]:
        """Every situation."""
        return [seen.finding(self.cluster) for one in self.assessed for seen in one.situations]


def assess(
    entries: Iterable[Entry],
    roll: Roll,
    *,
    topics: Topics | None = None,
    cluster: str = "",
    exactly_once: bool = False,
) -> Assessment:
    """What becomes of every connector of one cluster when its workers change their release.

    `exactly_once` says that workers run with exactly-once support, those that have it.
    """
    evidence = Evidence(entries, roll, topics=topics, exactly_once=exactly_once)
    found = _by_connector(evidence)
    names = sorted(found, key=by_name)
    assessed = tuple(_assessed(evidence, name, found[name]) for name in names)
    return Assessment(cluster, roll, assessed, tuple(_remarks(evidence)))


def _remarks(evidence: Evidence) -> Iterator[str]:
    """What is to be known about the change as a whole; nothing where no connector is there."""
    roll, state = evidence.roll, evidence.read_by(evidence.roll.start)
    if not state.config.connectors:
        return
    if any(view(state, name).meanwhile for name in state.config.connectors):
        yield interim(roll)
    yield from remarks(roll)


class _Found(NamedTuple):
    """All that was found about one connector."""

    seen: list[Seen]
    changes: list[Change]
    hazards: list[Hazard]


def _by_connector(evidence: Evidence) -> dict[str | None, _Found]:
    """What was found, of every connector that either release knows and of all that is gone.

    Of the cluster as a whole (None) only if there is something.
    """
    there = {*evidence.newer.config.connectors, *evidence.older.config.connectors}
    found: dict[str | None, _Found] = defaultdict(lambda: _Found([], [], []))
    found.update({name: _Found([], [], []) for name in there})
    for seen in _situations(evidence):
        found[seen.sighting.connector].seen.append(seen)
    for change in _changes(evidence):
        found[change.connector].changes.append(change)
    for hazard in _hazards(evidence):
        found[hazard.connector].hazards.append(hazard)
    return found


def _situations(evidence: Evidence) -> Iterable[Seen]:
    for situation in SITUATIONS:
        if situation.concerns(evidence.roll):
            yield from (Seen(situation, one) for one in situation.look(evidence))


def _changes(evidence: Evidence) -> list[Change]:
    """In what the releases differ. Offsets are traced only if some of them do: that is slow."""
    start, goal = evidence.roll.start, evidence.roll.goal
    found = diff(evidence.read_by(start), evidence.read_by(goal))
    if all(one.cause is not None for one in found):
        return found
    return diff(evidence.state_of(start, trace=True), evidence.state_of(goal, trace=True))


def _hazards(evidence: Evidence) -> list[Hazard]:
    """What workers of the goal meet and those of the start do not.

    And all that keeps them from starting: a worker that runs may have survived it. That members'
    config offsets disagree is a matter of these two releases alone (`_disagreement`).
    """
    roll = evidence.roll
    known, met = (_met(evidence, profile) for profile in (roll.start, roll.goal))
    new = [one for one in met if one not in known or one.danger is Danger.STOPS_WORKER]
    ours = [one for one in new if one.danger is not Danger.OFFSETS_DISAGREE]
    return ours + _disagreement(evidence)


def _met(evidence: Evidence, profile: Profile) -> list[Hazard]:
    support = evidence.exactly_once and profile.exactly_once_support
    return hazards(evidence.entries, profile, topics=evidence.topics, exactly_once=support)


def _disagreement(evidence: Evidence) -> list[Hazard]:
    """Members of a mixed group that never agree on how far the config topic reaches."""
    older, newer = evidence.older.config.offset, evidence.newer.config.offset
    if not evidence.roll.mixed or older == newer:
        return []
    # Not among the records that all see: one of an aborted transaction may be the last of some.
    last = evidence.topics.config, max(older, newer) - 1
    place = next(
        one.position for one in reversed(evidence.entries) if (one.topic, one.offset) == last
    )
    reason = (
        f"the config offset of {evidence.roll.older.release} ends at {older}, that of "
        f"{evidence.roll.newer.release} at {newer}: the group rebalances until another record that "
        "both can read is appended"
    )
    return [Hazard(Danger.OFFSETS_DISAGREE, place, reason)]


def _assessed(evidence: Evidence, name: str | None, found: _Found) -> Assessed:
    divergences = tuple(_divergence(one, found.seen) for one in found.changes)
    seen, met = tuple(found.seen), tuple(found.hazards)
    steps = tuple(_steps(evidence, found))
    if name is None:
        return Assessed(None, (), divergences, seen, met, (), steps)
    roll, older, newer = evidence.roll, evidence.older, evidence.newer
    views = (view(evidence.read_by(profile), name) for profile in (roll.start, roll.goal))
    differs = bool(found.changes or found.seen) and name in newer.config.connectors
    writes = tuple(next_writes(older, newer, name)) if roll.mixed and differs else ()
    return Assessed(name, tuple(views), divergences, seen, met, writes, steps)


def _steps(evidence: Evidence, found: _Found) -> Iterator[Step]:
    """First what workers choke on and what members disagree about; all else builds on that."""
    for hazard in found.hazards:
        if hazard.danger is Danger.OFFSETS_DISAGREE:
            yield Step(When.BEFORE, anything_again(evidence), hazard.danger.value)
        elif hazard.danger in _MENDING:
            place = position_text(hazard.position, evidence.topics)
            yield Step(When.BEFORE, _MENDING[hazard.danger].format(place), hazard.danger.value)
    for one in sorted(found.seen, key=lambda one: one.situation.number != ABORTED):
        yield from one.sighting.steps


def _divergence(change: Change, seen: Sequence[Seen]) -> Divergence:
    for one in seen:
        if change.aspect in one.situation.explains:
            return Divergence(change, one.situation.name, one.sighting.counts_as)
    harmless = change.aspect in _REPORTED
    return Divergence(change, None, Severity.INFO if harmless else Severity.WARNING)
