"""`migrate` says how to go on: a dry run shows the steps of the next run, Ctrl-C the command."""

import asyncio
from pathlib import Path

import pytest

from controlplane.client.http.api import Api
from tests.cli.command_calls import call
from tests.client.client_calls import SOURCE, ClusterCalls
from tests.client.migration_cases import CutOffMigration, Killed


async def _other_topic(source: Api, _: Api) -> None:
    """Another client changes the original while it is being copied."""
    await source.send("PUT", "/connectors/orders/config", {**SOURCE, "topic": "changed"})


def test_a_dry_run_shows_the_steps_to_undo(cluster: ClusterCalls, tmp_path: Path) -> None:
    """The next run would undo a migration that has failed, so a dry run says so."""
    other = ClusterCalls(f"sqlite:///{tmp_path}/other.db", tmp_path)
    other.create("pages")
    cluster.create()
    moving = CutOffMigration("orders", cluster.where, other.where, tmp_path)
    with pytest.raises(Killed):
        asyncio.run(moving.run("before undoing create", {"before verify": _other_topic}))
    places = ("--from", cluster.where, "--to", other.where, "--journal", moving.journal.path)
    words = ("migrate", "orders", *places, "--dry-run")
    shown = call(*words, columns=200)
    assert (shown.code, "undoing the migration" in shown.err) == (0, True), shown
    title, _, _, *rows = shown.out.splitlines()
    assert title == "the migration of orders would be undone:"
    assert [row.split()[0] for row in rows] == ["create", "stop"]
    document = call(*words, "-o", "json").json
    assert document["result"] == "would be undone"
    assert [step["step"] for step in document["steps"]] == ["create", "stop"]


async def _interrupt(*_: Api) -> None:
    """Ctrl-C, as `asyncio.run` passes it on."""
    raise asyncio.CancelledError


async def test_an_interrupted_migration_names_its_journal(
    cluster: ClusterCalls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The original is stopped, so the user must know how to go on."""
    other = ClusterCalls(f"sqlite:///{tmp_path}/other.db", tmp_path)
    await asyncio.to_thread(other.create, "pages")
    await asyncio.to_thread(cluster.create)
    moving = CutOffMigration("orders", cluster.where, other.where, tmp_path)
    with pytest.raises(asyncio.CancelledError):
        await moving.run(None, {"before create": _interrupt})
    advice = f"run the same command again to continue (journal: {moving.journal.path})"
    assert f"the migration of orders is not finished: {advice}\n" in capsys.readouterr().err
    await moving.run()
    assert moving.journal.read() is None
