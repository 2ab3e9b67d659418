"""KIP-875, its test plan with running tasks: where reading begins, and what the statuses say.

`test_kip_875_tasks` has the lines about connectors that fail.
"""

import pytest

from controlplane.core.entry import Entry
from tests.kips.running_connectors import (
    MORE,
    NUMBERS,
    SINK,
    SOURCE,
    RunningConnectors,
    offsets_at,
    running_connectors,
)
from tests.worker.worker_fixture import committed_offsets, entries_in

EITHER = pytest.mark.parametrize("name", [SOURCE, SINK])
OTHER = {SOURCE: SINK, SINK: SOURCE}
RUNNING, PAUSED = ("RUNNING", "RUNNING"), ("PAUSED", "PAUSED")


async def reset(connectors: RunningConnectors, name: str) -> None:
    """Reset the offsets of a stopped connector; it shows none any more."""
    assert await connectors.code("DELETE", f"/{name}/offsets") == 204
    assert await connectors.offsets(name) == {"offsets": {name: []}}


async def read_again(connectors: RunningConnectors, name: str) -> None:
    """Resume a connector after a reset; wait until it has read everything again."""
    await connectors.change(name, "resume", *RUNNING)
    await connectors.until_delivered(name, NUMBERS + NUMBERS)


async def read_on(connectors: RunningConnectors, name: str) -> None:
    """Resume a connector with two new numbers; it reads only these."""
    await connectors.grow(name)
    await connectors.change(name, "resume", *RUNNING)
    await connectors.until_delivered(name, NUMBERS + MORE)


class TestOffsets:
    """Test Plan – Offsets tests."""

    async def test_an_unknown_connector_has_no_offsets(self) -> None:
        """Offsets of an unknown connector can be neither viewed nor reset."""
        async with running_connectors() as connectors:
            assert await connectors.code("GET", "/nobody/offsets") == 404
            assert await connectors.code("DELETE", "/nobody/offsets") == 404

    @EITHER
    async def test_offsets_of_a_running_connector_can_be_viewed(self, name: str) -> None:
        """GET shows the progress of the running task, also after further records."""
        async with running_connectors() as connectors:
            await connectors.create(name)
            await connectors.grow(name)
            await connectors.until_delivered(name, NUMBERS + MORE)
            await connectors.until_offsets(name, offsets_at(name, 5))

    @EITHER
    async def test_a_running_connector_cannot_be_reset(self, name: str) -> None:
        """The reset is refused; the task reads on from its offset."""
        async with running_connectors() as connectors:
            await connectors.create(name)
            assert await connectors.code("DELETE", f"/{name}/offsets") == 400
            assert await connectors.states(name) == [*RUNNING]
            assert await connectors.offsets(name) == offsets_at(name, 3)
            await connectors.grow(name)
            await connectors.until_delivered(name, NUMBERS + MORE)

    @EITHER
    async def test_a_paused_connector_cannot_be_reset(self, name: str) -> None:
        """The reset is refused; the resumed task reads on from its offset."""
        async with running_connectors() as connectors:
            await connectors.create(name)
            await connectors.change(name, "pause", *PAUSED)
            assert await connectors.code("DELETE", f"/{name}/offsets") == 400
            assert await connectors.states(name) == [*PAUSED]
            assert await connectors.offsets(name) == offsets_at(name, 3)
            await read_on(connectors, name)

    @EITHER
    async def test_a_stopped_connector_can_be_reset(self, name: str) -> None:
        """The resumed task reads from the beginning."""
        async with running_connectors() as connectors:
            await connectors.create(name)
            await connectors.change(name, "stop", "STOPPED")
            await reset(connectors, name)
            assert await connectors.states(name) == ["STOPPED"]
            await read_again(connectors, name)
            await connectors.until_offsets(name, offsets_at(name, 3))

    @EITHER
    async def test_a_second_reset_succeeds_as_well(self, name: str) -> None:
        """Further resets get the same answer; the resumed task reads from the beginning."""
        async with running_connectors() as connectors:
            await connectors.create(name)
            await connectors.change(name, "stop", "STOPPED")
            for _ in range(3):
                await reset(connectors, name)
            await read_again(connectors, name)

    async def test_a_reset_deletes_the_group_that_the_sink_names(self) -> None:
        """The sink commits in the group that its config names, and in no other."""
        async with running_connectors() as connectors:
            await connectors.create(SINK, **{"consumer.override.group.id": "mine"})
            assert committed_offsets(connectors.worker, "mine") == {("u", 0): 3}
            assert committed_offsets(connectors.worker, "connect-sink") == {}
            await connectors.change(SINK, "stop", "STOPPED")
            await reset(connectors, SINK)
            assert committed_offsets(connectors.worker, "mine") == {}
            await read_again(connectors, SINK)

    async def test_a_reset_clears_the_sources_own_topic_and_the_copy(self) -> None:
        """The source's config names its own topic; the copy is in the worker's topic."""
        async with running_connectors() as connectors:
            await connectors.create(SOURCE, **{"offsets.storage.topic": "own"})
            log = connectors.worker.plane.log
            assert last_value(await entries_in(log, "own")) == b'{"at":3}'
            await connectors.change(SOURCE, "stop", "STOPPED")
            await reset(connectors, SOURCE)
            assert last_value(await entries_in(log, "own")) is None
            assert last_value(await entries_in(log, "connect-offsets")) is None
            await read_again(connectors, SOURCE)


