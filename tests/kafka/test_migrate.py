"""`migrate` between real clusters (3.9 and 4.3 on one broker) and an embedded log."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import httpx
import pytest

from controlplane.client.http.api import Api
from tests.cli.command_calls import CommandResult, call
from tests.client.client_calls import ClusterCalls
from tests.client.migration_cases import CRASH_POINTS, UNDO_CRASH_POINTS, CutOffMigration
from tests.kafka.conftest import up
from tests.kafka.live_cluster import BUSY, PAUSE_S
from tests.kafka.real_kafka import Broker, KafkaWorker
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.broker]

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
BROKER = "4.3.0"


class MovingCluster:
    """Worker of one side of a migration, and its HTTP client."""

    def __init__(self, worker: KafkaWorker) -> None:
        self.worker = worker
        self.url = worker.url

    async def ask(self, method: str, path: str, body: Any = None) -> None:
        """Send a request, again while the worker rebalances."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                answer = await self.worker.rest.request(method, path, json=body)
                if answer.status_code not in BUSY:
                    assert answer.is_success, answer.text
                    return
                await asyncio.sleep(PAUSE_S)

    async def get(self, path: str) -> Any:
        """Successful answer; None for any other."""
        answer = await self.worker.rest.get(path)
        return answer.json() if answer.is_success else None

    async def states(self, name: str) -> list[str]:
        """States of a connector and its tasks; none: no such status."""
        status = await self.get(f"/connectors/{name}/status")
        if status is None:
            return []
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    async def offsets(self, name: str) -> list[dict[str, Any]]:
        """Return the offsets of a connector that are not null."""
        answer = await self.get(f"/connectors/{name}/offsets") or {"offsets": []}
        return [entry for entry in answer["offsets"] if entry["offset"] is not None]

    async def until_states(self, name: str, *states: str) -> None:
        """Wait until a connector and its tasks are in these states."""
        async with asyncio.timeout(PATIENCE_S):
            while await self.states(name) != list(states):  # noqa: ASYNC110 - no event reports it
                await asyncio.sleep(PAUSE_S)

    async def until_offset(self, name: str, offset: dict[str, int]) -> None:
        """Wait until the only offset of a connector is this one."""
        async with asyncio.timeout(PATIENCE_S):
            while [entry["offset"] for entry in await self.offsets(name)] != [offset]:  # noqa: ASYNC110
                await asyncio.sleep(PAUSE_S)


@asynccontextmanager
async def clusters(folder: Path) -> AsyncIterator[tuple[MovingCluster, MovingCluster]]:
    """A cluster of 3.9 and one of 4.3, with topics of their own on one broker."""
    async with (
        up(BROKER, folder) as broker,
        _worker("3.9.1", broker) as old,
        _worker("4.3.0", broker) as new,
    ):
        yield MovingCluster(old), MovingCluster(new)


def _worker(release: str, broker: Broker) -> KafkaWorker:
    name = f"cluster-{release}"
    return KafkaWorker(
        release,
        broker,
        group__id=name,
        config__storage__topic=f"{name}-configs",
        offset__storage__topic=f"{name}-offsets",
        status__storage__topic=f"{name}-status",
    )


async def migrate(name: str, source: str, target: str, *words: object) -> CommandResult:
    """Run `migrate` for a connector in a thread."""
    options = ("--from", source, "--to", target, "--yes", "--timeout", PATIENCE_S, *words)
    return await asyncio.to_thread(call, "migrate", name, *options, columns=200)


