"""Who carries out work on many things: this process, several, or tasks of Spark.

Work is a function that tells one finding after the other, so that this process holds few of them.
What others find comes back as a whole, thing by thing, in the order in which they were named.
"""

import pickle
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import Any, Protocol, TypeVar

from replay.errors import ReplayError

T = TypeVar("T")
F = TypeVar("F")

Work = Callable[[T], Iterable[F]]
"""What is done with a thing, and what it finds, one by one."""


class Died(ReplayError):
    """A process that carried out work was ended from outside."""


class Executor(Protocol):
    """Somebody who carries out work."""

    slots: int
    """How much is carried out at once."""

    def run(self, work: "Work[T, F]", things: Sequence[T]) -> Iterator[Iterable[F]]:
        """What is found in each thing, in their order.

        Raises:
            Died: a process was ended from outside.
            NoSpark: Spark has failed.
        """
        ...


class InTurn:
    """This process, one thing after the other: each is worked on while its findings are taken."""

    slots = 1

    def run(self, work: "Work[T, F]", things: Sequence[T]) -> Iterator[Iterable[F]]:
        """What is found in each thing, in their order."""
        return map(work, things)


class Processes:
    """Several processes, each with memory of its own."""

    def __init__(self, slots: int) -> None:
        self.slots = slots

    def run(self, work: "Work[T, F]", things: Sequence[T]) -> Iterator[Iterable[F]]:
        """What is found in each thing, in their order."""
        slots = min(self.slots, len(things))
        if slots < 2:  # one more would help nobody
            yield from map(work, things)
            return
        others = {*active_children()}
        with ProcessPoolExecutor(slots, get_context("spawn")) as pool:
            try:
                with unheard(signal.SIGINT):  # Ctrl-C is for us alone: children inherit that
                    futures = [pool.submit(packed, work, thing) for thing in things]
                for thing, future in zip(things, futures, strict=True):
                    yield unpacked(future.result(), work, thing)
            except BrokenProcessPool:
                raise Died(
                    "a process that looked at a cluster was ended, most likely for want of memory: "
                    "take fewer --jobs"
                ) from None
            # Nobody waits for what is under way. It is not cancelled: the pool would complain.
            except BaseException:
                for child in {*active_children()} - others:
                    child.terminate()
                raise


@contextmanager
def unheard(number: signal.Signals) -> Iterator[None]:
    """Put a signal off until the end of the block; processes started meanwhile never get it.

    A mask holds for one thread. Another thread, a progress bar's, may still take the signal, and
    Python then runs the handler in the main thread, between two steps of starting a process. So
    the handler is exchanged, too.
    """
    heard: list[int] = []
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    is_main = threading.current_thread() is threading.main_thread()
    previous = (
        signal.signal(number, lambda heard_number, _: heard.append(heard_number))
        if is_main
        else None
    )
    try:
        yield
    finally:
        if is_main:
            signal.signal(number, previous)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if heard:
            signal.raise_signal(number)


def packed(work: "Work[T, F]", thing: T) -> bytes | None:
    """What is found in a thing, or what is wrong with it, to be handed over.

    None: it is nested too deeply for that.
    """
    found: list[F] | ReplayError
    try:
        found = list(work(thing))
    except ReplayError as error:
        found = error
    try:
        return pickle.dumps(found, pickle.HIGHEST_PROTOCOL)
    except RecursionError:
        return None


def unpacked(parcel: bytes | None, work: "Work[T, F]", thing: T) -> Iterable[F]:
    """What was handed over; what could not be, this process finds by itself.

    Raises:
        ReplayError: what was wrong with the thing.
    """
    if parcel is None:
        return work(thing)
    found: Any = pickle.loads(parcel)  # noqa: S301 - it comes from our own work
    if isinstance(found, ReplayError):
        raise found
    return found  # type: ignore[no-any-return]
