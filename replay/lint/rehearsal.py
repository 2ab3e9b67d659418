"""Comparison of running workers with a worker that starts after compaction.

The log is compacted as Kafka may compact it at any time. It is folded as a worker of the release
folds it. The differences from the fold of the whole log are the facts that a restarted worker would
read differently.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from controlplane.core.entry import Entry, Position
from controlplane.core.fold import Fold
from controlplane.core.fold.bulk import load_entries
from controlplane.core.java import json_codec
from controlplane.core.order import in_order
from controlplane.core.records import Target
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.core.text.safe_text import count
from controlplane.core.text.value_text import change as change_text
from controlplane.core.text.value_text import item
from controlplane.core.views.diff import Aspect, Change, diff
from controlplane.core.views.hazards import Danger, Hazard, hazards
from replay.compat.preparation import append_command, rerun
from replay.findings import Finding, FindingText, Severity, by_name, regeneration
from replay.lint.log_cleaner import cleaned

CHANGES_SHOWN = 5
"""Changed facts that a sentence lists; further ones are counted."""

_WITHOUT_TOMBSTONES = ". This finding applies once compaction has removed the log's tombstones, too"


def lint(
    entries: Iterable[Entry],
    profile: Profile,
    *,
    topics: Topics | None = None,
    cluster: str = "",
    exactly_once: bool = False,
) -> list[Finding]:
    """Find the connectors that would change if the log were compacted and a worker restarted.

    Findings are ordered by connector, kind and records. The compacted log is read twice: with its
    tombstones, and without them. A finding of both readings is reported once. `exactly_once`: the
    workers do not see aborted configs and offsets.
    """
    log, names = in_order(entries), topics or Topics()

    def folded(read: Sequence[Entry]) -> ClusterState:
        worker = Fold(profile, topics=names, exactly_once=exactly_once)
        load_entries(worker, read)
        return worker.snapshot()

    def hazards_met(read: Sequence[Entry]) -> list[Hazard]:
        return hazards(read, profile, topics=names, exactly_once=exactly_once)

    running, dangers = folded(log), hazards_met(log)
    findings: dict[Hashable, Finding] = {}
    records = -1
    for tombstones, later in ((True, ""), (False, _WITHOUT_TOMBSTONES)):
        left = cleaned(log, names, tombstones=tombstones)
        if len(left) == records:
            break  # the compacted log has no tombstones, so a second reading would be the same
        records = len(left)
        rehearsal = Rehearsal(cluster, *_comparable((running, log), (folded(left), left)), later)
        for finding in (
            *rehearsal.findings(),
            *_thrown(cluster, dangers, hazards_met(left), later),
        ):
            problem = finding.sentence.removesuffix(later)
            findings.setdefault(
                (finding.kind, finding.connector, finding.evidence, problem), finding
            )
    return sorted(findings.values(), key=_order)


def _order(finding: Finding) -> tuple[tuple[bool, str], str, tuple[Position, ...]]:
    return by_name(finding.connector), finding.kind, finding.evidence


class Rehearsal(msgspec.Struct, frozen=True):
    """Two workers of one release: one has been running, the other has just started."""

    cluster: str
    running: ClusterState
    started: ClusterState
    later: str
    """Last sentence of each finding: when the difference appears; empty if at once."""

    def findings(self) -> Iterator[Finding]:
        """Yield differences between the two, and tasks of deleted connectors, by connector."""
        changes: dict[str, list[Change]] = defaultdict(list)
        for change in diff(self.running, self.started):
            changes[change.connector].append(change)
        for name in {**changes, **dict.fromkeys(self.started.config.task_counts)}:
            yield from self._findings_of(name, changes.get(name, []))

    def _findings_of(self, name: str, changes: list[Change]) -> Iterator[Finding]:
        """Yield the findings about one connector; the first matching rule reports a change."""
        for rule in _RULES:
            finding, covered = rule(self, name, changes)
            if finding is not None:
                yield finding
            gone = set(map(id, covered))  # a comparison of many changes would take long
            changes = [change for change in changes if id(change) not in gone]

    def finding(
        self,
        kind: str,
        name: str,
        severity: Severity,
        evidence: Iterable[Position | None],
        words: FindingText,
    ) -> Finding:
        """Create a finding of this rehearsal."""
        places = tuple(sorted({place for place in evidence if place is not None}))
        text = f"{words.sentence}{self.later}"
        return Finding(kind, severity, self.cluster, name, places, text, words.advice)

    def place(self, name: str, aspect: Aspect) -> Position | None:
        """Record that last changed a fact for the running worker, or else for the started one."""
        changed = self.running.changed
        return changed.get((name, aspect, "")) or self.started.changed.get((name, aspect, ""))


_ReadLog = tuple[ClusterState, Sequence[Entry]]
"""A state, and the records that made it."""


def _comparable(running: _ReadLog, started: _ReadLog) -> tuple[ClusterState, ClusterState]:
    """Both states, without source offsets if these cannot differ: there may be many."""
    states = running[0], started[0]
    # A config may name the offsets topic that counts. So equal offsets suffice only if the configs
    # are equal, too.
    configs = [state.config.connectors for state in states]
    if states[0].offsets != states[1].offsets or configs[0] != configs[1]:
        return _with_causes(running), _with_causes(started)
    return replace(states[0], offsets={}), replace(states[1], offsets={})


def _with_causes(read_log: _ReadLog) -> ClusterState:
    """The state with the position of each offset's last record, as the cause of differences."""
    state, read = read_log
    aborted_counts = {
        topic: state.topics.sees_aborted(topic, exactly_once=state.exactly_once)
        for topic in state.offsets
    }
    causes = {
        (entry.topic, entry.key): entry.position
        for entry in read
        if entry.topic in aborted_counts and (aborted_counts[entry.topic] or not entry.aborted)
    }
    return replace(state, causes={**state.causes, **causes})


