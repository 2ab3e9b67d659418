"""Problems of single clusters: an answer names them and covers the other clusters.

The message of an error is about a moment, a record or a file, and seldom names the cluster. Only
this module decides how a sentence names the cluster of an error.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import NamedTuple, TypeVar

from controlplane.core.moments import UnknownMoment
from replay.errors import ArchiveBusy, ReplayError

T = TypeVar("T")

OF_ONE_CLUSTER = (ReplayError, UnknownMoment)
"""Errors that count as the problem of one cluster: the other clusters are still answered."""


class ClusterProblem(NamedTuple):
    """A cluster without an answer, and the reason."""

    cluster: str
    problem: str

    @property
    def line(self) -> str:
        """The name of the cluster, then the reason: for programs, which may read the name."""
        return f"{self.cluster}: {self.problem}"

    @property
    def sentence(self) -> str:
        """The reason, preceded by the name of the cluster unless it names the cluster itself."""
        return self.problem if self._is_named else self.line

    @property
    def _is_named(self) -> bool:
        name = re.escape(self.cluster)
        return re.search(rf"\bcluster(={name}/| {name}(?![\w.-]))", self.problem) is not None


class BusyCluster(ClusterProblem):
    """Cluster whose files a merge has removed since it was opened. A new opening may succeed."""


@contextmanager
def errors_of(cluster: str) -> Iterator[None]:
    """Let errors of this block name the cluster in `ReplayError.cluster`."""
    try:
        yield
    except ReplayError as error:
        error.cluster = cluster
        raise


def attempted(cluster: str, answer: Callable[[], T | ClusterProblem]) -> T | ClusterProblem:
    """Return an answer about a cluster, or the problem that prevents it.

    After `ArchiveBusy`, there is a second attempt. An answer that opens the cluster then succeeds.
    """
    try:
        with suppress(ArchiveBusy):
            return answer()
        return answer()
    except ArchiveBusy as error:
        return BusyCluster(cluster, str(error))
    except OF_ONE_CLUSTER as error:
        return ClusterProblem(cluster, str(error))


def answers_of_each(
    names: Iterable[str], ask: Callable[[str], T], failed: dict[str, str]
) -> dict[str, T]:
    """Return the answers about clusters by name; problems are added to `failed`.

    There is one attempt, because `ask` may write to the archive.
    """
    answers: dict[str, T] = {}
    for name in names:
        try:
            answers[name] = ask(name)
        except OF_ONE_CLUSTER as error:
            failed[name] = str(error)
    return answers


def parts_or_problem(answers: Iterable[T | ClusterProblem]) -> list[T] | ClusterProblem:
    """Return the parts of one answer, or the first problem that prevents it."""
    parts: list[T] = []
    for answer in answers:
        if isinstance(answer, ClusterProblem):
            return answer
        parts.append(answer)
    return parts


def streamed(cluster: str, rows: Callable[[], Iterable[T]]) -> Iterator[T | ClusterProblem]:
    """Yield the rows of an answer about a cluster; last, the problem that ends it.

    After `ArchiveBusy` before the first row, there is a second attempt.
    """

    def begun() -> Iterator[T]:
        every = iter(rows())
        return chain(list(islice(every, 1)), every)

    answer: Iterator[T] | ClusterProblem = attempted(cluster, begun)
    if isinstance(answer, ClusterProblem):
        yield answer
        return
    try:
        yield from answer
    except OF_ONE_CLUSTER as error:
        yield ClusterProblem(cluster, str(error))


def problem_sentences(problems: Mapping[str, str]) -> Iterator[str]:
    """Sentences about problems, given by cluster."""
    return (ClusterProblem(cluster, reason).sentence for cluster, reason in problems.items())
