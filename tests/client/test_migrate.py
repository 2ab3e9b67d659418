"""`migrate` moves a connector to another cluster completely or not at all."""

import asyncio
import json
import os
import stat
from pathlib import Path

import click
import httpx
import pytest

from controlplane.client.http.api import Api
from controlplane.client.http.request_errors import Unavailable
from controlplane.client.migration.migration_journal import MigrationJournal
from controlplane.client.migration.migration_plan import FORMAT, Migration, MigrationStep
from controlplane.client.migration.migration_run import MigrationRun
from controlplane.logs.sqlite.writer_lock import writer_lock
from tests.cli.command_calls import CommandResult, call, refusal
from tests.cli.running_service import running
from tests.cli.worker_check.stand_in import PreparedAnswer, standing_in
from tests.client.client_calls import PARTITION, SOURCE, ClusterCalls, FakeWorker, error
from tests.client.migration_cases import (
    CRASH_POINTS,
    UNDO_CRASH_POINTS,
    ConcurrentChange,
    CutOffMigration,
    Killed,
)

pytestmark = pytest.mark.slow

OFFSETS = [{"partition": PARTITION, "offset": {"position": 5}}]
CONFIG = {**SOURCE, "name": "orders"}
SINK = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
    "file": "/out.txt",
    "topics": "lines",
}


@pytest.fixture
def other(tmp_path: Path) -> ClusterCalls:
    """Second cluster, with a connector of its own."""
    calls = ClusterCalls(f"sqlite:///{tmp_path}/other.db", tmp_path)
    calls.create("pages")
    return calls


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working directory, which has the journal."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def migrate(*words: object, typed: str | None = None) -> CommandResult:
    """Run `migrate` for the connector `orders`."""
    return call("migrate", "orders", *words, typed=typed, columns=200)


def places(cluster: ClusterCalls, other: ClusterCalls) -> tuple[str, ...]:
    """Options `--from` and `--to` for two clusters."""
    return ("--from", cluster.where, "--to", other.where)


def present(cluster: ClusterCalls) -> tuple[str, object, object] | None:
    """Target state, config and offsets of the connector; None if it is missing."""
    if "orders" not in cluster.json("get"):
        return None
    bundle = json.loads(cluster.ask("bundle", "export", "orders").out)["connectors"][0]
    return bundle["target_state"], bundle["config"], bundle["offsets"]


def present_state(cluster: ClusterCalls) -> str | None:
    """Line of `get` about the connector; None if it is missing."""
    lines = cluster.output("get").splitlines()
    return next((line for line in lines if line.startswith("orders ")), None)


@pytest.mark.parametrize("state", ["RUNNING", "PAUSED", "STOPPED"])
def test_config_offsets_and_state_are_moved(
    cluster: ClusterCalls, other: ClusterCalls, folder: Path, state: str
) -> None:
    """The copy has the same config, offsets and target state; the original stays, stopped."""
    cluster.create(initial_state=state, initial_offsets=OFFSETS)
    result = migrate(*places(cluster, other), "--yes")
    assert result.code == 0, result
    assert result.out.endswith(
        f"orders: migrated to {other.where} ({state}, 1 offset); the original is stopped\n"
    )
    assert present(other) == (state, CONFIG, OFFSETS)
    assert present(cluster) == ("STOPPED", CONFIG, OFFSETS)
    assert not list(folder.glob("controlplane-migrate-*"))
    creation = next(
        row for row in other.json("commands")["commands"] if row["connector"] == "orders"
    )
    assert [each["offset"] for each in creation["asked"]["initial_offsets"]] == [{"position": 5}]


def test_a_config_that_no_journal_can_hold_is_refused(
    cluster: ClusterCalls, other: ClusterCalls, folder: Path
) -> None:
    """Half of a surrogate pair is refused before the first step; the original stays."""
    cluster.create(config={**SOURCE, "more": "\ud800"})
    before = present(cluster)
    result = migrate(*places(cluster, other), "--yes")
    says = "Error: no file can hold orders: a text of its config or offsets has half of a surrogate"
    assert (result.code, result.err.startswith(says)) == (2, True), result
    assert present(cluster) == before
    assert not list(folder.glob("controlplane-migrate-*"))