_FindingGroup = tuple[Finding | None, Sequence[Change]]
"""A finding, and the changes that it covers."""

_TASKS = (Aspect.TASKS, Aspect.TASK_CONFIG)
_REPORTED = (Aspect.STATUS, Aspect.TASK_STATUS)


def _inconsistent(rehearsal: Rehearsal, name: str, changes: list[Change]) -> _FindingGroup:
    """Finding for a commit with missing task configs after compaction, and its changes."""
    if not any(change.aspect is Aspect.INCONSISTENT and change.after for change in changes):
        return None, ()
    target = rehearsal.started.config.targets.get(name, Target.STARTED)
    finding = rehearsal.finding(
        "inconsistent",
        name,
        Severity.DANGER,
        (rehearsal.place(name, Aspect.TASKS),),
        FindingText(
            "becomes inconsistent: task configs of its last commit are missing, so it has no "
            f"tasks. {regeneration(runs=target is Target.STARTED).capitalize()}",
            rerun(name) if target is Target.PAUSED else "",
        ),
    )
    return finding, [
        change for change in changes if change.aspect in (*_TASKS, Aspect.INCONSISTENT)
    ]


def _tasks_lost(rehearsal: Rehearsal, name: str, changes: list[Change]) -> _FindingGroup:
    """Finding for lost tasks: their commit precedes the config (KAFKA-17719), or is removed."""
    lost = [
        change
        for change in changes
        if change.aspect is Aspect.TASKS and change.after < change.before
    ]
    config = rehearsal.started.config
    if not lost or name not in config.connectors:
        return None, ()
    target = config.targets.get(name, Target.STARTED)
    finding = rehearsal.finding(
        "tasks-lost",
        name,
        _BADNESS[target],
        (rehearsal.place(name, Aspect.TASKS), rehearsal.place(name, Aspect.CONFIG)),
        FindingText(
            f"loses {count(lost[0].before - lost[0].after, 'task')}: {_why_lost(rehearsal)}. "
            f"{regeneration(runs=target is Target.STARTED).capitalize()}",
            rerun(name) if target is Target.PAUSED else "",
        ),
    )
    return finding, [change for change in changes if change.aspect in _TASKS]


_BADNESS = {
    Target.STARTED: Severity.WARNING,
    Target.PAUSED: Severity.DANGER,
    Target.STOPPED: Severity.INFO,
}
"""Severity of lost tasks, by target state; a stopped connector needs no tasks."""


def _why_lost(rehearsal: Rehearsal) -> str:
    if rehearsal.started.profile.commit_needs_config:
        return "they were committed before its config, and compaction keeps only its last config"
    return "compaction removes the last commit that this release can read"


