"""`migrate --dry-run` shows the steps of the next run."""

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
