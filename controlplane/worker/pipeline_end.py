"""End of a task's transformations and predicates."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from controlplane.projection.notices import Notices
from controlplane.worker.author_thread import AuthorThread
from controlplane.worker.conversion import SinkPipeline, SourcePipeline


@asynccontextmanager
async def pipeline_closed(
    pipeline: SourcePipeline | SinkPipeline, thread: AuthorThread, notices: Notices
) -> AsyncIterator[None]:
    """Close the transformations at the end of the block, and end their thread.

    A failure is only reported.
    """
    try:
        yield
    finally:
        try:
            await thread.call(pipeline.close)
        except Exception as failure:  # noqa: BLE001 - a transformation may raise anything
            notices.warning("transformations_not_closed", reason=repr(failure))
        finally:
            thread.abandon()
