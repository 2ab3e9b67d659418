"""Thread in which the code of one connector or task runs.

A connector may block, hang or raise anything. In a thread of its own it holds up neither the REST
API nor other tasks.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, TypeVar

from controlplane.connect.errors import ConnectError

T = TypeVar("T")


class AuthorExit(ConnectError):
    """The connector's code tried to end the process."""


class AuthorThread:
    """Calls functions in one thread with an event loop of its own, one after another.

    A call that hangs cannot be ended. `abandon` leaves its thread behind; a daemon thread does not
    keep the process alive.
    """

    def __init__(self, name: str, context: Context | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        context = context or copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._run,), name=name, daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        """Begin a call; the result may be awaited, too. The future belongs to the caller's loop.

        The future fails with what the function raises, and with `AuthorExit` for `SystemExit`.
        """
        call = asyncio.run_coroutine_threadsafe(_called(function, arguments), self._loop)
        return asyncio.wrap_future(call)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function and return its result. A cancelled caller cancels an `async def`."""
        return await self.submit(function, *arguments)

    def abandon(self) -> None:
        """End the thread as soon as it is idle; do not wait for it."""
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def close(self) -> None:
        """End the thread, and wait for it. Call this only when no call is running."""
        self.abandon()
        await asyncio.to_thread(self._thread.join)


async def _called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call a function, and await its result if it is awaitable."""
    try:
        result = function(*arguments)
        return await result if inspect.isawaitable(result) else result
    except (SystemExit, KeyboardInterrupt) as ended:
        raise AuthorExit(f"The connector raised {ended!r}") from ended
