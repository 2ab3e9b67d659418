"""Warnings about calls of a connector's code that do not return."""

import asyncio

import pytest

from controlplane.connect import Sink, SinkTaskContext
from controlplane.core.commands import CreateConnector
from controlplane.worker.drivers import author_thread
from tests.worker.bad_connectors import SHORT, BadSink, BadSource, calls, create_bad, plan
from tests.worker.worker_fixture import RecordedNotices, config_of, running, until

SOON_S = 0.02

LATER_S = 1.0
"""Time limit of calls in the test of a poll; other calls exceed it only on a busy machine."""


def warned_threads(notices: RecordedNotices) -> list[object]:
    """Thread of each warning."""
    return [notice["thread"] for notice in notices.of("call_not_returned")]


@pytest.mark.parametrize(
    ("where", "thread"),
    [
        ("connector.start", "connector bad"),
        ("connector.task_configs", "connector bad"),
        ("task.start", "task bad-0"),
        ("sink.put", "task bad-0"),
    ],
)
async def test_a_call_that_does_not_return_is_logged(
    monkeypatch: pytest.MonkeyPatch, where: str, thread: str
) -> None:
    """The warning has the lines of the calls, the innermost first."""
    monkeypatch.setattr(author_thread, "SLOW_CALL_S", SOON_S)
    plan.update(where=where, how="hang")
    notices = RecordedNotices()
    async with running(BadSource, BadSink, runtime=SHORT, notices=notices) as worker:
        await create_bad(worker, BadSink if where.startswith("sink") else BadSource)
        # A busy machine can delay a call that does return, too.
        await until(lambda: thread in warned_threads(notices))
        notice = notices.of("call_not_returned")[warned_threads(notices).index(thread)]
        assert notice["waited_s"] == SOON_S
        places = notice["stack"].split(" < ")
        assert "threading.py" in places[0]
        method = where.partition(".")[2]
        assert any("bad_connectors.py" in place and method in place for place in places)


class AwaitingSink(Sink):
    """Sink whose `start` awaits an event that nobody sets."""

    async def start(self, _task: SinkTaskContext) -> None:
        """Wait without end, one call deeper."""
        await self._connected()

    async def _connected(self) -> None:
        await asyncio.Event().wait()


async def test_a_call_that_awaits_without_end_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning has the lines that await, the innermost first."""
    monkeypatch.setattr(author_thread, "SLOW_CALL_S", SOON_S)
    notices = RecordedNotices()
    async with running(AwaitingSink, runtime=SHORT, notices=notices) as worker:
        await worker.plane.execute(CreateConnector("s", config_of(AwaitingSink, topics="t")))
        await until(lambda: notices.of("call_not_returned"))
    places = notices.of("call_not_returned")[0]["stack"].split(" < ")
    files = [place.rpartition("/")[2].partition(":")[0] for place in places]
    names = [place.rpartition(" ")[2] for place in places]
    assert files[:3] == ["locks.py", "test_slow_calls.py", "test_slow_calls.py"]
    assert names[:3] == ["wait", "_connected", "start"]


@pytest.mark.slow
async def test_a_poll_may_wait_for_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source's `poll` that waits is no problem."""
    monkeypatch.setattr(author_thread, "SLOW_CALL_S", LATER_S)
    plan.update(where="task.poll", how="hang")
    notices = RecordedNotices()
    async with running(BadSource, runtime=SHORT, notices=notices) as worker:
        await create_bad(worker, BadSource)
        await until(lambda: calls)
        await asyncio.sleep(1.5 * LATER_S)
        stacks = [notice["stack"] for notice in notices.of("call_not_returned")]
        assert not [stack for stack in stacks if " in poll" in stack]
