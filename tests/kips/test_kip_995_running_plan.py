"""KIP-995, its test plan with running tasks: where reading begins, and what the statuses say.

`test_kip_995_standalone` has the line about the JSON file of a standalone worker.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controlplane.logs.log import Record
from controlplane.plane import Settings
from controlplane.worker.standalone.offset_file import OffsetFile
from controlplane.worker.standalone.standalone_commands import StandaloneCommands
from tests.kips.running_connectors import (
    CONFIGS,
    NUMBERS,
    SINK,
    SOURCE,
    RunningConnectors,
    asked_by,
    offsets_at,
    running_connectors,
    until_equal,
)
from tests.kips.service import RefusingLog
from tests.patience import NEVER_RETRIED
from tests.worker.numbered_records import CollectingSink, CountingSource, put
from tests.worker.standalone.standalone_fixture import standalone
from tests.worker.worker_fixture import produce

EITHER = pytest.mark.parametrize("name", [SOURCE, SINK])
STATES = pytest.mark.parametrize(
    ("initial_state", "states"),
    [
        ("RUNNING", ("RUNNING", "RUNNING")),
        ("PAUSED", ("PAUSED",)),
        ("STOPPED", ("STOPPED",)),
    ],
)
"""Initial states, and the states of the connector and then of its tasks.

A connector that is created PAUSED has no tasks before it is resumed.
"""
BEHIND_ONE = ["2", "3"]
"""Numbers that follow the initial offset: the tasks read them."""
SET = "The framework-managed offsets for this connector have been set successfully"


def creation(name: str, **fields: Any) -> dict[str, Any]:
    """Return the body of a creation with an initial offset after the first number."""
    offsets = offsets_at(name, 1)["offsets"][name]
    return {"name": name, "config": CONFIGS[name], "initial_offsets": offsets, **fields}


async def created(connectors: RunningConnectors, name: str, **fields: Any) -> None:
    """Create a connector with an initial offset; the answer says that it is set."""
    answer = await connectors.ask("POST", "", creation(name, **fields))
    assert answer.status_code == 200, answer.text
    assert answer.json()["initial_offsets_response"].startswith(SET)


async def begins_behind_one(connectors: RunningConnectors, name: str) -> None:
    """Wait until the tasks have read all numbers but the first, and have committed."""
    await connectors.until_states(name, "RUNNING", "RUNNING")
    await connectors.until_delivered(name, BEHIND_ONE)
    await connectors.until_offsets(name, offsets_at(name, 3))


async def begins_when_resumed(
    connectors: RunningConnectors, name: str, initial_state: str, states: tuple[str, ...]
) -> None:
    """Create a connector in a state; it reads from its initial offset on once it is RUNNING."""
    await created(connectors, name, initial_state=initial_state)
    if initial_state != "RUNNING":
        await connectors.until_states(name, *states)
        assert await connectors.offsets(name) == offsets_at(name, 1)
        assert await connectors.delivered(name) == []
        await connectors.change(name, "resume", "RUNNING", "RUNNING")
    await begins_behind_one(connectors, name)


@asynccontextmanager
async def standalone_connectors(folder: Path) -> AsyncIterator[RunningConnectors]:
    """Run a standalone worker with its offsets file in a folder."""
    put.clear()
    async with (
        standalone(folder, CountingSource, CollectingSink) as worker,
        asked_by(worker, StandaloneCommands(worker)) as connectors,
    ):
        await produce(worker.plane.log, "u", *NUMBERS)
        yield connectors


def setting(record: Record) -> bool:
    """True for a record that sets an offset (step 4)."""
    return record.topic == "connect-offsets" and record.value is not None


def creating(record: Record) -> bool:
    """True for a record that creates the connector (step 5)."""
    return record.topic == "connect-configs"


class TestPlan:
    """Test Plan."""

    @EITHER
    async def test_a_standalone_worker_reads_from_initial_offsets(
        self, tmp_path: Path, name: str
    ) -> None:
        """A standalone worker begins to read at the initial offsets."""
        async with standalone_connectors(tmp_path) as connectors:
            await created(connectors, name)
            await begins_behind_one(connectors, name)

    @STATES
    @EITHER
    async def test_a_standalone_worker_keeps_offsets_until_it_runs(
        self, tmp_path: Path, name: str, initial_state: str, states: tuple[str, ...]
    ) -> None:
        """A standalone worker reads from initial offsets once the connector runs.

        Its file then has the offset that the task has reached.
        """
        async with standalone_connectors(tmp_path) as connectors:
            await begins_when_resumed(connectors, name, initial_state, states)
        if name == SOURCE:
            saved = OffsetFile(tmp_path / "connect.offsets").load()
            assert saved == {b'["source",{"source":"numbers"}]': b'{"at":3}'}

    @EITHER
    async def test_a_distributed_worker_reads_from_initial_offsets(self, name: str) -> None:
        """A distributed worker begins to read at the initial offsets."""
        async with running_connectors() as connectors:
            await created(connectors, name)
            await begins_behind_one(connectors, name)

    @STATES
    @EITHER
    async def test_a_distributed_worker_keeps_offsets_until_it_runs(
        self, name: str, initial_state: str, states: tuple[str, ...]
    ) -> None:
        """A distributed worker reads from initial offsets once the connector runs."""
        async with running_connectors() as connectors:
            await begins_when_resumed(connectors, name, initial_state, states)

    @pytest.mark.parametrize("earlier", [False, True], ids=["first", "after an earlier one"])
    @pytest.mark.parametrize(
        ("refuses", "step"),
        [
            (setting, "Failed to set the initial offsets of connector source"),
            (creating, "Error writing connector configuration to Kafka"),
        ],
        ids=["4", "5"],
    )
    async def test_a_failure_is_cleaned_up(
        self, refuses: Callable[[Record], bool], step: str, earlier: bool
    ) -> None:
        """The answer names the failed step. Nothing runs, and no old or new offset is left.

        The next connector of that name reads from the beginning; the other one runs on.
        """
        log = RefusingLog()
        settings = Settings(limits=NEVER_RETRIED)
        async with running_connectors(log, settings) as connectors:
            await connectors.create(SINK)
            if earlier:
                await connectors.create(SOURCE)
                assert await connectors.code("DELETE", "/source") == 204
            log.refuses = refuses
            answer = await connectors.ask("POST", "", creation(SOURCE))
            log.refuses = None
            assert answer.status_code == 500
            assert step in answer.json()["message"]
            assert await connectors.code("DELETE", "/source") == 404  # waits for the clean-up
            await until_equal(lambda: connectors.code("GET", "/source/status"), 404)
            assert await connectors.states(SINK) == ["RUNNING", "RUNNING"]
            body = {"name": SOURCE, "config": CONFIGS[SOURCE]}
            assert await connectors.code("POST", "", body) == 201
            await connectors.until_delivered(SOURCE, [*NUMBERS, *NUMBERS] if earlier else NUMBERS)