def test_delete_removes_the_original(cluster: ClusterCalls, other: ClusterCalls) -> None:
    """`--delete` removes the original; JSON has the moved state."""
    cluster.create(initial_offsets=OFFSETS)
    result = migrate(*places(cluster, other), "--yes", "--delete", "-o", "json")
    assert result.json == {
        "connector": "orders",
        "result": "migrated",
        "state": "RUNNING",
        "offsets": OFFSETS,
        "original": "deleted",
    }
    assert present(cluster) is None


def test_neither_a_dry_run_nor_a_no_changes_anything(
    cluster: ClusterCalls, other: ClusterCalls, folder: Path
) -> None:
    """A dry run changes nothing, and neither does a no to the question."""
    cluster.create(initial_offsets=OFFSETS)
    before = present(cluster)
    shown = migrate(*places(cluster, other), "--dry-run")
    assert shown.code == 0
    rows = [line.split()[0] for line in shown.out.splitlines()[3:]]
    assert rows == ["stop", "read", "create", "offsets", "verify", "start"]
    planned = migrate(*places(cluster, other), "--delete", "--dry-run", "-o", "json").json
    assert [step["step"] for step in planned["steps"]] == [step.value for step in MigrationStep]
    refused = migrate(*places(cluster, other), typed="n\n")
    assert refused.code == 1
    machine = migrate(*places(cluster, other), "-o", "json", typed="n\n")
    assert (machine.code, machine.out) == (1, "")
    assert machine.err.index("STEP") < machine.err.index("migrate orders?")
    assert (present(cluster), present(other)) == (before, None)
    assert not list(folder.glob("controlplane-migrate-*"))


def test_a_migration_that_is_killed_at_every_gap_completes(
    cluster: ClusterCalls, other: ClusterCalls, folder: Path
) -> None:
    """Each run continues after the kill of the last one; the result is that of one run."""
    cluster.create(initial_state="PAUSED", initial_offsets=OFFSETS)
    moving = CutOffMigration("orders", cluster.where, other.where, folder, deletes=True)
    asyncio.run(moving.killed_at_each(CRASH_POINTS))
    asyncio.run(moving.run())
    assert present(other) == ("PAUSED", CONFIG, OFFSETS)
    assert present(cluster) is None
    assert moving.journal.read() is None


@pytest.mark.parametrize("gap", CRASH_POINTS)
def test_a_kill_at_any_gap_never_runs_the_connector_twice(
    cluster: ClusterCalls, other: ClusterCalls, folder: Path, gap: str
) -> None:
    """Killed at any gap, the connector never runs in both clusters; the next run completes."""
    cluster.create(initial_offsets=OFFSETS)
    moving = CutOffMigration("orders", cluster.where, other.where, folder, deletes=True)
    with pytest.raises(Killed):
        asyncio.run(moving.run(gap))
    states = [connector[0] for connector in map(present, (cluster, other)) if connector is not None]
    assert states.count("RUNNING") <= 1
    asyncio.run(moving.run())
    assert (present(cluster), present(other)) == (None, ("RUNNING", CONFIG, OFFSETS))


async def _config_changed(source: Api, target: Api) -> None:
    """Another client changes the original while it is being copied."""
    del target
    await source.send("PUT", "/connectors/orders/config", {**SOURCE, "topic": "changed"})


def test_an_undo_that_is_killed_at_every_gap_completes(
    cluster: ClusterCalls, other: ClusterCalls, folder: Path
) -> None:
    """A changed original undoes the migration, however often the process is killed."""
    cluster.create(initial_offsets=OFFSETS)
    moving = CutOffMigration("orders", cluster.where, other.where, folder)
    concurrent_changes = {"before verify": _config_changed}
    gaps = [gap for gap in UNDO_CRASH_POINTS if not gap.endswith("start")]
    asyncio.run(moving.killed_at_each(gaps, concurrent_changes))
    with pytest.raises(click.ClickException, match="everything is as before"):
        asyncio.run(moving.run())
    assert present(other) is None
    assert present(cluster) == ("RUNNING", {**CONFIG, "topic": "changed"}, OFFSETS)
    assert moving.journal.read() is None
    other.create("orders", initial_state="STOPPED")
    assert other.json("offsets", "orders") == {"offsets": []}


async def _foreign_copy(source: Api, target: Api) -> None:
    """Another client creates a connector of this name."""
    del source
    body = {"name": "orders", "config": {**SOURCE, "topic": "foreign"}}
    await target.send("POST", "/connectors", body)


async def _equal_copy(source: Api, target: Api) -> None:
    """Another client creates a connector of this name and config."""
    del source
    await target.send("POST", "/connectors", {"name": "orders", "config": SOURCE})


