"""Executors of work on many items: this process, its threads, several processes, or Spark tasks.

Work yields results. `SerialExecutor` holds one result at a time. Other processes return the results
of an item as a whole, in the order of the items. `ProcessExecutor` holds the results of `AHEAD`
items per process in pickled form, or as many as its caller chooses.
"""

import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import current_process, get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, TypeVar

from controlplane.garbage_collection import collect_rarely
from replay.archive.stores.concurrent_requests import REQUESTS_AT_ONCE, concurrently
from replay.errors import ReplayError
from replay.without_pandas import leave_out_pandas

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 16
"""Items per process that are worked on, or wait for the caller.

More of them hold more results; fewer leave processes idle while an earlier item takes long.
"""

DEATH_LOOK_S = 1.0
"""Time in seconds between two checks that the processes of a pool are alive. A death counts at the
second check: the pool itself needs some time to notice it."""

ItemWork = Callable[[T], Iterable[R]]
"""Work on one item; yields results."""


class WorkerDied(ReplayError):
    """A worker process was ended from outside."""


class Executor(Protocol):
    """Runs work on many items: in this process, in others, or in Spark tasks."""

    slots: int
    """Number of items worked on at once."""

    def run(self, work: "ItemWork[T, R]", items: Sequence[T]) -> Iterator[Iterable[R]]:
        """Run the work on each item; yield the results of each, in order.

        Raises:
            WorkerDied: a process was ended from outside.
            NoSpark: Spark has failed.
        """
        ...


class SerialExecutor:
    """Works on one item after the other in this process, while the results are consumed."""

    slots = 1

    def run(self, work: "ItemWork[T, R]", items: Sequence[T]) -> Iterator[Iterable[R]]:
        """Run the work on each item; yield the results of each, in order."""
        return map(work, items)


class ThreadExecutor:
    """Works on several items at once in threads of this process: small work that awaits a store.

    Results wait in memory until they are taken.
    """

    slots = REQUESTS_AT_ONCE

    def run(self, work: "ItemWork[T, R]", items: Sequence[T]) -> Iterator[Iterable[R]]:
        """Run the work on each item; yield the results of each, in order."""
        return concurrently(lambda item: list(work(item)), items)


class ProcessExecutor:
    """Works in several processes, each with its own memory.

    `ahead` is the number of items per process that are worked on, or wait for the caller; None
    means `AHEAD`.
    """

    def __init__(self, slots: int, ahead: int | None = None) -> None:
        self.slots = slots
        self._ahead = AHEAD if ahead is None else ahead

    def run(self, work: "ItemWork[T, R]", items: Sequence[T]) -> Iterator[Iterable[R]]:
        """Run the work on each item; yield the results of each, in order."""
        slots = min(self.slots, len(items))
        if slots < 2:  # one extra process would not help
            yield from map(work, items)
            return
        workers = set[BaseProcess]()
        with ProcessPoolExecutor(slots, get_context("spawn"), _begin_process) as pool:
            waiting = iter(items)
            pending: deque[tuple[T, Future[bytes | None]]] = deque()
            try:
                while True:
                    # Children inherit the mask: only this process handles Ctrl-C.
                    with unheard(signal.SIGINT):
                        for item in islice(waiting, self._ahead * slots - len(pending)):
                            pending.append((item, pool.submit(packed, work, item)))
                        workers |= processes_of(pool)
                    if not pending:
                        return
                    item, future = pending.popleft()
                    yield unpacked(_result(future, workers), work, item)
            # A process has died, or the caller has left: end the processes. Waiting work is not
            # cancelled: the pool fails it, and Python 3.11 prints an InvalidStateError if it was
            # cancelled before.
            except BaseException as failure:
                workers |= processes_of(pool)
                for worker in workers:
                    worker.terminate()
                _end_results(pool)
                if isinstance(failure, BrokenProcessPool):
                    raise WorkerDied(_cause(workers)) from None
                raise