async def test_connectors_continue_from_their_offsets_on_the_other_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source and a sink continue from their offsets, whatever interrupts the migration."""
    monkeypatch.chdir(tmp_path)
    lines = tmp_path / "lines.txt"
    lines.write_text("aaa\nbbb\n")
    async with clusters(tmp_path) as (old, new):
        config = {"connector.class": SOURCE, "file": str(lines), "topic": "lines", "name": "lines"}
        await old.ask("PUT", "/connectors/lines/config", config)
        await old.until_offset("lines", {"position": 8})
        await _undone(old, new, tmp_path)
        await _worker_killed(old, new, tmp_path)
        await _moved(old, new, lines)
        await _sink(old, new, tmp_path)
        await _to_ours_and_back(new, tmp_path)


async def _config_changed(source: Api, target: Api) -> None:
    """Another client changes the copy."""
    del source
    path = "/connectors/lines/config"
    config = await target.get(path)
    await target.send("PUT", path, {**config, "batch.size": "7"})


async def _changed_back(source: Api, target: Api) -> None:
    del source
    path = "/connectors/lines/config"
    config = await target.get(path)
    await target.send("PUT", path, {key: config[key] for key in config if key != "batch.size"})


async def _undone(old: MovingCluster, new: MovingCluster, folder: Path) -> None:
    """The comparison fails, and the process is killed at each gap of the undo."""
    moving = CutOffMigration("lines", old.url, new.url, folder)
    concurrent_changes = {"before verify": _config_changed, "before undoing offsets": _changed_back}
    gaps = [gap for gap in UNDO_CRASH_POINTS if not gap.endswith("start")]
    await moving.killed_at_each(gaps, concurrent_changes)
    with pytest.raises(click.ClickException, match="the config of lines has changed") as failure:
        await moving.run()
    assert failure.value.message.endswith("; everything is as before")
    await old.until_states("lines", "RUNNING", "RUNNING")
    assert await new.get("/connectors") == []
    assert moving.journal.read() is None


async def _worker_killed(old: MovingCluster, new: MovingCluster, folder: Path) -> None:
    """The other worker is killed: the original runs again; the rest is undone after the restart."""
    moving = CutOffMigration("lines", old.url, new.url, folder)

    async def killed(source: Api, target: Api) -> None:
        del source, target
        await new.worker.kill9()

    with pytest.raises(click.ClickException, match="not undone: create") as failure:
        await moving.run(concurrent_changes={"before offsets": killed})
    assert failure.value.exit_code == 4
    await old.until_states("lines", "RUNNING", "RUNNING")
    await new.worker.start()
    await new.until_states("lines", "STOPPED")
    with pytest.raises(click.ClickException, match="everything is as before"):
        await moving.run()
    assert await new.get("/connectors") == []
    await old.until_states("lines", "RUNNING", "RUNNING")


async def _moved(old: MovingCluster, new: MovingCluster, lines: Path) -> None:
    """Kill the process at every gap, then complete: the copy continues at the original's offset."""
    moving = CutOffMigration("lines", old.url, new.url, lines.parent)
    gaps = [gap for gap in CRASH_POINTS if not gap.endswith("delete")]
    await moving.killed_at_each(gaps)
    await moving.run()
    assert await old.states("lines") == ["STOPPED"]
    assert await old.offsets("lines") == await new.offsets("lines")
    with lines.open("a") as file:
        file.write("ccc\n")
    await new.until_offset("lines", {"position": 12})
    again = await migrate("lines", old.url, new.url)
    assert (again.code, "has a connector lines already" in again.err) == (3, True)


async def _sink(old: MovingCluster, new: MovingCluster, folder: Path) -> None:
    """Both clusters share the sink's group; a failed start is undone, offsets included."""
    output = folder / "out" / "copy.txt"
    output.parent.mkdir()
    config = {"connector.class": SINK, "file": str(output), "topics": "lines", "name": "copy"}
    await old.ask("PUT", "/connectors/copy/config", config)
    await old.until_offset("copy", {"kafka_offset": 3})
    moving = CutOffMigration("copy", old.url, new.url, folder)

    async def folder_gone(source: Api, target: Api) -> None:
        del source, target
        output.unlink()
        output.parent.rmdir()

    with pytest.raises(click.ClickException, match=r"copy fails .* everything is as before"):
        await moving.run(concurrent_changes={"before start": folder_gone})
    assert await new.get("/connectors") == ["lines"]
    output.parent.mkdir()
    await old.ask("POST", "/connectors/copy/restart?includeTasks=true")
    await old.until_states("copy", "RUNNING", "RUNNING")
    assert [entry["offset"] for entry in await old.offsets("copy")] == [{"kafka_offset": 3}]
    result = await migrate("copy", old.url, new.url, "--delete")
    assert result.code == 0, result
    assert (await old.get("/connectors"), await new.states("copy")) == (
        ["lines"],
        ["RUNNING", "RUNNING"],
    )
    assert [entry["offset"] for entry in await new.offsets("copy")] == [{"kafka_offset": 3}]


async def _to_ours_and_back(new: MovingCluster, folder: Path) -> None:
    """Migrate to an embedded log and back; a missing class is refused."""
    ours = ClusterCalls(f"sqlite:///{folder}/state.db", folder)
    await asyncio.to_thread(ours.create, "orders")
    result = await migrate("lines", new.url, ours.where, "--delete")
    assert result.code == 0, result
    offsets = await asyncio.to_thread(ours.json, "offsets", "lines")
    assert [entry["offset"] for entry in offsets["offsets"]] == [{"position": 12}]
    result = await migrate("lines", ours.where, new.url)
    assert result.code == 0, result
    await new.until_states("lines", "RUNNING", "RUNNING")
    assert [entry["offset"] for entry in await new.offsets("lines")] == [{"position": 12}]
    environment = {"CONTROLPLANE_PLUGINS_TRUST_UNKNOWN": "true"}
    foreign = ours.file("foreign.json", {"name": "foreign", "connector.class": "org.Foreign"})
    applied = await asyncio.to_thread(
        lambda: call("apply", "-f", foreign, "-c", ours.where, environment=environment)
    )
    assert applied.code == 0, applied
    result = await migrate("foreign", ours.where, new.url)
    assert result.code == 3
    assert f"{new.url} has no connector class org.Foreign: install the plugin" in result.err
    assert (await new.worker.rest.get("/connectors/foreign")).status_code == httpx.codes.NOT_FOUND
