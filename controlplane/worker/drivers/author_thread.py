"""Thread in which the author's code runs: the code of one connector or task.

A connector may block, hang or raise anything. In a thread of its own it holds up neither the REST
API nor other tasks.
"""

import asyncio
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import thread as thread_executors
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from selectors import DefaultSelector
from types import CoroutineType, FrameType, GeneratorType, TracebackType
from typing import Any, TypeVar

from controlplane.connect.errors import ConnectError
from controlplane.failure_text import description_of
from controlplane.notices import Notices
from controlplane.unrun_calls import checked_result
from controlplane.worker.process_exits import guard_exits

T = TypeVar("T")

SLOW_CALL_S = 60.0
"""Time from the submission of a call to a warning that it has not returned; see `_WatchedCall`."""

_STACK_MAX = 20
"""Maximum number of stack frames in such a warning."""


class AuthorExit(ConnectError):
    """The connector's code cancelled its call, or raised an exception that callers cannot handle.

    Either its class is not derived from `Exception`, or it is a
    `concurrent.futures.CancelledError`.
    """


FORKED_EXIT = 70
"""Exit code of a child process that has returned from the connector's code (`EX_SOFTWARE`)."""


class _OwnSelector(DefaultSelector):
    """Selector that ends a forked child process.

    The child must not wait for events here: it would take those of its parent.
    """

    def __init__(self) -> None:
        super().__init__()
        self._process = os.getpid()

    def select(self, timeout: float | None = None) -> Any:
        """Wait for events; end a child process."""
        end_if_forked(self._process)
        return super().select(timeout)


def end_if_forked(process: int) -> None:
    """End this process if it is not the one with this id.

    The connector's code has forked, and its child has returned. The child has only this thread. It
    must end here: it shares the open files and event loops of its parent.
    """
    if os.getpid() != process:
        os._exit(FORKED_EXIT)


class _AuthorExecutor(ThreadPoolExecutor):
    """Threads of `asyncio.to_thread` in the connector's code.

    They are daemon threads, like the `AuthorThread` that starts them. But `concurrent.futures` has
    a registry of all executors' threads, and the interpreter waits for these at its exit. So
    `submit` removes its threads from the registry.
    """

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        """Submit a call; if it never returns, it does not keep the process alive."""
        result = super().submit(function, *arguments, **named)
        registered: Any = thread_executors._threads_queues  # noqa: SLF001 - no public way out
        for thread in tuple(self._threads):
            registered.pop(thread, None)
        return result


class _AuthorLoop(asyncio.SelectorEventLoop):
    """Event loop of an `AuthorThread`. The connector's code cannot stop it before `end`."""

    def __init__(self) -> None:
        super().__init__(_OwnSelector())
        self.set_default_executor(_AuthorExecutor(thread_name_prefix="asyncio"))
        self.ended = False
        """True once the thread ends: the runtime has stopped the loop, and cancels what is left."""

    def stop(self) -> None:
        """Stop the loop once `end` was called. An earlier call comes from the connector's code.

        Raises:
            RuntimeError: `end` was not called.
        """
        if not self.ended:
            raise RuntimeError("Cannot stop the event loop of a connector: the runtime needs it")
        super().stop()

    def end(self) -> None:
        """Stop the loop for the end of its thread. A second call does nothing."""
        if not self.ended:
            self.ended = True
            self.stop()


class _AuthorTask(asyncio.Task[Any]):
    """Asyncio task of one call. Notes the code that cancels it."""

    cancellation: asyncio.CancelledError | None = None
    """Latest request to cancel the task. Its traceback has the calls that made the request."""
    cancelled_at = "an unknown place"
    """File, line and function of that request."""

    def cancel(self, msg: Any = None) -> bool:
        """Request the cancellation of the task."""
        cancellation = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        frames = _author_frames(sys._getframe(1))  # noqa: SLF001 - as faulthandler
        self.cancellation = cancellation.with_traceback(_traceback_of(frames))
        if frames:
            self.cancelled_at = _line_of(frames[0])
        return super().cancel(msg)


