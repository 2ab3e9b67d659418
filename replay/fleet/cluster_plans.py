"""Plans of many clusters, made concurrently: in threads of this process, or in several processes.

A plan for a record or a time reads a segment of each partition. This takes processor time, and
threads of one process share one processor. So several processes make the plans of a large fleet. A
plan for the end of an archive, or for a vector of end offsets, reads manifests only.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from multiprocessing import current_process
from typing import Generic, NamedTuple, TypeVar

from controlplane.core.moments import is_vector
from replay.archive.stores.concurrent_requests import concurrently, requests_in_turn
from replay.engine.executors import ProcessExecutor, WorkerDied
from replay.processors import usable_processors

T = TypeVar("T")

PLANS_AT_ONCE = 64
"""Number of clusters that a process plans at once, if it has to plan as many. Each plan then sends
one request after the other. Threads for each partition would add a third to the processor time. A
plan keeps 4 MiB of small files at most (`plans.reused_reads`), so 64 plans keep 256 MiB."""

CLUSTERS_PER_PROCESS = 150
"""Least number of clusters per process. Planning so many takes about as long as the start of a
process: one second."""

MOST_PROCESSES = 4
"""Greatest number of processes. Each takes 100 MB. Together they send 256 requests at once."""

BLOCKS_PER_PROCESS = 3
"""Number of blocks into which the clusters of a process are divided. The processes end at about the
same time, and each has many plans to make at once."""

MOST_IN_BLOCK = 2 * PLANS_AT_ONCE
"""Greatest number of plans that a process holds before it returns them: some take half a MB."""

BLOCKS_AHEAD = 1
"""Number of blocks per process that are planned, or wait, while the caller works on a block. So at
most `MOST_PROCESSES` times `PLANS_AT_ONCE` plans wait: 256."""


def planned_each(
    plan: Callable[[str], T],
    clusters: Sequence[str],
    moments: Sequence[str | None],
    jobs: int | None = None,
) -> Iterator[T]:
    """Yield the plan of each cluster for these moments, in order; the caller keeps all plans.

    `jobs` is the greatest number of processes, this one included if it is 1; None means one per
    processor. Other processes receive `plan` in pickled form. If a process dies, or none can be
    started, this process makes the remaining plans.
    """
    processes = process_count(len(clusters), moments, _most_processes(jobs))
    work = _PlanWork(plan, clusters, processes, MOST_IN_BLOCK)
    return work.planned(None, planned_here)


def planned_ahead(
    plan: Callable[[str], T],
    clusters: Sequence[str],
    moments: Sequence[str | None],
    jobs: int | None = None,
) -> Generator[T, None, None]:
    """Yield plans as `planned_each` does, to a caller that keeps one plan at a time.

    While the caller works on a plan, a limited number of further plans waits. Close the generator
    to end its processes.
    """
    processes = process_count(len(clusters), moments, _most_processes(jobs))
    work = _PlanWork(plan, clusters, processes, PLANS_AT_ONCE)
    return work.planned(BLOCKS_AHEAD, _planned_in_blocks)


class _PlanWork(NamedTuple, Generic[T]):
    """Function that plans a cluster, the clusters, and the processes that plan them."""

    plan: Callable[[str], T]
    clusters: Sequence[str]
    processes: int
    most_in_block: int

    def planned(
        self,
        ahead: int | None,
        plan_rest: Callable[[Callable[[str], T], Sequence[str]], Iterator[T]],
    ) -> Generator[T, None, None]:
        """Yield the plans; `plan_rest` makes those that no other process makes."""
        done = 0
        with suppress(WorkerDied, OSError), closing(self._of_processes(ahead)) as plans:
            for each in plans:
                done += 1
                yield each
        yield from plan_rest(self.plan, self.clusters[done:])

    def _of_processes(self, ahead: int | None) -> Generator[T, None, None]:
        """Yield the plans that other processes make: all, or none."""
        if self.processes == 1:
            return
        size = -(-len(self.clusters) // (self.processes * BLOCKS_PER_PROCESS))
        blocks = _blocks(self.clusters, min(self.most_in_block, size))
        executor = ProcessExecutor(self.processes, ahead)
        for waiting in map(deque, executor.run(partial(_planned_block, self.plan), blocks)):
            while waiting:  # a fold adds states of snapshots to its plan: the caller frees both
                yield waiting.popleft()


def process_count(clusters: int, moments: Sequence[str | None], most: int) -> int:
    """Number of processes that plan so many clusters, at most `most`; 1 is this process."""
    if all(moment is None or is_vector(moment) for moment in moments):
        return 1
    return max(1, min(most, MOST_PROCESSES, clusters // CLUSTERS_PER_PROCESS))


def _most_processes(jobs: int | None) -> int:
    if current_process().daemon:  # a worker of `multiprocessing.Pool` may start no process
        return 1
    processors = usable_processors()
    return processors if jobs is None else min(jobs, processors)


def _blocks(clusters: Sequence[str], size: int) -> list[Sequence[str]]:
    return [clusters[start : start + size] for start in range(0, len(clusters), size)]


def _planned_in_blocks(plan: Callable[[str], T], clusters: Sequence[str]) -> Iterator[T]:
    """Plan clusters in this process, but hold the plans of `PLANS_AT_ONCE` clusters at most."""
    for block in _blocks(clusters, PLANS_AT_ONCE):
        yield from planned_here(plan, block)


def planned_here(plan: Callable[[str], T], clusters: Sequence[str]) -> Iterator[T]:
    """Yield the plan of each cluster, in order; threads of this process wait for the store."""
    if len(clusters) < PLANS_AT_ONCE:
        return concurrently(plan, clusters)
    return concurrently(partial(_planned_in_turn, plan), clusters, PLANS_AT_ONCE)


def _planned_in_turn(plan: Callable[[str], T], cluster: str) -> T:
    with requests_in_turn():
        return plan(cluster)


def _planned_block(plan: Callable[[str], T], clusters: Sequence[str]) -> Iterator[T]:
    """Make the plans of a block in another process."""
    return planned_here(plan, clusters)
