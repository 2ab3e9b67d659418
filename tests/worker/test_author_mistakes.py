"""Mistakes of authors are refused at their place, with a message that says what to do."""

from collections.abc import AsyncIterator
from typing import Any

from controlplane.connect import Source
from controlplane.connect.source import SourceRun
from tests.worker.bad_connectors import create_bad
from tests.worker.worker_fixture import running, task_trace, until_state


async def trace_of(source: type[Source]) -> str:
    """Run a source whose task fails; return the trace of the task."""
    async with running(source) as worker:
        await create_bad(worker, source)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        return task_trace(worker, "bad")


class WithoutTopic(Source):
    """Yields a record without a topic."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield the record."""
        yield task.record("x")  # the author's line


async def test_a_record_without_a_topic_is_refused() -> None:
    """The message names both ways to give a topic; the trace has the author's line."""
    trace = await trace_of(WithoutTopic)
    assert "the author's line" in trace
    assert trace.splitlines()[-1].endswith(
        "ConnectError: The record has no topic: set topic in the connector's config, or pass "
        "topic= to task.record"
    )
