"""Shares of a pass: by topic, and with free slots also by release.

Facts of one topic do not depend on others, and releases that disagree are folded separately anyway.
All shares of a topic make the same steps. The results of several shares, joined step by step,
therefore equal those of a single pass.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from controlplane.core.fold import Fold
from controlplane.core.order import RankedEntry
from controlplane.core.releases.profiles import Profile
from replay.archive.archived_cluster import ArchivedCluster
from replay.engine.executors import Executor
from replay.engine.ordered_records import ordered
from replay.engine.plans.read_plan import ReadPlan
from replay.timeline.shared_fold import chunks

F = TypeVar("F")


class TimelineQuery(NamedTuple):
    """Releases, connectors and topics of a pass."""

    profiles: Sequence[Profile]
    connectors: Sequence[str] = ()
    """Only these connectors; empty means all."""
    exactly_once: bool = False
    offsets: bool = False
    """Include source offsets: nine tenths of the records in most archives."""


class TimelineJob(NamedTuple):
    """A cluster, its plan and the query.

    The plan reads segments only (`LocalOptions.derived` is False). Snapshots and winners (rows that
    may still count) do not show when a fact began.
    """

    cluster: ArchivedCluster
    plan: ReadPlan
    question: TimelineQuery


class WorkShare(NamedTuple):
    """Topic of a job, for some of the releases."""

    job: TimelineJob
    topic: str
    profiles: Sequence[Profile]

    @property
    def sees_aborted(self) -> bool:
        """True if records of aborted transactions are visible in the topic."""
        support = self.job.question.exactly_once
        fold = Fold(self.profiles[0], topics=self.job.plan.topics, exactly_once=support)
        return fold.sees_aborted(self.topic)

    def steps(self) -> Iterator[list[RankedEntry]]:
        """Records in chunks.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
        """
        return chunks(ordered(self.job.cluster, self.job.plan.parts_of(self.topic)))


class ShareStep(NamedTuple, Generic[F]):
    """Results of one chunk, by group of releases."""

    records: int
    """Number of records in the chunk."""
    found: Sequence[tuple[list[Profile], F]]


ShareWork = Callable[[WorkShare], Iterable[ShareStep[F]]]


def run_shares(
    jobs: Sequence[TimelineJob],
    topics: Callable[[TimelineJob], Iterable[str]],
    work: "ShareWork[F]",
    by: Executor,
) -> Iterator[tuple[TimelineJob, Iterator[ShareStep[F]]]]:
    """Run the shares of all jobs; yield the joined steps of each topic.

    Raises:
        ArchiveCorrupt: a file is missing or damaged; also raised during the iteration.
    """
    job_topics = [(job, topic) for job in jobs for topic in topics(job)]
    shares = [_shares(job, topic, by.slots // len(job_topics)) for job, topic in job_topics]
    results = by.run(work, [share for job_shares in shares for share in job_shares])
    for (job, _), job_shares in zip(job_topics, shares, strict=True):
        yield job, map(_joined, zip(*[next(results) for _ in job_shares], strict=True))


def _shares(job: TimelineJob, topic: str, share_count: int) -> list[WorkShare]:
    """Split a topic into `share_count` shares of consecutive releases, at most one per release."""
    profiles = job.question.profiles
    count = max(1, min(share_count, len(profiles)))
    cuts = [len(profiles) * number // count for number in range(count + 1)]
    return [WorkShare(job, topic, profiles[start:end]) for start, end in pairwise(cuts)]


def _joined(steps: "Sequence[ShareStep[F]]") -> "ShareStep[F]":
    """Join the same step of several shares."""
    return steps[0]._replace(found=[group for step in steps for group in step.found])