async def _resumed(source: Api, target: Api) -> None:
    del target
    await source.send("PUT", "/connectors/orders/resume")


async def _offsets_moved(source: Api, target: Api) -> None:
    del target
    moved = {"offsets": [{"partition": PARTITION, "offset": {"position": 6}}]}
    await source.send("PATCH", "/connectors/orders/offsets", moved)


async def _copy_gone(source: Api, target: Api) -> None:
    del source
    await target.send("DELETE", "/connectors/orders")


@pytest.mark.parametrize(
    ("gap", "change", "words"),
    [
        ("before create", _foreign_copy, "has a connector orders with another config"),
        ("before create", _equal_copy, "another client has created orders at sqlite://"),
        ("before verify", _resumed, "orders is no longer stopped at sqlite://"),
        ("before verify", _offsets_moved, "the offsets of orders differ at sqlite://"),
        ("before verify", _copy_gone, "orders has disappeared from sqlite://"),
        ("before start", _copy_gone, "Unknown connector orders"),
    ],
)
def test_a_failed_step_undoes_the_migration(
    cluster: ClusterCalls,
    other: ClusterCalls,
    folder: Path,
    *,
    gap: str,
    change: ConcurrentChange,
    words: str,
) -> None:
    """The earlier steps are undone: the original runs as before, and our copy is gone."""
    cluster.create(initial_offsets=OFFSETS)
    moving = CutOffMigration("orders", cluster.where, other.where, folder)
    with pytest.raises(click.ClickException) as failure:
        asyncio.run(moving.run(concurrent_changes={gap: change}))
    assert words in failure.value.message
    assert failure.value.message.endswith("; everything is as before")
    at_target, at_source = present(other), present(cluster)
    assert at_source is not None
    assert at_source[:2] == ("RUNNING", CONFIG)
    if change is _foreign_copy:
        assert at_target == ("RUNNING", {**CONFIG, "topic": "foreign"}, [])
    elif change is _equal_copy:
        assert at_target == ("RUNNING", CONFIG, [])
    else:
        assert at_target is None
    assert moving.journal.read() is None


def test_an_undo_restores_the_offsets_of_an_earlier_connector(
    cluster: ClusterCalls, other: ClusterCalls, folder: Path
) -> None:
    """Offsets that a deleted connector of that name had left at `--to` are there again."""
    earlier = [
        {"partition": PARTITION, "offset": {"position": 99}},
        {"partition": {"filename": "/old.txt"}, "offset": {"position": 7}},
    ]
    other.create(initial_offsets=earlier)
    other.output("delete", "orders")
    cluster.create(initial_offsets=OFFSETS)
    moving = CutOffMigration("orders", cluster.where, other.where, folder)
    with pytest.raises(click.ClickException, match="everything is as before"):
        asyncio.run(moving.run(concurrent_changes={"before verify": _config_changed}))
    other.create(initial_state="STOPPED")
    assert other.json("offsets", "orders") == {"offsets": earlier}


def test_bad_input_changes_nothing(
    cluster: ClusterCalls, other: ClusterCalls, folder: Path
) -> None:
    """Bad input gives one sentence and changes nothing."""
    cluster.create("pages")
    assert "has no connector orders" in migrate(*places(cluster, other), "--yes").err
    cluster.create(initial_offsets=OFFSETS)
    before = present(cluster)
    same = migrate("--from", cluster.where, "--to", cluster.where, "--yes")
    assert (same.code, "--from and --to name the same cluster" in same.err) == (2, True)
    missing = migrate("--from", cluster.where, "--to", f"sqlite:///{folder}/no.db", "--yes")
    assert (missing.code, "no.db does not exist" in missing.err) == (2, True)
    for words in ((), ("--dry-run",)):
        sentence = refusal(migrate("--from", cluster.where, "--to", "sqlite:///new.db", *words))
        assert sentence == (
            "--to: new.db does not exist: check the path. To create a new log there, run "
            "`controlplane serve sqlite:///new.db`, and end it with Ctrl-C"
        )
    sentence = refusal(migrate("--from", "sqlite:///new.db", "--to", cluster.where))
    assert sentence == "--from: new.db does not exist: check the path"
    assert not (folder / "new.db").exists()
    for words in (("--yes",), ("--dry-run",)):
        sentence = refusal(migrate("--from", "kafka://127.0.0.1:1", "--to", other.where, *words))
        assert sentence.startswith("kafka://127.0.0.1:1 belongs to a Kafka cluster: name an")
    down = migrate("--from", cluster.where, "--to", "http://127.0.0.1:1", "--yes")
    assert (down.code, "cannot be reached" in down.err) == (4, True)
    other.create()
    existing = migrate(*places(cluster, other), "--yes")
    assert (existing.code, "has a connector orders already" in existing.err) == (3, True)
    assert present(cluster) == before


