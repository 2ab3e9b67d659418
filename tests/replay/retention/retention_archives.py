"""Archives after a retention, and their answers from its cut on.

A retention removes superseded records: no state at or after its cut (a time) depends on them.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from controlplane.core.entry import Entry
from controlplane.core.moments import UnknownMoment
from controlplane.core.order import Ends, RankedEntry
from controlplane.core.releases.profiles import PROFILES, Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.core.topics.key_owners import owner
from replay.archive.archived_cluster import ArchivedCluster
from replay.archive.merges.merge import Merger, MergeResult
from replay.archive.merges.unnamed_files import remove_replaced
from replay.archive.segments.segment_files import SegmentSizes
from replay.archive.stores.store import ArchiveStore, FolderStore
from replay.doubts import DoubtKind
from replay.engine.coverage.certainty import ArchiveCertainty
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.engine.ordered_records import ordered
from replay.engine.plans.retention_plan import older_than
from replay.engine.states.state_digest import digest
from replay.timeline.connector_history import EventEffect, HistoryPass, HistoryReader
from replay.timeline.interval_doubts import IntervalDoubts
from replay.timeline.intervals import SharedInterval
from replay.timeline.passes import SharedDigest, digests, timelines
from replay.timeline.work_shares import TimelineJob, TimelineQuery
from tests.conftest import PROVE
from tests.replay.archive.archives import NAME, replayed
from tests.replay.archive.merges import LARGER

VECTOR = '{"connect-configs":[0]}'
"""Moment for `ArchiveCertainty.doubts`: any vector of offsets.

With a vector, `doubts` takes the end offsets in its other argument as exact. With a time,
`doubts` also has missing offsets right after an end, because they may be older.
"""

READERS = [Profile.of(release) for release in ("2.3", "3.4", "3.9", "kip")]


def retain(store: ArchiveStore, cut_ms: int, sizes: SegmentSizes = LARGER) -> MergeResult:
    """Remove the records that are superseded at the cut, and the replaced files."""
    result = Merger(store, NAME, sizes, older_than(0, cut_ms)).run()
    remove_replaced(store, NAME, 0)
    return result


def retained(folder: Path, cut_ms: int, sizes: SegmentSizes = LARGER) -> MergeResult:
    """Run `retain` on the archive in a folder."""
    return retain(FolderStore(str(folder)), cut_ms, sizes)


def state_contents(states: Sequence[ClusterState]) -> list[tuple[str, ClusterState]]:
    """Digests and states, without unreadable records, because retention may remove them."""
    return [
        (digest(state), replace(state, unreadable={}, unreadable_counts={})) for state in states
    ]


def states_at(cluster: ArchivedCluster, moment: str | None) -> Any:
    """States at a moment, read in three ways, or the text of the refusal.

    The ways: with snapshots and winners (extracts of segments); from segments alone; with
    exactly-once support.
    """
    answers = []
    for options in (
        LocalOptions(),
        LocalOptions(derived=False),
        LocalOptions(exactly_once=True),
    ):
        profiles = [
            each
            for each in (PROFILES if PROVE else READERS)
            if each.exactly_once_support or not options.exactly_once
        ]
        try:
            answers.append(state_contents(replayed(cluster, moment, profiles, options)))
        except UnknownMoment as error:
            return str(error)
    return answers


def doubts_at(cluster: ArchivedCluster, ends: Ends) -> set[tuple[str, int, DoubtKind]]:
    """Doubts about the states at end offsets, without numbers, which depend on segment borders."""
    doubts = ArchiveCertainty(cluster).doubts(ends, VECTOR)
    return {(doubt.topic, doubt.partition, doubt.kind) for doubt in doubts}


class AnswersFrom(NamedTuple):
    """Answers about the time after a cut."""

    records: list[Entry]
    timeline: set[str]
    """Facts that held after the cut. A beginning before the cut is left out, with its doubt."""
    digests: list[SharedDigest]
    history: list[EventEffect]


def answers_from(cluster: ArchivedCluster, cut_ms: int) -> AnswersFrom:
    """All answers about the time after a cut."""
    local = LocalEngine(cluster, LocalOptions(derived=False))
    plan = local.plan(None, PROFILES)
    job = TimelineJob(cluster, plan, TimelineQuery(PROFILES if PROVE else READERS, offsets=True))
    log, doubts = list(ordered(cluster, plan.parts)), IntervalDoubts(cluster, plan.ends)
    return AnswersFrom(
        [ranked.entry for ranked in log if ranked.time_ms > cut_ms],
        {
            row
            for _, shared in timelines([job], lambda _: None)
            for row in _facts_from(shared, doubts, cut_ms)
        },
        [shared for _, shared in digests([job], lambda _: None) if shared.after.time_ms > cut_ms],
        [row for profile in READERS for row in _history_from(log, profile, cut_ms)],
    )


def _facts_from(shared: SharedInterval, doubts: IntervalDoubts, cut_ms: int) -> Iterator[str]:
    fact = shared.interval
    begins_later = fact.since.time_ms > cut_ms
    if fact.until is None or fact.until.time_ms > cut_ms:
        since = (fact.since, doubts.of(fact)) if begins_later else None
        for release in shared.profiles:
            yield repr((release, since, replace(fact, since=None)))


def _history_from(
    log: Sequence[RankedEntry], profile: Profile, cut_ms: int
) -> Iterator[EventEffect]:
    topics = Topics()
    names = {owner(ranked.topic, ranked.entry.key, topics, profile) for ranked in log}
    after = {ranked.entry.position for ranked in log if ranked.time_ms > cut_ms}
    for name in sorted(name for name in names if name is not None):
        reader = HistoryReader(name, profile, topics, exactly_once=False)
        for row in HistoryPass(reader).take(log):
            if row.event.entry.position in after:
                yield row
