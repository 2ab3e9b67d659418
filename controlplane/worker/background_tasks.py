"""Background tasks of a worker: no code awaits them, so their failures are reported."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from controlplane.failure_text import description_of
from controlplane.notices import Notices

_running: set["asyncio.Task[None]"] = set()
"""Tasks that have not ended: an event loop alone does not keep its tasks alive."""


def background_task(
    work: Coroutine[Any, Any, None], name: str, notices: Notices
) -> "asyncio.Task[None]":
    """Begin a task that runs until it is cancelled; report an exception that ends it earlier."""
    task = asyncio.create_task(work, name=name)

    def report(task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            notices.warning("background_task_failed", task=name, reason=description_of(failure))

    _running.add(task)
    task.add_done_callback(_running.discard)
    task.add_done_callback(report)
    return task
