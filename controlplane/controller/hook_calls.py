"""Calls of connectors' own `alter_offsets`, which may block, hang or change another system."""

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

from controlplane.controller.external import ExternalActionFailed, ExternalActions, HasConfigValues
from controlplane.core.plan import AskHook, HookFailure, HookOutcome
from controlplane.core.plugins.offset_hooks import Hook
from controlplane.event_loop import in_daemon_thread, is_cancelled
from controlplane.failure_text import shortened

CALLS_AT_ONCE = 8
"""Maximum calls that run; others wait, up to their time-out."""

CLOSE_S = 5.0
"""Time in seconds from `HookCalls.close` to the end of the dry runs that still wait for a call.

`Controller.close` first cancels the commands that wait for a call. Then it calls `HookCalls.close`,
which returns at once. So no command waits for a call any more, but a dry run may. By default, a
Java worker waits equally long for its tasks to stop (`task.shutdown.graceful.timeout.ms`).
"""


class HookCalls:
    """Calls hooks in threads that do not keep the process alive.

    A call cannot be ended. After the time-out it is left behind, and its command fails. The call
    counts towards `CALLS_AT_ONCE` until it returns.
    """

    def __init__(self, timeout_ms: int, outside: ExternalActions) -> None:
        """`outside` may also resolve references to config providers (`HasConfigValues`).

        If it does not, hooks get the config with unresolved references.
        """
        self._outside = outside
        self._timeout_s = timeout_ms / 1_000
        self._slots = asyncio.Semaphore(CALLS_AT_ONCE)
        self._calls: set[asyncio.Task[HookOutcome]] = set()
        self._closed: Exception | None = None
        """The exception that was given to `close`. Decisions that still wait for a call raise it,
        `CLOSE_S` seconds after `close`. None: those decisions are cancelled."""

    async def outcome(self, hook: Hook, question: AskHook) -> HookOutcome:
        """Call a hook; return what it did, or a failure if it does not return in time.

        Raises:
            Exception: the one given to `close`, if the hook has not returned `CLOSE_S` later.
        """
        call = asyncio.create_task(self._called(hook, question))
        self._calls.add(call)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await call
        except TimeoutError:
            return HookFailure(
                f"alter_offsets of connector {question.connector} has not returned in "
                f"{self._timeout_s:g} s, so no offset is changed here"
            )
        except asyncio.CancelledError:
            if self._closed is None or is_cancelled():
                raise
            raise self._closed from None  # only the call was cancelled, by `_cancel`
        finally:
            self._calls.discard(call)

    def close(self, closed: Exception | None = None) -> None:
        """After `CLOSE_S`, end the decisions that still wait for a call; they have written nothing.

        Their callers get `closed`. None: the decisions are cancelled.
        """
        self._closed = closed
        if self._calls:
            asyncio.get_running_loop().call_later(CLOSE_S, self._cancel)

    def _cancel(self) -> None:
        for call in self._calls:
            call.cancel()

    async def _called(self, hook: Hook, question: AskHook) -> HookOutcome:
        # Python takes up to 30 µs for this check, so a decision without a call must not do it.
        values = self._outside if isinstance(self._outside, HasConfigValues) else None
        await self._slots.acquire()
        calling = partial(_outcome, hook, question, values)
        try:
            call = in_daemon_thread(calling, f"alter_offsets of {question.connector}")
        except RuntimeError:  # the process may start no thread now
            self._slots.release()
            raise
        call.add_done_callback(partial(self._release, asyncio.get_running_loop()))
        return await asyncio.wrap_future(call)

    def _release(self, loop: asyncio.AbstractEventLoop, _call: Future[HookOutcome]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._slots.release)


def _outcome(hook: Hook, question: AskHook, values: HasConfigValues | None) -> HookOutcome:
    """Call a hook with the resolved config, and hide secrets in the outcome."""
    if values is None:
        return hook(question.config, question.offsets).excerpted(shortened)
    try:
        config = values.resolved_config(question.config)
    except ExternalActionFailed as failure:
        return HookFailure(str(failure)).excerpted(values.excerpt)
    return hook(config, question.offsets).excerpted(values.excerpt)