class AuthorThread:
    """Calls functions in one thread with its own event loop.

    Calls begin in the order of their submission. While an `async def` is in an `await`, the next
    call may begin.

    A call that blocks cannot be ended. After `abandon`, the thread stays until this call returns.
    As a daemon thread, it does not keep the process alive. Nor do calls by `asyncio.to_thread`.
    """

    def __init__(
        self, name: str, notices: Notices | None = None, context: Context | None = None
    ) -> None:
        """`notices`: receives warnings about slow calls (`_WatchedCall`)."""
        self._notices = notices
        self._loop = _AuthorLoop()
        self._left_behind = False
        context = context or copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._run,), name=name, daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._run_until(lambda: self._loop.ended)
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        loop = self._loop
        for ending in (
            _all_ended(left),
            loop.shutdown_asyncgens(),
            loop.shutdown_default_executor(),
        ):
            task = loop.create_task(ending)
            task.add_done_callback(lambda _: loop.stop())
            self._run_until(task.done)
        loop.close()

    def _run_until(self, is_reached: Callable[[], bool]) -> None:
        """Run the loop until `is_reached` is true; restart it if the author's code has stopped it.

        A `SystemExit` or `KeyboardInterrupt` of that code stops the loop. Once `end` was called, a
        call of `loop.stop()` in that code stops the loop, too.
        """
        while not is_reached():
            with suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_forever()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        """Submit a call, and return the future of its result; the future is of the caller's loop.

        If the function returns an awaitable, the thread awaits it. The future fails with the
        exception that the function raises, and for a generator, which would not run
        (`checked_result`). `AuthorExit` replaces `CancelledError`, and each exception that is no
        `Exception`, such as `SystemExit`. If the connector's code cancels the asyncio task of the
        call, the future fails with `AuthorExit`, too.
        """
        if self._notices is None:
            return self.submit_wait(function, *arguments)
        call = _WatchedCall(function, partial(self._warn, self._notices))
        result = self.submit_wait(call, *arguments)
        result.add_done_callback(call.end)
        return result

    def submit_wait(self, function: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        """Submit a call as `submit` does, without a warning: it may wait for a source's records."""
        return asyncio.wrap_future(self._submitted(function, arguments))

    def _submitted(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Future[Any]:
        """Submit a call. A cancellation of the returned future cancels an `async def`.

        `asyncio.run_coroutine_threadsafe` does nearly the same. There, the caller cannot
        distinguish a cancellation by the connector's code from its own.
        """
        call: Future[Any] = Future()
        self._loop.call_soon_threadsafe(self._begin, call, function, arguments)
        return call

    def _begin(
        self, call: Future[Any], function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        task = _AuthorTask(_called(function, arguments), loop=self._loop)
        task.add_done_callback(partial(self._settle, call))
        call.add_done_callback(partial(self._cancel, task))

    def _cancel(self, task: _AuthorTask, call: Future[Any]) -> None:
        """Cancel the asyncio task of a call that the runtime has cancelled."""
        if call.cancelled():
            with suppress(RuntimeError):  # its loop is closed
                self._loop.call_soon_threadsafe(task.cancel)

    def _settle(self, call: Future[Any], task: "asyncio.Task[Any]") -> None:
        """Pass the result of an asyncio task on to the future of its call."""
        if task.cancelled() and self._loop.ended:
            call.cancel()
        failure = _cancelled_call(task) if task.cancelled() else task.exception()
        if not call.set_running_or_notify_cancel():
            return
        if failure is None:
            call.set_result(task.result())
        else:
            call.set_exception(failure)

    def _warn(self, notices: Notices, awaited: object) -> None:
        frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001 - as faulthandler
        calls = _awaiting_calls(awaited) if _is_waiting(frame) else _author_calls(frame)
        notices.warning(
            "call_not_returned",
            thread=self._thread.name,
            waited_s=SLOW_CALL_S,
            stack=" < ".join(calls[:_STACK_MAX]),
        )

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function and return its result. A cancelled caller cancels an `async def`.

        If the thread was left behind, return None at once. The thread calls the function as soon as
        it is free.
        """
        if self._left_behind:
            self._submitted(function, arguments)
            return None
        return await self.submit(function, *arguments)

    async def last_call(self, function: Callable[[], Any]) -> None:
        """Call a function once: now, or as soon as the thread is free.

        If the caller is cancelled, it does not wait, but the function is still called once. The
        cancellation comes from `TaskInstance.abandon`, which also ends the thread. So an
        `async def` is cancelled at its first `await`, or at the `await` in which it already is.
        """
        begun = False

        def once() -> Any:
            nonlocal begun
            if begun:
                return None
            begun = True
            return function()

        try:
            await self.call(once)
        except asyncio.CancelledError:
            self._submitted(once, ())
            raise

    def leave_behind(self) -> None:
        """Let further uses of `call` return at once: the present call may never return.

        The thread itself goes on; `abandon` ends it.
        """
        self._left_behind = True

    async def checked_call(
        self, check: Callable[[Any], T], function: Callable[..., Any], *arguments: Any
    ) -> T:
        """Call a function and check its result, in the thread: reading it may run author's code."""
        result: T = await self.submit(_checked, check, function, arguments)
        return result

    async def checked_wait(self, check: Callable[[Any], T], function: Callable[[], Any]) -> T:
        """Call a function as `checked_call` does, without a warning (`submit_wait`)."""
        result: T = await self.submit_wait(_checked, check, function, ())
        return result

    def abandon(self) -> None:
        """End the thread, and do not wait for its end. A second call does nothing.

        Calls that were submitted before still begin. A call that blocks delays the end. Calls that
        are in an `await` are cancelled.
        """
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._stop_soon)

    def _stop_soon(self) -> None:
        """Stop the loop once all calls that were submitted before have begun."""
        self._loop.call_soon(self._loop.end)


class _WatchedCall:
    """A function that is called in a thread; warns if the call takes long.

    The timer of `SLOW_CALL_S` starts when the call is submitted. If the call has not begun by then,
    the timer starts again: an earlier call may wait for records.
    """

    def __init__(self, function: Callable[..., Any], warn: Callable[[object], None]) -> None:
        """`warn` gets the awaitable that the function has returned; None: no result yet."""
        self._function = function
        self._warn = warn
        self._begun = False
        self._awaited: object = None
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(SLOW_CALL_S, self._look)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function, in the thread."""
        self._begun = True
        result = self._function(*arguments)
        self._awaited = result
        return result

    def end(self, _result: "asyncio.Future[Any]") -> None:
        """Cancel the warning."""
        self._timer.cancel()

    def _look(self) -> None:
        if self._begun:
            self._warn(self._awaited)
        else:
            self._timer = self._loop.call_later(SLOW_CALL_S, self._look)


def _is_waiting(frame: FrameType | None) -> bool:
    """True if an author's thread waits in its event loop: an `async def` is in an `await`."""
    while frame is not None:
        if frame.f_code is _OwnSelector.select.__code__:
            return True
        frame = frame.f_back
    return False


def _author_calls(frame: FrameType | None) -> list[str]:
    """Return the author's calls on a stack, innermost first; empty if this module is not on it."""
    return [_line_of(frame) for frame in _author_frames(frame)]


def _author_frames(frame: FrameType | None) -> list[FrameType]:
    """Return the author's frames on a stack, innermost first; empty if this module is not on it."""
    frames: list[FrameType] = []
    while frame is not None and frame.f_code.co_filename != __file__:
        frames.append(frame)
        frame = frame.f_back
    return [] if frame is None else frames


def _traceback_of(frames: Iterable[FrameType]) -> TracebackType | None:
    """Return the traceback of frames, which come innermost first."""
    traceback: TracebackType | None = None
    for frame in frames:
        traceback = TracebackType(traceback, frame, frame.f_lasti, frame.f_lineno)
    return traceback


def _cancelled_call(task: "asyncio.Task[Any]") -> AuthorExit:
    """Return the failure of a call whose asyncio task the connector's code has cancelled.

    The failure has a chain of two causes. The traceback of the first one shows the `await` that was
    cancelled. The traceback of the second one shows the call of `cancel`.
    """
    assert isinstance(task, _AuthorTask)
    failure = AuthorExit(f"The connector cancelled its asyncio task at {task.cancelled_at}")
    try:
        task.result()
    except asyncio.CancelledError as ended:
        ended.__cause__ = task.cancellation
        failure.__cause__ = ended
    return failure


def _awaiting_calls(awaitable: object) -> list[str]:
    """Return the calls of coroutines that await, the innermost first."""
    calls: list[str] = []
    while isinstance(awaitable, CoroutineType | GeneratorType):
        if isinstance(awaitable, CoroutineType):
            frame, awaitable = awaitable.cr_frame, awaitable.cr_await
        else:
            frame, awaitable = awaitable.gi_frame, awaitable.gi_yieldfrom
        if frame is not None and frame.f_code.co_filename != __file__:
            calls.append(_line_of(frame))
    return calls[::-1]


def _line_of(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


async def _called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call a function, and await its result if it is awaitable."""
    process = os.getpid()
    guard_exits()
    try:
        result = function(*arguments)
        return await result if inspect.isawaitable(result) else checked_result(result)
    except FutureCancelled as ended:  # asyncio would cancel the caller with it
        raise AuthorExit(f"The connector raised {description_of(ended)}") from ended
    except Exception:
        raise
    except BaseException as ended:
        task = asyncio.current_task()
        if isinstance(ended, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # `_settle` finds out whether the runtime or the connector has cancelled
        raise AuthorExit(f"The connector raised {description_of(ended)}") from ended
    finally:
        end_if_forked(process)


async def _checked(
    check: Callable[[Any], T], function: Callable[..., Any], arguments: tuple[Any, ...]
) -> T:
    result = function(*arguments)
    return check(await result if inspect.isawaitable(result) else result)


async def _all_ended(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
