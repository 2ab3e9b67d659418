"""A command of an attached plane from its arrival to its answer."""

import asyncio
from contextlib import suppress

from controlplane.attached.execution import AttachedAnswer
from controlplane.core.commands import CommandRequest

BLOCKED_LOOK_S = 1.0
"""Time in seconds between two looks whether a waiting command is blocked by one that cannot be
ended. The first look follows the patience, and may come just before this is known."""


class QueuedRequest:
    """A command that waits or runs; callers that send the same key share it."""

    task: "asyncio.Task[None]"

    def __init__(self, request: CommandRequest) -> None:
        self.request = request
        self.answer: asyncio.Future[AttachedAnswer] = asyncio.get_running_loop().create_future()
        self.callers = 0
        """Number of callers that wait for the answer."""
        self.begun = False
        """True once it has the connector's lock: from then on, a request may be sent."""
        self.since_ms = request.at_ms
        self.took_ms = 0
        """Time in ms from the moment at which it has the connector's lock to its answer."""

    async def answer_within(self, seconds: float) -> AttachedAnswer | None:
        """Wait for the answer; None: there is none yet. A cancelled wait cancels no command."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self.answer)
        return None

    def answer_callers(self, answer: AttachedAnswer, now_ms: int) -> None:
        """Give the answer to all callers of the command, and note the time that it took."""
        self.answer.set_result(answer)
        self.took_ms = now_ms - self.since_ms
