"""A command of an attached plane from its arrival to its answer."""

import asyncio

from controlplane.attached.execution import AttachedAnswer
from controlplane.core.commands import CommandRequest


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
