"""States from reduced rows: the core's fold, for any number of releases.

Topics are independent, and most releases read most topics alike. Each topic is folded once for all
releases that agree on every behaviour that the fold consults (`of_each`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from controlplane.core.entry import Batch
from controlplane.core.fold import Fold, TopicSnapshot
from controlplane.core.fold.bulk import BulkLoader
from controlplane.core.releases.profile_groups import of_each
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics

RankedBatches = Callable[[], Sequence[Batch]]
"""Reads the last rows of an offsets topic with their ranks; seldom called."""


class ReducedTopic(NamedTuple):
    """Rows of a topic that remain after the reduction, and the state before them."""

    topic: str
    batches: Sequence[Batch]
    """Rows that count, by partition."""
    ranked: RankedBatches
    begun: Mapping[Profile, TopicSnapshot] = {}
    """State before these rows, by release; empty for a release that is absent."""


class FoldOptions(NamedTuple):
    """Releases of the wanted states, and the end offsets."""

    topics: Topics
    profiles: Sequence[Profile]
    ends: Mapping[str, Sequence[int]]
    exactly_once: bool = False


def states(options: FoldOptions, topics: Iterable[ReducedTopic]) -> list[ClusterState]:
    """Return the state of each release."""
    folds = [
        Fold(profile, topics=options.topics, exactly_once=options.exactly_once)
        for profile in options.profiles
    ]
    for reduced in topics:
        for fold, part in zip(folds, parts(options, reduced), strict=True):
            fold.adopt(reduced.topic, part, ())
    for fold in folds:
        for topic, ends in options.ends.items():
            for partition, end in enumerate(ends):
                fold.advance(topic, partition, end)
    return [fold.snapshot() for fold in folds]


def parts(options: FoldOptions, reduced: ReducedTopic) -> list[TopicSnapshot]:
    """Return the state of one topic for each release."""
    by_profile: dict[Profile, TopicSnapshot] = {}
    for alike in _begun_alike(options.profiles, reduced.begun):
        begun = reduced.begun.get(alike[0])
        answers = of_each(alike, partial(_part, options=options, reduced=reduced, begun=begun))
        by_profile.update(zip(alike, answers, strict=True))
    return [by_profile[profile] for profile in options.profiles]


def _begun_alike(
    profiles: Sequence[Profile], begun: Mapping[Profile, TopicSnapshot]
) -> Iterable[list[Profile]]:
    """Group releases that start from the same state."""
    groups: dict[int, list[Profile]] = {}
    for profile in profiles:
        groups.setdefault(id(begun.get(profile)), []).append(profile)
    return groups.values()


def _part(
    profile: Profile, options: FoldOptions, reduced: ReducedTopic, begun: TopicSnapshot | None
) -> TopicSnapshot:
    fold = Fold(profile, topics=options.topics, exactly_once=options.exactly_once)
    if begun is not None:
        fold.adopt(reduced.topic, begun, ())
    loading = BulkLoader(fold)
    for batch in reduced.batches:
        loading.add(batch)
    contested = loading.finish()
    if contested:
        # The last record of each key and partition suffices: earlier ones have no effect.
        loading.settle(reduced.ranked(), contested)
    return fold.topic_snapshot(reduced.topic)
