"""Reads texts of a connector's exceptions outside the event loop, within a time limit.

`__str__`, `__repr__`, `__notes__` and `__cause__` of such an exception are author's code. They may
block, as any other code of a connector.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future

from controlplane.event_loop import in_daemon_thread
from controlplane.failure_text import class_of
from controlplane.observe import present_connector_context
from controlplane.worker.drivers.author_thread import end_if_forked
from controlplane.worker.process_exits import guard_exits

TIMEOUT_S = 2.0
"""Longest time for reading a text. After it, the class of the exception stands for the text."""

_blocked: set[str | None] = set()
"""Log contexts with a thread that still reads a text after the time limit."""


async def text_in_time(read: Callable[[BaseException], str], failure: BaseException) -> str:
    """Return a text of an exception, or only its class after `TIMEOUT_S`.

    `read` is a function of `failure_text`. A daemon thread calls it: the author's threads may be
    busy with other calls. A thread that blocks is left behind. Until it ends, further exceptions
    of the same log context are reported by their class at once. So threads do not pile up.
    """
    context = present_connector_context()
    if context not in _blocked:
        text = _text_of_thread(read, failure)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await asyncio.wrap_future(text)
        except TimeoutError:
            _blocked.add(context)
            text.add_done_callback(lambda _: _blocked.discard(context))
    return f"{class_of(failure)}: <exception text timed out>"


def _text_of_thread(read: Callable[[BaseException], str], failure: BaseException) -> "Future[str]":
    """Begin to read a text in a thread of its own."""

    def guarded_text() -> str:
        process = os.getpid()
        guard_exits()
        try:
            return read(failure)
        finally:
            end_if_forked(process)

    return in_daemon_thread(guarded_text, "failure text")