@pytest.mark.parametrize("mode", ["--dry-run", "--yes"])
def test_a_sink_whose_group_cannot_be_read_is_refused(
    cluster: ClusterCalls, other: ClusterCalls, mode: str
) -> None:
    """A log without a worker has no groups. The copy of a sink would begin without its offsets."""
    cluster.create(config=SINK)
    before = present_state(cluster)
    result = migrate(*places(cluster, other), mode)
    assert (result.code, result.out) == (3, "")
    assert f"{cluster.where} is a log, and the offsets of sinks lie in consumer" in result.err
    assert (present_state(cluster), present_state(other)) == (before, None)


def test_a_sink_moves_between_logs_with_groups(cluster: ClusterCalls, other: ClusterCalls) -> None:
    """The copy continues from the offsets that a worker has stored, if both logs have groups."""
    cluster.create(config=SINK)
    cluster.commit("connect-orders", {("lines", 0): 5})
    refused = migrate(*places(cluster, other), "--yes")
    assert (refused.code, other.where in refused.err) == (3, True)
    other.commit("connect-pages", {("lines", 1): 9})
    dry = migrate(*places(cluster, other), "--dry-run")
    assert (dry.code, present_state(other)) == (0, None), dry
    result = migrate(*places(cluster, other), "--yes")
    assert result.code == 0, result
    partition = {"kafka_topic": "lines", "kafka_partition": 0}
    offsets = [{"partition": partition, "offset": {"kafka_offset": 5}}]
    assert present(other) == ("RUNNING", {**SINK, "name": "orders"}, offsets)
    assert present(cluster) == ("STOPPED", {**SINK, "name": "orders"}, offsets)


@pytest.mark.parametrize("mode", ["--dry-run", "--yes"])
@pytest.mark.parametrize(
    "spelling", ["state.db", "./state.db", "sqlite:///folder/../state.db", "link"]
)
def test_one_log_under_two_names_is_refused(
    cluster: ClusterCalls, folder: Path, spelling: str, mode: str
) -> None:
    """A log is recognized by its file. Advice to delete the copy there would lose the original."""
    (folder / "folder").mkdir()
    (folder / "link").symlink_to("state.db")
    cluster.create()
    sentence = refusal(migrate("--from", cluster.where, "--to", spelling, mode))
    assert sentence == "--from and --to name the same cluster: name two"


async def test_two_urls_of_one_service_are_refused(cluster: ClusterCalls) -> None:
    """Two URLs of a service show the same connector; the error does not advise to delete it."""
    await asyncio.to_thread(cluster.create)
    async with running(cluster.where, "--quiet") as service:
        alias = service.url.replace("127.0.0.1", "localhost")
        words = ("--from", service.url, "--to", alias, "--dry-run")
        result = await asyncio.to_thread(migrate, *words)
        same = await asyncio.to_thread(migrate, "--from", alias, "--to", alias.upper() + "/")
    assert "--from and --to name the same cluster" in same.err
    assert (result.code, result.out) == (3, "")
    assert result.err == (
        f"Error: {service.url} and {alias} seem to be one cluster: both have orders, with the same "
        "config and target state. Name another --to\n"
    )


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_log_that_another_process_holds_is_refused(
    cluster: ClusterCalls, other: ClusterCalls, words: tuple[str, ...]
) -> None:
    """The dry run finds the other control plane, too, and leaves its lock alone."""
    cluster.create()
    held = Path(other.where.removeprefix("sqlite:///"))
    with writer_lock(held):
        lock = held.with_name(f"{held.name}-writer")
        sentence = refusal(migrate(*places(cluster, other), *words))
        assert lock.read_text() == f"{os.getpid()}\n"
    assert sentence == (
        f"process {os.getpid()} is the control plane of {held}: ask it (--cluster URL), or end "
        "that process first"
    )
    assert migrate(*places(cluster, other), "--dry-run").code == 0
    assert not lock.exists()


