"""`migrate`: move a connector to another cluster, with its offsets and its target state."""

import asyncio
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path
from shlex import join, quote
from typing import Any

import click
import msgspec

from controlplane.client.commands.batch import yes_option
from controlplane.client.commands.documents import (
    TABLE,
    before_document,
    output_option,
    print_document,
)
from controlplane.client.commands.verbs import access_options
from controlplane.client.http.api import Api, check_name
from controlplane.client.http.cluster_address import ClusterAccess, ClusterAddress
from controlplane.client.http.connection import connected
from controlplane.client.migration.migration_check import check_migration
from controlplane.client.migration.migration_journal import MigrationJournal, default_journal
from controlplane.client.migration.migration_plan import Migration
from controlplane.client.migration.migration_run import MigrationRun
from controlplane.core.text.safe_text import count
from controlplane.logs.names import SQLITE, NoSuchLog, path_of
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.log_options import not_empty
from controlplane.terminal.number_options import Number
from controlplane.terminal.output import note, say
from controlplane.terminal.prompts import confirm
from controlplane.terminal.shell_completion import complete_files
from controlplane.terminal.tables import table
from controlplane.terminal.worker_options import FILE


class MigrateOptions(msgspec.Struct, frozen=True):
    """Options of `migrate`; `timeout` is in seconds, and `output` the form of the output."""

    timeout: float
    output: str
    delete: bool
    dry_run: bool
    yes: bool


@click.command("migrate")
@click.argument("name", callback=not_empty)
@click.option(
    "--from",
    "source",
    required=True,
    metavar="URL|LOG",
    callback=not_empty,
    shell_complete=complete_files,
    help="Cluster that has the connector: URL of a worker, or an embedded log.",
)
@click.option(
    "--to",
    "target",
    required=True,
    metavar="URL|LOG",
    callback=not_empty,
    shell_complete=complete_files,
    help="Cluster that gets the connector: URL of a worker, or an embedded log.",
)
@click.option(
    "--delete",
    is_flag=True,
    help="Delete the original as the last step. [default: leave it stopped]",
)
@click.option(
    "--journal",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    shell_complete=complete_files,
    help="File that keeps the progress until the end; the same command continues from it after a "
    "crash. [default: controlplane-migrate-NAME.json in the working directory]",
)
@click.option(
    "--timeout",
    type=Number(0),
    default=60.0,
    metavar="SECONDS",
    help="Longest time in seconds for tasks to end, and to start. [default: 60]",
)
@click.option(
    "--dry-run", is_flag=True, help="Check both clusters and show the steps; change nothing."
)
@yes_option
@access_options
@click.option("--to-user", metavar="NAME[:PASSWORD]", help="As --user, for the cluster of --to.")
@click.option("--to-token", metavar="TOKEN|@FILE", help="As --token, for the cluster of --to.")
@click.option("--to-ca-file", type=FILE, metavar="FILE", help="As --ca-file, for --to.")
@output_option
def migrate(  # noqa: PLR0913 - click gives one argument per option
    *,
    name: str,
    source: str,
    target: str,
    journal: Path | None,
    user: str | None,
    token: str | None,
    ca_file: Path | None,
    to_user: str | None,
    to_token: str | None,
    to_ca_file: Path | None,
    **options: Any,
) -> None:
    """Move a connector to another cluster, with its offsets and its target state.

    The connector is stopped, copied with its offsets, compared, and started in the other cluster.
    The original stays, stopped; --delete deletes it as the last step. If an earlier step fails,
    everything is undone, unless the copy has processed records. --user, --token and --ca-file are
    for --from only.

    Shows the steps first, and asks for confirmation. A sink needs the same topics in the other
    cluster.
    """
    check_name(name)
    places = (
        ClusterAddress(source, user, token, ca_file),
        ClusterAddress(target, to_user, to_token, to_ca_file),
    )
    if places[0].leads_to_same(places[1]):
        raise InputRefused("--from and --to name the same cluster: name two")
    kept = MigrationJournal(journal or default_journal(name))
    chosen = MigrateOptions(**options)
    with nullcontext() if chosen.dry_run else kept.lock():
        asyncio.run(_migrated(name, places, kept, chosen))


