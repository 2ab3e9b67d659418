"""One process at a time runs a migration, with one journal."""

import os
from pathlib import Path
from urllib.parse import quote

import pytest

from controlplane.client.migration.migration_journal import default_journal
from controlplane.logs.sqlite.writer_lock import writer_lock
from tests.cli.command_calls import call, refusal
from tests.client.client_calls import SOURCE, ClusterCalls


def test_a_second_run_with_one_journal_is_refused(cluster: ClusterCalls, tmp_path: Path) -> None:
    """The second run changes nothing. A dry run may look, and the lock file does not stay."""
    other = ClusterCalls(f"sqlite:///{tmp_path}/other.db", tmp_path)
    other.create("pages")
    cluster.create(config=SOURCE)
    journal = tmp_path / "journal.json"
    places = ("--from", cluster.where, "--to", other.where, "--journal", journal)
    with writer_lock(journal):
        sentence = refusal(call("migrate", "orders", *places, "--yes", columns=200))
        assert call("migrate", "orders", *places, "--dry-run").code == 0
    assert sentence == (
        f"process {os.getpid()} runs the migration of {journal}: wait until it ends, or end that "
        "process first"
    )
    assert "orders" not in other.json("get")
    assert call("migrate", "orders", *places, "--yes").code == 0
    assert list(tmp_path.glob("journal*")) == []


def test_a_journal_of_a_long_name_has_a_short_one(
    cluster: ClusterCalls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A character of another alphabet takes up to nine in the name of the journal."""
    monkeypatch.chdir(tmp_path)
    other = ClusterCalls(f"sqlite:///{tmp_path}/other.db", tmp_path)
    other.create("pages")
    name = "注" * 60
    cluster.create(name, config=SOURCE)
    assert call("migrate", name, "--from", cluster.where, "--to", other.where, "--yes").code == 0
    assert name in other.json("get")


def test_a_journal_of_an_earlier_version_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions did not cut the name in the path of a journal."""
    monkeypatch.chdir(tmp_path)
    for name in ("a" * 201, "注" * 24):
        whole = Path(f"controlplane-migrate-{quote(name)}.json")
        short = default_journal(name)
        assert len(short.name) < len(whole.name)
        whole.touch()
        assert default_journal(name) == whole