def test_a_journal_that_cannot_be_written_is_refused(
    cluster: ClusterCalls, other: ClusterCalls, folder: Path
) -> None:
    """No step is reported or begun before the journal is in its file."""
    cluster.create()
    before = present(cluster)
    journal = folder / "missing" / "journal.json"
    result = migrate(*places(cluster, other), "--journal", journal, "--yes", "-o", "json")
    assert (result.code, result.out) == (2, "")
    assert "orders: stop" not in result.err
    assert result.err.splitlines()[-1] == (
        f"Error: {journal} cannot be written (No such file or directory): check the path"
    )
    assert (present(cluster), present(other)) == (before, None)


@pytest.mark.parametrize("gap", ["after stop", "before start"])
def test_a_journal_that_is_lost_cuts_the_migration_off(
    cluster: ClusterCalls, other: ClusterCalls, folder: Path, gap: str
) -> None:
    """The error is that of a change that may have been made; the next run continues."""
    cluster.create(initial_offsets=OFFSETS)
    kept, away = folder / "kept", folder / "away"
    kept.mkdir()

    async def lose_journal(*_: Api) -> None:
        kept.rename(away)

    moving = CutOffMigration("orders", cluster.where, other.where, kept)
    with pytest.raises(Unavailable) as failure:
        asyncio.run(moving.run(concurrent_changes={gap: lose_journal}))
    assert failure.value.message.endswith(
        f"run the same command again to continue (journal: {moving.journal.path})"
    )
    away.rename(kept)
    asyncio.run(moving.run())
    assert present(other) == ("RUNNING", CONFIG, OFFSETS)
    assert present(cluster) == ("STOPPED", CONFIG, OFFSETS)


def test_a_journal_of_another_migration_is_refused(
    cluster: ClusterCalls, other: ClusterCalls, folder: Path
) -> None:
    """The error says how to end the other migration first. A file that is no journal is refused."""
    cluster.create(initial_offsets=OFFSETS)
    moving = CutOffMigration("orders", cluster.where, other.where, folder)
    with pytest.raises(Killed):
        asyncio.run(moving.run("after create"))
    journal = moving.journal.path
    assert stat.S_IMODE(journal.stat().st_mode) == 0o600
    words = (*places(cluster, other), "--journal", journal, "--yes")
    refused = migrate(*words, "--delete")
    assert refused.code == 2
    assert f"migrate orders --from {cluster.where} --to {other.where})" in refused.err
    continued = migrate(*words)
    assert (continued.code, "continuing the migration" in continued.err) == (0, True)
    assert present(other) == ("RUNNING", CONFIG, OFFSETS)
    for text, sentence in (("{", "is no journal"), ('{"migration": 1}', "is no journal")):
        journal.write_text(text)
        bad = migrate(*words)
        assert (bad.code, sentence in bad.err) == (2, True)


async def test_releases_that_cannot_migrate_are_refused(
    cluster: ClusterCalls, tmp_path: Path
) -> None:
    """A worker is refused before any change if its release lacks STOPPED or initial states."""
    await asyncio.to_thread(cluster.create)
    for version, side, sentence in (
        ("3.4.1", "--from", "which cannot stop a connector and read its offsets: that takes 3.5.0"),
        ("3.6.2", "--to", "which cannot create a stopped connector: that takes 3.7.0 or newer"),
    ):
        other_side = "--to" if side == "--from" else "--from"
        async with standing_in({"/": [PreparedAnswer(200, {"version": version})]}) as url:
            words = (side, url, other_side, cluster.where, "--yes")
            result = await asyncio.to_thread(migrate, *words)
        assert (result.code, sentence in result.err) == (3, True), result
    del tmp_path


async def test_a_refused_look_after_a_stop_undoes_the_stop(tmp_path: Path) -> None:
    """A stop was accepted; the workers then refuse the status, so the original is resumed."""
    source = FakeWorker(httpx.Response(202), error(403, "no"), httpx.Response(202))
    target = FakeWorker(httpx.Response(500))
    migration = Migration(FORMAT, "orders", "a", "b", deletes=False, state="RUNNING", config={})
    journal = MigrationJournal(tmp_path / "orders.journal.json")
    run = MigrationRun(migration, journal, await source.api(), await target.api(), timeout_s=60)
    with pytest.raises(click.ClickException, match=r"everything is as before$"):
        await run.run(lambda _: None)
    verbs = [request.url.path.rpartition("/")[2] for request in source.requests]
    assert (verbs[0], verbs[-1]) == ("stop", "resume")
