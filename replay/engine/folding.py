"""From the rows that count to states: the core's fold, for as many releases as are asked for.

Topics know nothing of each other, and most releases read most topics alike. So each topic is folded
once for all releases that agree in whatever the fold looked at while it read it (`of_each`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from controlplane.core.each_profile import of_each
from controlplane.core.entry import Batch
from controlplane.core.evolve import Fold, Part
from controlplane.core.evolve.bulk import Loading
from controlplane.core.profiles import Profile
from controlplane.core.state import ClusterState, Topics

Ranked = Callable[[], Sequence[Batch]]
"""The last rows of an offsets topic with their ranks: seldom needed, so they are asked for."""


class Reduced(NamedTuple):
    """What is left of a topic."""

    topic: str
    batches: Sequence[Batch]
    """By partition, the rows that count."""
    ranked: Ranked
    begun: Mapping[Profile, Part] = {}
    """What was known before these rows, by release; of a release that is not in it: nothing."""


class Question(NamedTuple):
    """Whose states are wanted, and where reading ended."""

    topics: Topics
    profiles: Sequence[Profile]
    ends: Mapping[str, Sequence[int]]
    exactly_once: bool = False


def states(question: Question, topics: Iterable[Reduced]) -> list[ClusterState]:
    """What a worker of each release knows."""
    folds = [
        Fold(profile, topics=question.topics, exactly_once=question.exactly_once)
        for profile in question.profiles
    ]
    for reduced in topics:
        for fold, part in zip(folds, parts(question, reduced), strict=True):
            fold.adopt(reduced.topic, part, ())
    for fold in folds:
        for topic, ends in question.ends.items():
            for partition, end in enumerate(ends):
                fold.advance(topic, partition, end)
    return [fold.snapshot() for fold in folds]


def parts(question: Question, reduced: Reduced) -> list[Part]:
    """What a worker of each release knows of one topic."""
    found: dict[Profile, Part] = {}
    for alike in _begun_alike(question.profiles, reduced.begun):
        begun = reduced.begun.get(alike[0])
        answers = of_each(alike, partial(_part, question=question, reduced=reduced, begun=begun))
        found.update(zip(alike, answers, strict=True))
    return [found[profile] for profile in question.profiles]


def _begun_alike(
    profiles: Sequence[Profile], begun: Mapping[Profile, Part]
) -> Iterable[list[Profile]]:
    """Releases in groups that begin with one and the same part."""
    groups: dict[int, list[Profile]] = {}
    for profile in profiles:
        groups.setdefault(id(begun.get(profile)), []).append(profile)
    return groups.values()


def _part(profile: Profile, question: Question, reduced: Reduced, begun: Part | None) -> Part:
    fold = Fold(profile, topics=question.topics, exactly_once=question.exactly_once)
    if begun is not None:
        fold.adopt(reduced.topic, begun, ())
    loading = Loading(fold)
    for batch in reduced.batches:
        loading.add(batch)
    contested = loading.finish()
    if contested:
        # The last record of each key and partition is enough: of those before it nothing stays.
        loading.settle(reduced.ranked(), contested)
    return fold.part(reduced.topic)
