"""End of a task: its author's `stop`, its transformations and predicates."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from controlplane.failure_text import description_of
from controlplane.notices import Notices
from controlplane.worker.drivers.author_thread import AuthorThread
from controlplane.worker.failure_reader import text_in_time
from controlplane.worker.records.conversion import SinkPipeline, SourcePipeline


@asynccontextmanager
async def pipeline_closed(
    pipeline: SourcePipeline | SinkPipeline, thread: AuthorThread, notices: Notices
) -> AsyncIterator[None]:
    """Close the transformations at the end of the block, and end their thread.

    Each failure is only reported.
    """
    try:
        yield
    finally:
        try:
            failures = await thread.call(pipeline.close)
        except Exception as ended:  # noqa: BLE001 - the thread may have ended
            failures = [ended]
        finally:
            thread.abandon()
        # None: the thread was left behind, and closes them once it is free.
        for failure in failures or ():
            reason = await text_in_time(description_of, failure)
            notices.warning("transformations_not_closed", reason=reason)


class Stoppable(Protocol):
    """Driver of a task of either kind."""

    async def stop(self) -> None:
        """Call the author's `stop`; may raise any exception."""
        ...


async def stop_quietly(driver: Stoppable, notices: Notices) -> None:
    """Call the author's `stop`. A failure is only reported, so that it hides no earlier one."""
    try:
        await driver.stop()
    except Exception as failure:  # noqa: BLE001 - a connector may raise anything
        notices.warning("task_stop_failed", reason=await text_in_time(description_of, failure))
