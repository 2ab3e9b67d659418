"""Going over the records of a cluster's archive, and telling what is found on the way."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from controlplane.core.evolve import Fold
from controlplane.core.profiles import Profile
from replay.archive.cluster import Cluster
from replay.engine.plan import Plan
from replay.engine.records import ordered
from replay.timeline.decoding import decoded
from replay.timeline.digests import Digesting, Work, shown
from replay.timeline.follower import Follower, Wanted
from replay.timeline.intervals import Moment, Seen, alike, names
from replay.timeline.together import Together, chunks

Advance = Callable[[int], None]
"""Is told of how many records more are done."""


@contextmanager
def _without_collector() -> Iterator[None]:
    """Look for no garbage meanwhile: folds leave none, and looking takes a quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Question(NamedTuple):
    """What is to be told, as whom."""

    profiles: Sequence[Profile]
    connectors: Sequence[str] = ()
    """Only these; none: all."""
    exactly_once: bool = False
    offsets: bool = False
    """Source offsets, too: of most archives nine tenths of the records."""


def told_of(plan: Plan, question: Question) -> list[str]:
    """The topics that a timeline is about."""
    topics = plan.topics
    some = (topics.config, topics.status)
    return [
        topic
        for topic in plan.ends
        if topic in some or (question.offsets and topic != topics.commands)
    ]


def timeline(cluster: Cluster, plan: Plan, question: Question, advance: Advance) -> Iterator[Seen]:
    """Facts as intervals, topic by topic: those that ended by their end, then those that hold.

    The plan must be one for segments alone (`Options.derived`): of what only stands for records,
    nobody can tell since when it has held.

    Raises:
        ArchiveCorrupt: a file is missing or damaged.
    """
    with _without_collector():
        for topic in told_of(plan, question):
            aborted = _seen_by(question, plan, topic)
            wanted = Wanted(topic, plan.topics, frozenset(question.connectors), aborted)
            reading = Together(question.profiles, Follower(wanted, question.profiles[0]))
            for chunk in chunks(ordered(cluster, plan.parts_of(topic))):
                found = reading.take(decoded(chunk, question.profiles, plan.topics.config))
                yield from alike(found, question.profiles)
                advance(len(chunk))
            yield from alike(reading.rest(), question.profiles)


class SeenDigest(NamedTuple):
    """A digest, and the releases that come to it."""

    profiles: tuple[str, ...]
    after: Moment
    """The record with which it begins to be that of what is known."""
    digest: str


def digests(
    cluster: Cluster, plan: Plan, question: Question, advance: Advance
) -> Iterator[SeenDigest]:
    """The digest of what the config topic says after each of its records, for every release.

    Raises:
        ArchiveCorrupt: a file is missing or damaged.
    """
    with _without_collector():
        topic = plan.topics.config
        seen = _seen_by(question, plan, topic)
        reading = Together(question.profiles, Digesting(plan.topics, question.profiles[0]))
        for chunk in chunks(ordered(cluster, plan.parts_of(topic))):
            visible = [one for one in chunk if seen or not one.entry.aborted]
            work = Work(decoded(visible, question.profiles, topic))
            found = reading.take(work)
            releases = _Releases([profiles for profiles, _ in found], question.profiles)
            columns = zip(*(numbers for _, numbers in found), strict=True)
            for one, numbers in zip(visible, columns, strict=True):
                after = Moment(one.time_ms, one.entry.position)
                same: dict[int, tuple[int, ...]] = {}
                for group, number in enumerate(numbers):
                    same[number] = (*same.get(number, ()), group)
                for number, those in same.items():
                    yield SeenDigest(releases[those], after, shown(number))
            advance(len(chunk))


class _Releases(dict[tuple[int, ...], tuple[str, ...]]):
    """The releases of several groups, given by their numbers: a few sets come again and again."""

    def __init__(self, groups: Sequence[Sequence[Profile]], asked: Sequence[Profile]) -> None:
        super().__init__()
        self._groups = groups
        self._asked = asked

    def __missing__(self, those: tuple[int, ...]) -> tuple[str, ...]:
        profiles = [profile for group in those for profile in self._groups[group]]
        found = self[those] = names(profiles, self._asked)
        return found


def _seen_by(question: Question, plan: Plan, topic: str) -> bool:
    """Whether records of aborted transactions are seen there."""
    profile = question.profiles[0]
    fold = Fold(profile, topics=plan.topics, exactly_once=question.exactly_once)
    return fold.sees_aborted(topic)
