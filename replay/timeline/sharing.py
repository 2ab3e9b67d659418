"""How going over the records of clusters is shared: by topic, and where hands are free, by release.

Topics say nothing of each other's facts, and releases are folded by themselves anyhow as soon as
they disagree. Whoever goes over a topic goes over it in the same steps, so what several have found
for some releases each is, step by step, what one would have found for all of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from controlplane.core.evolve import Fold
from controlplane.core.order import Placed
from controlplane.core.profiles import Profile
from replay.archive.cluster import Cluster
from replay.engine.executors import Executor
from replay.engine.plan import Plan
from replay.engine.records import ordered
from replay.timeline.intervals import Moment
from replay.timeline.together import chunks

F = TypeVar("F")


class Question(NamedTuple):
    """What is to be told, as whom."""

    profiles: Sequence[Profile]
    connectors: Sequence[str] = ()
    """Only these; none: all."""
    exactly_once: bool = False
    offsets: bool = False
    """Source offsets, too: of most archives nine tenths of the records."""


class Job(NamedTuple):
    """A cluster, what is read of it, and what is asked.

    The plan is one for segments alone (`Options.derived`): of what only stands for records, nobody
    can tell since when it has held.
    """

    cluster: Cluster
    plan: Plan
    question: Question


class Share(NamedTuple):
    """One topic of a job, and some of the releases."""

    job: Job
    topic: str
    profiles: Sequence[Profile]

    @property
    def sees_aborted(self) -> bool:
        """Whether records of aborted transactions are seen there."""
        support = self.job.question.exactly_once
        fold = Fold(self.profiles[0], topics=self.job.plan.topics, exactly_once=support)
        return fold.sees_aborted(self.topic)

    def steps(self) -> Iterator[list[Placed]]:
        """The records, some at a time.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
        """
        return chunks(ordered(self.job.cluster, self.job.plan.parts_of(self.topic)))


class Step(NamedTuple, Generic[F]):
    """What some records told each group of releases that have gone together."""

    records: int
    """How many there were."""
    found: Sequence[tuple[list[Profile], F]]
    moments: Iterable[Moment] = ()
    """Those of each record, where something is told of each."""


Work = Callable[[Share], Iterable[Step[F]]]


def gone_over(
    jobs: Sequence[Job], topics: Callable[[Job], Iterable[str]], work: "Work[F]", by: Executor
) -> Iterator[tuple[Job, Iterator[Step[F]]]]:
    """Of each job, topic by topic, the steps over it, as if one had made them.

    Raises:
        ArchiveCorrupt: a file is missing or damaged; also while they are gone through.
    """
    wanted = [(job, topic) for job in jobs for topic in topics(job)]
    shares = [_shares(job, topic, by.slots // len(wanted)) for job, topic in wanted]
    found = by.run(work, [share for some in shares for share in some])
    for (job, _), some in zip(wanted, shares, strict=True):
        yield job, map(_joined, zip(*[next(found) for _ in some], strict=True))


def _shares(job: Job, topic: str, wanted: int) -> list[Share]:
    """A topic in about so many shares, each with releases that follow each other."""
    profiles = job.question.profiles
    count = max(1, min(wanted, len(profiles)))
    cuts = [len(profiles) * number // count for number in range(count + 1)]
    return [Share(job, topic, profiles[start:end]) for start, end in pairwise(cuts)]


def _joined(steps: "Sequence[Step[F]]") -> "Step[F]":
    """The same step of several, as one."""
    return steps[0]._replace(found=[group for one in steps for group in one.found])
