"""Commands for a connector that still carries out earlier ones."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controlplane.core.commands import (
    AnyCommand,
    CreateConnector,
    PauseConnector,
    RestartConnector,
    RestartTask,
    ResumeConnector,
)
from controlplane.worker.data_topics.embedded_clients import LogClients
from tests.worker.numbered_records import CollectingSink, CountingSource
from tests.worker.test_exactly_once import EXACTLY_ONCE, SETTINGS
from tests.worker.worker_fixture import config_of, running, until_state

PROMPT_S = 30
"""Longest time for a command; the caller of an endless one waits for 90 s."""


@pytest.mark.parametrize("second", [RestartTask("c", 0), RestartConnector("c")])
async def test_a_restart_of_starting_tasks_is_carried_out(second: AnyCommand) -> None:
    """A restart ends the preparation of tasks, and all of them start afterwards.

    With exactly-once support, the preparation sends a command that waits for the restart's end.
    """
    async with running(CountingSource, runtime=EXACTLY_ONCE, settings=SETTINGS) as worker:
        execute = worker.plane.execute
        await execute(CreateConnector("c", config_of(CountingSource, topic="t")))
        for _ in range(5):
            await until_state(worker, "c", "RUNNING", "RUNNING")
            async with asyncio.timeout(PROMPT_S):
                first = RestartConnector("c", include_tasks=True)
                await asyncio.gather(execute(first), execute(second))
        await until_state(worker, "c", "RUNNING", "RUNNING")


@pytest.mark.parametrize("connector", [CountingSource, CollectingSink])
async def test_a_pause_of_a_starting_task_is_reported(
    connector: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that is paused while it opens its clients reports that, and waits."""
    opening, may_open = asyncio.Event(), asyncio.Event()

    def delayed(name: str) -> None:
        open_client = getattr(LogClients, name)

        @asynccontextmanager
        async def opened(*arguments: Any) -> AsyncIterator[Any]:
            opening.set()
            await may_open.wait()
            async with open_client(*arguments) as client:
                yield client

        monkeypatch.setattr(LogClients, name, opened)

    for name in ("producer", "consumer"):
        delayed(name)
    async with running(connector) as worker:
        execute = worker.plane.execute
        config = config_of(connector, **{"topics" if connector is CollectingSink else "topic": "t"})
        await execute(CreateConnector("c", config))
        await opening.wait()
        await execute(PauseConnector("c"))
        await until_state(worker, "c", "PAUSED")
        may_open.set()
        await until_state(worker, "c", "PAUSED", "PAUSED")
        await execute(ResumeConnector("c"))
        await until_state(worker, "c", "RUNNING", "RUNNING")
