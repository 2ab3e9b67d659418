"""Going over the records of clusters, and telling what is found on the way."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import NamedTuple, TypeVar

from controlplane.core.profiles import Profile
from replay.engine.executors import Executor, InTurn
from replay.progress import Advance
from replay.timeline.decoding import decoded
from replay.timeline.digests import Digesting, Work, several
from replay.timeline.follower import Follower, Wanted
from replay.timeline.intervals import Interval, Moment, Moments, Seen, alike, names
from replay.timeline.sharing import Job, Share, Step, gone_over
from replay.timeline.together import Together

F = TypeVar("F")

ALONE = InTurn()


def told_of(job: Job) -> list[str]:
    """The topics that a timeline is about."""
    topics = job.plan.topics
    some = (topics.config, topics.status)
    return [
        topic
        for topic in job.plan.ends
        if topic in some or (job.question.offsets and topic != topics.commands)
    ]


def timelines(
    jobs: Sequence[Job], advance: Advance, by: Executor = ALONE
) -> Iterator[tuple[Job, Seen]]:
    """Facts as intervals, topic by topic: those that ended by their end, then those that hold.

    Raises:
        ArchiveCorrupt: a file is missing or damaged.
    """
    for job, steps in gone_over(jobs, told_of, followed, by):
        for step in steps:
            for seen in alike(step.found, job.question.profiles):
                yield job, seen
            advance(step.records)


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


def _uncollected(
    work: Callable[[Share], Iterator[Step[F]]],
) -> Callable[[Share], Iterator[Step[F]]]:
    @wraps(work)
    def alone(share: Share) -> Iterator[Step[F]]:
        with _without_collector():
            yield from work(share)

    return alone


@_uncollected
def followed(share: Share) -> Iterator[Step[list[Interval]]]:
    """The facts of a topic that ended, step by step; in a last step those that hold."""
    plan, question = share.job.plan, share.job.question
    connectors = frozenset(question.connectors)
    wanted = Wanted(share.topic, plan.topics, connectors, share.sees_aborted)
    reading = Together(share.profiles, Follower(wanted, share.profiles[0]))
    for some in share.steps():
        found = reading.take(decoded(some, share.profiles, plan.topics.config))
        yield Step(len(some), found)
    yield Step(0, reading.rest())


class SeenDigest(NamedTuple):
    """A digest, and the releases that come to it."""

    profiles: tuple[str, ...]
    after: Moment
    """The record with which it begins to be that of what is known."""
    digest: str


def digests(
    jobs: Sequence[Job], advance: Advance, by: Executor = ALONE
) -> Iterator[tuple[Job, SeenDigest]]:
    """The digest of what the config topic says after each of its records, for every release.

    Raises:
        ArchiveCorrupt: a file is missing or damaged.
    """
    for job, steps in gone_over(jobs, lambda job: [job.plan.topics.config], digested, by):
        for step in steps:
            for seen in _digests(step, job.question.profiles):
                yield job, seen
            advance(step.records)


@_uncollected
def digested(share: Share) -> Iterator[Step[bytes]]:
    """The digests behind the records of the config topic, step by step."""
    topics = share.job.plan.topics
    seen = share.sees_aborted
    reading = Together(share.profiles, Digesting(topics, share.profiles[0]))
    for some in share.steps():
        visible = [one for one in some if seen or not one.entry.aborted]
        found = reading.take(Work(decoded(visible, share.profiles, share.topic)))
        moments = (Moment(one.time_ms, one.entry.position) for one in visible)
        yield Step(len(some), found, Moments(share.topic, moments))


def _digests(step: Step[bytes], asked: Sequence[Profile]) -> Iterator[SeenDigest]:
    """Behind each record, each digest once, with all the releases that come to it."""
    releases = _Releases([profiles for profiles, _ in step.found], asked)
    columns = zip(*(several(digests) for _, digests in step.found), strict=True)
    for after, digests in zip(step.moments, columns, strict=True):
        same: dict[bytes, tuple[int, ...]] = {}
        for group, one in enumerate(digests):
            same[one] = (*same.get(one, ()), group)
        for one, those in same.items():
            yield SeenDigest(releases[those], after, one.hex())


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