async def _migrated(
    name: str,
    places: tuple[ClusterAddress, ClusterAddress],
    journal: MigrationJournal,
    options: MigrateOptions,
) -> None:
    stored = journal.read()
    if stored is not None:
        _check_same(stored, name, places, journal, deletes=options.delete)
    needs = (
        (ClusterAccess.PLAN_AS_WRITER, ClusterAccess.PLAN_AS_WRITER)
        if options.dry_run
        else (ClusterAccess.WRITE, ClusterAccess.WRITE)
    )
    async with AsyncExitStack() as stack:
        source, target = [
            await _opened(stack, place, need, option)
            for place, need, option in zip(places, needs, ("--from", "--to"), strict=True)
        ]
        migration = await _planned(source, target, name, stored, options)
        if options.dry_run:
            return
        undoes = migration.failure is not None
        question = f"undo the migration of {name}?" if undoes else f"migrate {name}?"
        confirm(question, yes=options.yes)
        run = MigrationRun(migration, journal, source, target, timeout_s=options.timeout)
        await run.run(lambda step: note(f"{name}: {step.value}"))
        _print_done(run.migration, options.output)


async def _opened(
    stack: AsyncExitStack, place: ClusterAddress, need: ClusterAccess, option: str
) -> Api:
    """Connect to a cluster, until the stack ends.

    Raises:
        NoSuchLog: there is no such log; the message has the option, and how to create a target.
    """
    try:
        return await stack.enter_async_context(connected(place, need, option=option))
    except NoSuchLog as missing:
        creation = f". To create a new log there, {_creation_advice(place)}"
        raise NoSuchLog(f"{option}: {missing}{creation * (option == '--to')}") from None


def _creation_advice(place: ClusterAddress) -> str:
    """Advice that names the command that creates an embedded log."""
    log = quote(f"{SQLITE}/{path_of(place.where)}")
    return f"run `controlplane serve {log}`, and end it with Ctrl-C"


async def _planned(
    source: Api, target: Api, name: str, stored: Migration | None, options: MigrateOptions
) -> Migration:
    """Check and show a new migration, or show one that was cut off."""
    if stored is not None:
        which = "undoing" if stored.failure is not None else "continuing"
        finished_steps = ", ".join(step.value for step in stored.done) or "none"
        note(f"{which} the migration that was cut off; done: {finished_steps}")
        _print_plan(stored, None, options)
        return stored
    plan = await check_migration(source, target, name, deletes=options.delete)
    for remark in plan.remarks:
        note(remark)
    _print_plan(plan.migration, len(plan.offsets), options)
    return plan.migration


def _check_same(
    stored: Migration,
    name: str,
    places: tuple[ClusterAddress, ClusterAddress],
    journal: MigrationJournal,
    *,
    deletes: bool,
) -> None:
    """Refuse a journal of another migration.

    Raises:
        InputRefused: the message has the command that continues it.
    """
    requested = (name, *(place.without_login for place in places), deletes)
    if requested != (stored.name, stored.source, stored.target, stored.deletes):
        words = ("migrate", stored.name, "--from", stored.source, "--to", stored.target)
        command = join((*words, *(["--delete"] if stored.deletes else ())))
        raise InputRefused(
            f"{journal.path} is the journal of another migration, which was cut off. Continue that "
            f"one first ({command}), or name another --journal"
        )


def _print_plan(migration: Migration, offsets: int | None, options: MigrateOptions) -> None:
    """Print the steps as a table; a dry run prints them in the format of `--output`.

    A migration that has failed will be undone: only the steps to undo are printed.
    """
    rows = list(migration.rows(offsets))
    result, title = "would be migrated", f"{migration.name} ({migration.state}) would be migrated:"
    if migration.failure is not None:
        result, title = "would be undone", f"the migration of {migration.name} would be undone:"
    if options.dry_run and options.output != TABLE:
        names = ("step", "cluster", "effect", "undone_by")
        steps = [dict(zip(names, row, strict=True)) for row in rows]
        document = {"connector": migration.name, "result": result, "steps": steps}
        print_document(document, options.output)
    else:
        with before_document(options.output):
            say(title)
            table(("STEP", "CLUSTER", "EFFECT", "UNDONE BY"), rows)


def _print_done(migration: Migration, output: str) -> None:
    original = "deleted" if migration.deletes else "stopped"
    offsets = migration.offsets or []
    if output == TABLE:
        words = f"{migration.state}, {count(len(offsets), 'offset')}"
        result = f"migrated to {migration.target} ({words})"
        say(f"{migration.name}: {result}; the original is {original}")
        return
    document = {
        "connector": migration.name,
        "result": "migrated",
        "state": migration.state,
        "offsets": offsets,
        "original": original,
    }
    print_document(document, output)
