"""Instances of a connector that a newer config has replaced."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from controlplane.connect import ConnectorContext, SourceConnector, SourceTask
from controlplane.connect.source import ResolvedConfig
from controlplane.core.commands import CreateConnector, PauseConnector, PutConfig
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import config_of, running, until, until_state

contexts: list[ConnectorContext] = []
"""Contexts of the instances that were started."""

making = threading.Event()
"""Set: new instances are made without delay."""

made: list[int] = []
"""An element for each instance whose creation has begun."""


class UnhurriedTask(SourceTask):
    """Task without records."""

    async def poll(self) -> Sequence[Any]:
        """Wait, and return no records."""
        await asyncio.sleep(0.01)
        return []


class ContextKeeper(SourceConnector):
    """Connector that gives its contexts to the test."""

    task = UnhurriedTask

    def __init__(self) -> None:
        made.append(len(made))
        making.wait(PATIENCE_S)

    def start(self, config: ResolvedConfig) -> None:
        """Keep the context."""
        del config
        contexts.append(self.context)

    def task_configs(self, limit: int) -> Sequence[ResolvedConfig]:
        """Return the config of one task."""
        del limit
        return [{}]


async def test_a_failure_of_a_replaced_instance_does_not_fail_its_successor() -> None:
    """A thread of the former instance may call `fail` late. The successor can still be paused."""
    contexts.clear()
    making.set()
    async with running(ContextKeeper) as worker:
        await worker.plane.execute(CreateConnector("c", config_of(ContextKeeper)))
        await until_state(worker, "c", "RUNNING", "RUNNING")
        await worker.plane.execute(PutConfig("c", config_of(ContextKeeper, level="2")))
        await until(lambda: len(contexts) > 1)
        await worker.started("c", PATIENCE_S)
        contexts[0].fail(RuntimeError("too late"))
        await worker.plane.execute(PauseConnector("c"))
        await until_state(worker, "c", "PAUSED", "PAUSED")


async def test_started_waits_for_the_successor_of_a_replaced_instance() -> None:
    """A newer config replaces an instance that is still being made."""
    contexts.clear()
    made.clear()
    making.clear()
    async with running(ContextKeeper) as worker:
        await worker.plane.execute(CreateConnector("c", config_of(ContextKeeper)))
        await until(lambda: made)
        started = asyncio.create_task(worker.started("c", PATIENCE_S))
        await asyncio.sleep(0.02)  # the caller now waits for this instance
        await worker.plane.execute(PutConfig("c", config_of(ContextKeeper, level="2")))
        making.set()
        await started
        assert [context.config.get("level") for context in contexts] == ["2"]