def _zombies(rehearsal: Rehearsal, name: str, changes: list[Change]) -> _FindingGroup:
    """KAFKA-16838: tasks of a deleted connector are taken for those of its successor."""
    config = rehearsal.started.config
    tasks = len(config.task_ids(name))
    if not tasks or name in config.connectors:
        return None, ()
    key = json_codec.encode_key(f"commit-{name}").decode("utf-8", "replace")
    finding = rehearsal.finding(
        "zombie-tasks",
        name,
        Severity.WARNING,
        (
            rehearsal.place(name, Aspect.CONFIG),
            rehearsal.started.changed.get((name, Aspect.TASKS, "")),
        ),
        FindingText(
            f"was deleted, but {count(tasks, 'task')} of it {'comes' if tasks == 1 else 'come'} "
            "back: a new connector of this name starts with them",
            append_command(rehearsal.started.topics.config, 0, key, '{"tasks":0}'),
        ),
    )
    return finding, [change for change in changes if change.aspect in _TASKS]


def _status_lost(rehearsal: Rehearsal, name: str, changes: list[Change]) -> _FindingGroup:
    """The last report is unreadable, and earlier ones are gone."""
    lost = [change for change in changes if change.aspect in _REPORTED and change.after is None]
    whole = any(change.aspect is Aspect.STATUS for change in lost)
    subject = "its status (404)" if whole else f"the status of {count(len(lost), 'task')}"
    text = f"loses {subject} until it is reported again"
    return _about_reports(rehearsal, name, "status-lost", text, lost)


def _status_back(rehearsal: Rehearsal, name: str, changes: list[Change]) -> _FindingGroup:
    """The tombstone of a report is gone, but the report remains."""
    back = [change for change in changes if change.aspect in _REPORTED and change.before is None]
    text = f"shows {count(len(back), 'report')} again that had been removed"
    return _about_reports(rehearsal, name, "status-returns", text, back)


def _about_reports(
    rehearsal: Rehearsal, name: str, kind: str, text: str, covered: list[Change]
) -> _FindingGroup:
    if not covered:
        return None, covered
    causes = (change.cause for change in covered)
    return rehearsal.finding(kind, name, Severity.INFO, causes, FindingText(text)), covered


def _otherwise(rehearsal: Rehearsal, name: str, changes: list[Change]) -> _FindingGroup:
    if not changes:
        return None, ()
    words = list(map(_words, changes[:CHANGES_SHOWN]))
    unlisted = len(changes) - len(words)
    tail = f" and {unlisted} more" if unlisted else ""
    finding = rehearsal.finding(
        "reads-otherwise",
        name,
        Severity.WARNING,
        (change.cause for change in changes),
        FindingText(
            f"is read differently: {'; '.join(words)}{tail}",
            "check these records, and write the intended values again",
        ),
    )
    return finding, changes


def _words(change: Change) -> str:
    aspect, name = change.aspect, item(change.aspect, change.item)
    subject = f"{aspect.value} {name}" if name else aspect.value
    return f"{subject}: {change_text(aspect, change.item, change.before, change.after)}"


_RULES: tuple[Callable[[Rehearsal, str, list[Change]], _FindingGroup], ...] = (
    _inconsistent,
    _tasks_lost,
    _zombies,
    _status_lost,
    _status_back,
    _otherwise,
)


# --- records that throw -------------------------------------------------------------------------

_THROWN = (Danger.STOPS_WORKER, Danger.LOSES_BATCH, Danger.READ_FAILS)


def _thrown(
    cluster: str, before: Iterable[Hazard], after: Iterable[Hazard], later: str
) -> Iterator[Finding]:
    """Findings for records on which a worker fails only after compaction removed other records."""
    met_before = {(earlier.position, earlier.danger) for earlier in before}
    for hazard in after:
        if hazard.danger in _THROWN and (hazard.position, hazard.danger) not in met_before:
            yield Finding(
                "chokes",
                Severity.DANGER,
                cluster,
                hazard.connector,
                (hazard.position,),
                f"{hazard.danger.value}: {hazard.reason}{later}",
                "prevent compaction of the topic until another record replaces this one",
            )
