"""Ctrl-C while processes are being started ends the command after they have been started."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from replay.engine.executors import unheard


@contextmanager
def noted_signals() -> Iterator[int]:
    """Yield a file from which a byte can be read for each signal that a thread has taken."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    previous = signal.set_wakeup_fd(writing)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(previous)
        os.close(reading)
        os.close(writing)


def start_while_interrupted(thread: threading.Thread, steps: list[str]) -> None:
    """Start something while another thread takes a Ctrl-C."""
    with noted_signals() as taken, unheard(signal.SIGINT):
        assert thread.ident is not None
        signal.pthread_kill(thread.ident, signal.SIGINT)
        assert os.read(taken, 1)
        time.sleep(0)  # Python runs handlers between two steps of the main thread
        steps.append("started")


def test_an_interrupt_taken_by_another_thread_waits_until_processes_have_started() -> None:
    """A progress bar's thread takes the signal, and no process is left half started."""
    bar, steps = threading.Event(), list[str]()
    thread = threading.Thread(target=bar.wait)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            start_while_interrupted(thread, steps)
        assert steps == ["started"]
    finally:
        bar.set()
        thread.join()


def test_the_next_interrupt_and_the_mask_are_as_before() -> None:
    """The next Ctrl-C interrupts as usual."""
    before, mask = signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with unheard(signal.SIGINT):
        pass
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mask
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
