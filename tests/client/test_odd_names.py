"""Connectors with unusual names are reachable by their names."""

import asyncio
from pathlib import Path

import pytest

from controlplane.client.migration.migration_journal import MigrationJournal
from controlplane.client.migration.migration_plan import FORMAT, Migration
from tests.cli.command_calls import call
from tests.cli.running_service import running
from tests.client.client_calls import SOURCE, ClusterCalls

pytestmark = pytest.mark.slow

NAMES = [
    "a/b",
    "%",
    "a%2Fb",
    "a b",
    "größe 😀",
    ".",
    "..",
    "a;b?c#d",
    "{x}",
    "connectors",
    "\\",
]


DELETED = "deleted, as it did not exist at"


def lived(cluster: ClusterCalls) -> None:
    """Create, describe, pause, query and delete each connector."""
    documents = [{"name": name, "config": SOURCE} for name in NAMES]
    cluster.output("apply", "-f", cluster.file("odd.json", documents))
    assert sorted(cluster.json("get")) == sorted(NAMES)
    for name in NAMES:
        assert cluster.json("describe", name)["name"] == name
        assert cluster.output("pause", name) == f"{name}: paused\n"
        assert cluster.output("offsets", name) == f"{name} has no offsets\n"
        undone = cluster.output("undo", "--to", "config@0", "--yes", name)
        assert undone == f"{name}: {'put back to' if name == NAMES[0] else DELETED} config@0\n"
    assert sorted(cluster.json("get")) == [NAMES[0]]  # the first record has made it


def test_odd_names_work_in_a_log(cluster: ClusterCalls) -> None:
    """Odd names work in a log that each command opens for itself."""
    lived(cluster)


async def test_odd_names_work_over_the_network(tmp_path: Path) -> None:
    """Odd names pass through a socket, encoded."""
    async with running(f"sqlite:///{tmp_path}/state.db", "--quiet") as service:
        await asyncio.to_thread(lived, ClusterCalls(service.url, tmp_path))


@pytest.mark.parametrize("words", [("describe", "a/b"), ("pause", "a/b")])
async def test_a_path_that_a_release_refuses_is_named(
    tmp_path: Path, words: tuple[str, str]
) -> None:
    """Kafka 4.x refuses some paths: the error says so, and the other connectors are shown."""
    local = ClusterCalls(f"sqlite:///{tmp_path}/state.db", tmp_path)
    for name in ("a/b", "orders"):
        await asyncio.to_thread(
            local.output, "apply", "-f", local.file("one.json", {"name": name, "config": SOURCE})
        )
    async with running(local.where, "--quiet") as service:
        beneath = ClusterCalls(f"{service.url}/compat/4.3", tmp_path)
        assert list(await asyncio.to_thread(beneath.json, "get")) == ["a/b", "orders"]
        result = await asyncio.to_thread(beneath.refused, *words)
    assert "/connectors/a%2Fb" in result
    assert "before Connect sees it (" in result
    assert result.endswith(": leave /compat/ out of the URL for our own endpoints")


def test_advice_quotes_names_for_a_shell(cluster: ClusterCalls, tmp_path: Path) -> None:
    """A command in a message can be pasted, although a name has a space."""
    cluster.create("a b", initial_state="STOPPED")
    bundle = tmp_path / "bundle.json"
    assert cluster.ask("bundle", "export", "a b", "-f", bundle).code == 0
    cluster.output("resume", "a b")
    assert "run `controlplane stop 'a b'`" in cluster.refused("bundle", "import", bundle)
    places = ("--from", cluster.where, "--to")
    missing = call("migrate", "a b", *places, f"sqlite:///{tmp_path}/a b.db")
    assert f"run `controlplane serve 'sqlite:///{tmp_path}/a b.db'`" in missing.err
    journal = tmp_path / "journal.json"
    config: dict[str, str | None] = {**SOURCE, "name": "a b"}
    migration = Migration(FORMAT, "a b", cluster.where, "http://b", True, "RUNNING", config)
    MigrationJournal(journal).write(migration)
    refused = call("migrate", "b", *places, "http://b", "--journal", journal)
    assert f"(migrate 'a b' --from {cluster.where} --to http://b --delete)" in refused.err
