"""Passes over the records of clusters: timelines and digests."""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import NamedTuple, TypeVar

from controlplane.core.releases.profiles import Profile
from replay.engine.executors import Executor, SerialExecutor
from replay.progress import Advance
from replay.timeline.config_digests import DigestChunk, DigestFold, split_digests
from replay.timeline.decoded_records import decoded
from replay.timeline.digest_shares import (
    DigestShare,
    DigestStep,
    DigestSums,
    ShareKeys,
    digest_shares,
)
from replay.timeline.fact_tracker import FactTracker, TopicSelection
from replay.timeline.intervals import (
    Interval,
    Moment,
    MomentColumns,
    SharedInterval,
    names,
    shared_intervals,
)
from replay.timeline.shared_fold import SharedFold
from replay.timeline.work_shares import ShareStep, TimelineJob, WorkShare, run_shares

T = TypeVar("T")
F = TypeVar("F")

ALONE = SerialExecutor()


def timeline_topics(job: TimelineJob) -> list[str]:
    """Topics that a timeline covers: config and status, and offsets if requested."""
    topics = job.plan.topics
    always = (topics.config, topics.status)
    return [
        topic
        for topic in job.plan.ends
        if topic in always or (job.question.offsets and topic != topics.commands)
    ]


def timelines(
    jobs: Sequence[TimelineJob], advance: Advance, by: Executor = ALONE
) -> Iterator[tuple[TimelineJob, SharedInterval]]:
    """Yield facts as intervals, topic by topic: ended facts first, then those that still hold.

    Raises:
        ArchiveCorrupt: a file is missing or damaged.
    """
    for job, steps in run_shares(jobs, timeline_topics, followed, by):
        for step in steps:
            for shared in shared_intervals(step.found, job.question.profiles):
                yield job, shared
            advance(step.records)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable the garbage collector: it takes a quarter of the time, and folds leave no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _run_without_collector(work: Callable[[T], Iterator[F]]) -> Callable[[T], Iterator[F]]:
    """Decorator: disable the garbage collector while the work runs."""

    @wraps(work)
    def alone(share: T) -> Iterator[F]:
        with _without_collector():
            yield from work(share)

    return alone


@_run_without_collector
def followed(share: WorkShare) -> Iterator[ShareStep[list[Interval]]]:
    """Yield the ended facts of a topic, step by step; last, the facts that still hold."""
    plan, question = share.job.plan, share.job.question
    connectors = frozenset(question.connectors)
    selection = TopicSelection(share.topic, plan.topics, connectors, share.sees_aborted)
    reading = SharedFold(share.profiles, FactTracker(selection, share.profiles[0]))
    for records in share.steps():
        ended = reading.take(decoded(records, share.profiles, plan.topics.config))
        yield ShareStep(len(records), ended)
    yield ShareStep(0, reading.rest())


class SharedDigest(NamedTuple):
    """A digest, and the releases that have it."""

    profiles: tuple[str, ...]
    after: Moment
    """Record after which the state has this digest."""
    digest: str


def digests(
    jobs: Sequence[TimelineJob], advance: Advance, by: Executor = ALONE
) -> Iterator[tuple[TimelineJob, SharedDigest]]:
    """Yield the digest of the config topic after each record, for every release.

    Raises:
        ArchiveCorrupt: a file is missing or damaged.
    """
    shares = digest_shares(jobs, by)
    results = by.run(digested, [share for job_shares in shares for share in job_shares])
    for job, job_shares in zip(jobs, shares, strict=True):
        sums = DigestSums(job.question.profiles)
        for steps in zip(*[next(results) for _ in job_shares], strict=True):
            for shared in _digests(steps[0].moments, sums.add(steps), job.question.profiles):
                yield job, shared
            advance(steps[0].records)


@_run_without_collector
def digested(share: DigestShare) -> Iterator[DigestStep]:
    """Yield, step by step, how the connectors of a share change the config topic's digests."""
    topics, profiles = share.job.plan.topics, share.job.question.profiles
    sees_aborted, keys = share.records.sees_aborted, ShareKeys(share)
    reading = SharedFold(profiles, DigestFold(topics, profiles[0]))
    for records in share.records.steps():
        visible = [record for record in records if sees_aborted or not record.entry.aborted]
        places = keys.places(visible)
        chosen = decoded([visible[place] for place in places], profiles, topics.config)
        moments = (Moment(record.time_ms, record.entry.position) for record in visible)
        yield DigestStep(
            len(records),
            MomentColumns(topics.config, moments),
            places,
            reading.take(DigestChunk(chosen)),
        )


def _digests(
    moments: Iterable[Moment],
    groups: Sequence[tuple[list[Profile], bytes]],
    all_profiles: Sequence[Profile],
) -> Iterator[SharedDigest]:
    """For each record, yield each digest once, with all its releases."""
    releases = _ReleaseNames([profiles for profiles, _ in groups], all_profiles)
    columns = zip(*(split_digests(digests) for _, digests in groups), strict=True)
    for after, digests in zip(moments, columns, strict=True):
        same: dict[bytes, tuple[int, ...]] = {}
        for group, digest in enumerate(digests):
            same[digest] = (*same.get(digest, ()), group)
        for digest, group_numbers in same.items():
            yield SharedDigest(releases[group_numbers], after, digest.hex())


class _ReleaseNames(dict[tuple[int, ...], tuple[str, ...]]):
    """Names of the releases in several groups, by group numbers; cached, as few sets occur."""

    def __init__(
        self, groups: Sequence[Sequence[Profile]], all_profiles: Sequence[Profile]
    ) -> None:
        super().__init__()
        self._groups = groups
        self._all_profiles = all_profiles

    def __missing__(self, groups: tuple[int, ...]) -> tuple[str, ...]:
        profiles = [profile for group in groups for profile in self._groups[group]]
        releases = self[groups] = names(profiles, self._all_profiles)
        return releases
