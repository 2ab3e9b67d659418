"""Intervals of a timeline: after each record they give the facts of a fold, for every release."""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.order import in_order
from controlplane.core.releases.profiles import PROFILES, Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.core.views.diff import Aspect, diff
from controlplane.core.views.history import history
from replay.archive.archived_cluster import ArchivedCluster
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.timeline.intervals import Interval, SharedInterval
from replay.timeline.passes import timelines
from replay.timeline.work_shares import TimelineJob, TimelineQuery
from tests.conftest import PROVE, examples
from tests.laws.entries import logs, profiles
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import archive

pytestmark = pytest.mark.slow

EXAMPLES = examples(15, proved=500)
PHASES = [*Phase] if PROVE else [Phase.explicit, Phase.reuse, Phase.generate]
TOPICS = Topics()
FOLDED = ("connect-configs", "connect-status")

IntervalFacts = dict[tuple[str, Aspect, str], Any]


def intervals_of(
    cluster: ArchivedCluster, question: TimelineQuery, moment: str | None = None
) -> list[SharedInterval]:
    """Return the timeline of an archive."""
    options = LocalOptions(question.exactly_once, derived=False)
    plan = LocalEngine(cluster, options).plan(moment, question.profiles)
    return [
        shared for _, shared in timelines([TimelineJob(cluster, plan, question)], lambda _: None)
    ]


def facts_of(state: ClusterState) -> IntervalFacts:
    """All facts of a state except source offsets, from `core.views.diff`. A config is one fact."""
    facts: IntervalFacts = {}
    for change in diff(ClusterState(state.profile), state):
        if change.aspect not in (Aspect.CONFIG, Aspect.SOURCE_OFFSET):
            facts[change.connector, change.aspect, change.item] = change.after
    for name, config in state.config.connectors.items():
        facts[name, Aspect.CONFIG, ""] = config
    return facts


def facts_at(intervals: Iterable[Interval], place: dict[Any, int], at: int) -> IntervalFacts:
    """Facts that hold after a record, given by its number in log order."""
    return {
        (interval.connector, interval.aspect, interval.item): interval.value
        for interval in intervals
        if place[interval.since.position] <= at
        and (interval.until is None or place[interval.until.position] > at)
        and not (interval.aspect is Aspect.TASKS and not interval.value)
    }


def check(cluster: ArchivedCluster, log: list[Entry], question: TimelineQuery) -> None:
    """Compare the intervals after every record with a fold, for each requested release."""
    ordered = [entry for entry in in_order(log) if entry.topic in FOLDED]
    place = {entry.position: number for number, entry in enumerate(ordered)}
    shared_intervals = intervals_of(cluster, question)
    for profile in question.profiles:
        intervals = [
            shared.interval for shared in shared_intervals if profile.release in shared.profiles
        ]
        for at in range(len(ordered)):
            state = fold(ordered[: at + 1], profile, exactly_once=question.exactly_once)
            assert facts_at(intervals, place, at) == facts_of(state), (profile, at)


@settings(max_examples=EXAMPLES, phases=PHASES)
@given(logs(30, FOLDED), st.lists(profiles, min_size=1, max_size=4, unique=True), st.booleans())
def test_intervals_equal_a_fold_after_every_record(
    log: list[Entry], readers: list[Profile], exactly_once: bool
) -> None:
    """One pass over several releases gives the facts of a fold after every record."""
    if exactly_once:
        readers = [reader for reader in readers if reader.exactly_once_support] or [
            Profile.of("kip")
        ]
    with TemporaryDirectory() as folder:
        check(archive(Path(folder), log), log, TimelineQuery(readers, exactly_once=exactly_once))


@pytest.mark.parametrize("name", ["roll-3.4-3.9-3.4", "compacted-3.9"])
def test_the_last_intervals_equal_a_fold_for_every_release(name: str, tmp_path: Path) -> None:
    """The intervals that hold at the end equal a fold of the whole log, for every release."""
    log = recorded_entries(name)
    shared_intervals = intervals_of(archive(tmp_path, log), TimelineQuery(PROFILES))
    place = {entry.position: number for number, entry in enumerate(in_order(log))}
    for profile in PROFILES:
        intervals = [
            shared.interval for shared in shared_intervals if profile.release in shared.profiles
        ]
        assert facts_at(intervals, place, len(log)) == facts_of(fold(in_order(log), profile))


@settings(max_examples=EXAMPLES, phases=PHASES)
@given(logs(30), profiles)
def test_source_offsets_are_those_of_the_history(log: list[Entry], profile: Profile) -> None:
    """Intervals of source offsets begin and end exactly at the changes of a connector's history."""
    with TemporaryDirectory() as folder:
        cluster = archive(Path(folder), log)
        shared_intervals = intervals_of(cluster, TimelineQuery([profile], offsets=True))
        read = set(LocalEngine(cluster).plan(None, [profile]).ends)
    visible = [entry for entry in log if entry.topic in read]
    changes: set[tuple[Any, ...]] = set()
    for name in ("a", "b", "a-1", "\ufffd"):
        for event in history(visible, name, profile).events:
            if event.aspect is Aspect.SOURCE_OFFSET:
                if event.before is not None:
                    changes.add((name, "until", event.entry.position))
                if event.after is not None:
                    changes.add((name, "since", event.entry.position))
    bounds = set()
    for interval in (shared.interval for shared in shared_intervals):
        if interval.aspect is Aspect.SOURCE_OFFSET and interval.connector in (
            "a",
            "b",
            "a-1",
            "\ufffd",
        ):
            bounds.add((interval.connector, "since", interval.since.position))
            if interval.until is not None:
                bounds.add((interval.connector, "until", interval.until.position))
    assert bounds == changes


def test_a_prefix_has_the_intervals_that_began_before_its_end(tmp_path: Path) -> None:
    """An interval that ends after the prefix has no end (`until` is None).

    The query selects one connector; the others are left out.
    """
    cluster = archive(tmp_path, recorded_entries("roll-3.4-3.9-3.4"))
    question = TimelineQuery([Profile.of("3.9")], ["pages"])
    (interval,) = (
        shared.interval
        for shared in intervals_of(cluster, question, "config@10")
        if shared.interval.aspect is Aspect.TARGET_STATE
    )
    assert (interval.connector, interval.value, interval.until) == ("pages", "STARTED", None)
    states = [
        (shared.interval.value, shared.interval.since.position.offset)
        for shared in intervals_of(cluster, question)
        if shared.interval.aspect is Aspect.TARGET_STATE
    ]
    assert states == [("STARTED", 1), ("STOPPED", 11), ("PAUSED", 15), ("STARTED", 16)]