def last_value(entries: list[Entry]) -> bytes | None:
    """Value of the last record of a topic."""
    return entries[-1].value


class TestStopped:
    """Test Plan – Stopped state tests."""

    @EITHER
    async def test_a_running_connector_can_be_stopped(self, name: str) -> None:
        """A stop ends the tasks of a running connector; nothing more is delivered."""
        async with running_connectors() as connectors:
            await connectors.create(name)
            await connectors.change(name, "stop", "STOPPED")
            await connectors.grow(name)
            await connectors.create(OTHER[name])  # takes more time than a poll
            assert await connectors.delivered(name) == NUMBERS
            assert await connectors.states(name) == ["STOPPED"]

    @EITHER
    async def test_a_paused_connector_can_be_stopped(self, name: str) -> None:
        """A stop ends paused tasks; after a later resume they read on from the offset."""
        async with running_connectors() as connectors:
            await connectors.create(name)
            await connectors.change(name, "pause", *PAUSED)
            await connectors.change(name, "stop", "STOPPED")
            await read_on(connectors, name)

    @EITHER
    async def test_tasks_of_a_stopped_connector_are_hidden(self, name: str) -> None:
        """No endpoint shows task configs or task statuses of a stopped connector."""
        async with running_connectors() as connectors:
            await connectors.create(name)
            assert len(await connectors.shows(f"/{name}/tasks")) == 1
            assert await connectors.code("GET", f"/{name}/tasks/0/status") == 200
            await connectors.change(name, "stop", "STOPPED")
            assert await connectors.shows(f"/{name}/tasks") == []
            assert await connectors.code("GET", f"/{name}/tasks/0/status") == 404
            assert (await connectors.shows(f"/{name}"))["tasks"] == []
            expanded = (await connectors.shows("?expand=status&expand=info"))[name]
            assert (expanded["status"]["tasks"], expanded["info"]["tasks"]) == ([], [])
            assert expanded["status"]["connector"]["state"] == "STOPPED"

    @EITHER
    async def test_a_stopped_connector_can_be_resumed(self, name: str) -> None:
        """After a resume, the tasks of a stopped connector read on from the offset."""
        async with running_connectors() as connectors:
            await connectors.create(name)
            await connectors.change(name, "stop", "STOPPED")
            await read_on(connectors, name)
            await connectors.until_offsets(name, offsets_at(name, 5))

    @EITHER
    async def test_a_stopped_connector_can_be_paused(self, name: str) -> None:
        """A pause of a stopped connector publishes its tasks; they read only when resumed."""
        async with running_connectors() as connectors:
            await connectors.create(name)
            await connectors.change(name, "stop", "STOPPED")
            await connectors.change(name, "pause", *PAUSED)
            assert len(await connectors.shows(f"/{name}/tasks")) == 1
            await connectors.grow(name)
            await connectors.create(OTHER[name])  # takes more time than a poll
            assert await connectors.delivered(name) == NUMBERS
            await connectors.change(name, "resume", *RUNNING)
            await connectors.until_delivered(name, NUMBERS + MORE)
