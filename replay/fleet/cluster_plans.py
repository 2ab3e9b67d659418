"""Plans of many clusters, made concurrently: in threads of this process, or in several processes.

A plan for a record or a time reads a segment of each partition. This takes processor time, and
threads of one process share one processor. So several processes make the plans of a large fleet. A
plan for the end of an archive, or for a vector of end offsets, reads manifests only.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar

from controlplane.core.moments import is_vector
from controlplane.garbage_collection import collect_rarely
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


def planned_each(
    plan: Callable[[str], T], clusters: Sequence[str], moments: Sequence[str | None]
) -> Iterator[T]:
    """Yield the plan of each cluster for these moments, in order.

    Other processes receive `plan` in pickled form. If a process dies, or none can be started, this
    process makes the remaining plans.
    """
    processes = process_count(len(clusters), moments, usable_processors())
    if processes == 1:
        yield from planned_here(plan, clusters)
        return
    size = min(MOST_IN_BLOCK, -(-len(clusters) // (processes * BLOCKS_PER_PROCESS)))
    blocks = [clusters[start : start + size] for start in range(0, len(clusters), size)]
    done = 0
    try:
        executor = ProcessExecutor(processes)
        for each in chain.from_iterable(executor.run(partial(_planned_block, plan), blocks)):
            done += 1
            yield each
    except (WorkerDied, OSError):
        yield from planned_here(plan, clusters[done:])


def process_count(clusters: int, moments: Sequence[str | None], processors: int) -> int:
    """Number of processes that plan so many clusters; 1 is this process."""
    if all(moment is None or is_vector(moment) for moment in moments):
        return 1
    return max(1, min(processors, MOST_PROCESSES, clusters // CLUSTERS_PER_PROCESS))


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
    collect_rarely()
    return planned_here(plan, clusters)