def process_executor(jobs: int, ahead: int | None = None) -> Executor:
    """Executor with so many processes; 1 is this process. `ahead` is that of `ProcessExecutor`.

    A worker of `multiprocessing.Pool` may start no process, so it does the work itself.
    """
    if jobs == 1 or current_process().daemon:
        return SerialExecutor()
    return ProcessExecutor(jobs, ahead)


def _result(future: "Future[bytes | None]", workers: Iterable[BaseProcess]) -> bytes | None:
    """Wait for a result.

    The pool notices a process that dies, unless it waits for the rest of that process's result.

    Raises:
        BrokenProcessPool: a process has died.
    """
    any_died = False
    while True:
        try:
            return future.result(DEATH_LOOK_S)
        except TimeoutError:
            if future.done():  # an error of the work itself
                raise
            if any_died:
                raise BrokenProcessPool from None
            any_died = not all(worker.is_alive() for worker in workers)


def _cause(workers: Iterable[BaseProcess]) -> str:
    """Probable cause of a death, as a sentence. Python ends with 1 if it cannot import a script."""
    for worker in workers:
        worker.join(DEATH_LOOK_S)
    if any(worker.exitcode == 1 for worker in workers):
        return (
            "a worker process could not start: a script that uses several jobs needs "
            '`if __name__ == "__main__"`'
        )
    return "a worker process has ended, most likely for lack of memory: use fewer jobs"


def processes_of(pool: ProcessPoolExecutor) -> set[BaseProcess]:
    """Processes of a pool; none once it is shut down.

    All children of this process would include those of other pools, and of an embedding program.
    """
    processes: Any = getattr(pool, "_processes", None)
    return set() if processes is None else {*processes.values()}


def _end_results(pool: ProcessPoolExecutor) -> None:
    """Close this process's write end of the pipe through which the pool's processes send results.

    A process may have died while it sent a result. The pool's thread would wait for the rest of the
    result forever. The pipe ends only once no process can write to it, so this end is closed, too.
    """
    results: Any = getattr(pool, "_result_queue", None)
    if results is not None:
        results._writer.close()  # noqa: SLF001 - `ProcessPoolExecutor` has no method for it


def _begin_process() -> None:
    end_with_parent()
    collect_rarely()


def end_with_parent() -> None:
    """Let this process end once its parent has died, for instance after a kill.

    A process of a pool would otherwise wait for work forever: it holds both ends of the pipe.
    """
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)  # the work of the main thread has no receiver


@contextmanager
def unheard(number: signal.Signals) -> Iterator[None]:
    """Defer a signal until the end of the block; processes started meanwhile never receive it.

    A mask holds for one thread. Another thread, such as a progress bar's, may still receive the
    signal. Python then runs the handler in the main thread, between two steps of starting a
    process. The handler is therefore replaced, too.
    """
    signals: list[int] = []
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    is_main = threading.current_thread() is threading.main_thread()
    previous = (
        signal.signal(number, lambda heard_number, _: signals.append(heard_number))
        if is_main
        else None
    )
    try:
        yield
    finally:
        if is_main:
            signal.signal(number, previous)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if signals:
            signal.raise_signal(number)


def packed(work: "ItemWork[T, R]", item: T) -> bytes | None:
    """Pickle the results of an item, or its error.

    Returns None if they are nested too deeply for pickle.
    """
    leave_out_pandas()
    results: list[R] | ReplayError
    try:
        results = list(work(item))
    except ReplayError as error:
        results = error
    try:
        return pickle.dumps(results, pickle.HIGHEST_PROTOCOL)
    except RecursionError:
        return None


def unpacked(packed_results: bytes | None, work: "ItemWork[T, R]", item: T) -> Iterable[R]:
    """Unpickle the results; None means that this process runs the work itself.

    Raises:
        ReplayError: the error of the item.
    """
    if packed_results is None:
        return work(item)
    results: Any = pickle.loads(packed_results)  # noqa: S301 - it comes from our own work
    if isinstance(results, ReplayError):
        raise results
    return results  # type: ignore[no-any-return]
