"""`replay watch`: changes of states and findings, as an archive grows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import click

from controlplane.core.releases.profiles import KIP, Profile, check_support
from controlplane.terminal.log_options import not_empty, read_profile
from controlplane.terminal.number_options import Number
from controlplane.terminal.shell_completion import complete_files
from replay.atomic_file import check_outside_clusters
from replay.cli.execution.watched_feed import (
    FeedPrinter,
    WatchOptions,
    check_archive,
    watch_here,
    watch_stream,
)
from replay.cli.options.archives import ArchiveInput, archive_argument
from replay.cli.options.engines import EngineChoice, engine_options
from replay.cli.options.formats import output_option
from replay.cli.options.threshold_changes import changed_thresholds, threshold_option
from replay.cli.output.progress_bar import bar
from replay.engine.executors import SerialExecutor
from replay.engine.spark.location import anywhere
from replay.findings import Severity
from replay.fleet.feed.change_feed import ArchiveFeed
from replay.fleet.feed.cluster_batch import FeedContext
from replay.fleet.feed.feed_tables import FeedTables
from replay.releases import check_single


@click.command()
@archive_argument
@click.option("--once", is_flag=True, help="Print what is archived by now, and exit.")
@click.option(
    "--every",
    "pause_s",
    metavar="SECONDS",
    type=Number(0.1),
    default=60,
    help="Seconds between two checks for new records. [default: 60]",
)
@click.option(
    "--checkpoint",
    metavar="FOLDER",
    callback=not_empty,
    shell_complete=complete_files,
    help="Folder for the progress: the next run continues there. [default: a temporary one]",
)
@click.option(
    "--folder",
    metavar="FOLDER",
    callback=not_empty,
    shell_complete=complete_files,
    help="Folder for the tables in Parquet. [default: `tables` in the checkpoint]",
)
@click.option(
    "--release", metavar="RELEASE", default=KIP, help="Release of the workers. [default: kip]"
)
@click.option(
    "--least",
    type=click.Choice([severity.value for severity in Severity]),
    default="info",
    help="Print only findings of at least this severity. [default: info]",
)
@threshold_option("`replay audit --list`")
@engine_options
@output_option(about="Print lines, or JSON lines.")
def watch(  # noqa: PLR0913 - click passes every option by name
    archive: ArchiveInput,
    *,
    once: bool,
    pause_s: float,
    checkpoint: str | None,
    folder: str | None,
    release: str,
    least: str,
    changes: tuple[str, ...],
    engine: EngineChoice,
    output: str,
) -> None:
    """Print changes of states and findings of ARCHIVE as they are archived, one line each.

    The first batch has all that is archived, or all since the checkpoint. Each batch is written to
    tables, from which the lines are printed; a batch that was interrupted is repeated. A finding
    that no longer holds is printed as resolved.

    Ends with Ctrl-C, or after the present content with --once. Exit code 2: there is no archive, or
    a cluster cannot be read, or the checkpoint and the archive differ; other clusters are printed.
    """
    if folder and not checkpoint:
        raise click.UsageError("--folder FOLDER needs --checkpoint FOLDER: both belong together")
    if engine.is_spark and not (checkpoint or engine.where.is_here):
        raise click.UsageError("tasks on other machines need --checkpoint FOLDER, a shared one")
    check_single(release)
    profile = read_profile(release)
    check_support(profile, exactly_once=archive.exactly_once)
    options = WatchOptions(None if once else pause_s, output, least)
    for place in filter(None, (checkpoint, folder)):
        check_outside_clusters(place)
    with _places(checkpoint, folder) as (progress, tables):
        context = _context(archive, profile, changes, (progress, tables))
        if not engine.is_spark:
            feed = ArchiveFeed(context, SerialExecutor(), archive.clusters)
            check_archive(feed, archive)
            watch_here(feed, FeedPrinter(feed, archive, options), options.every_s)
            return
        from replay.engine.spark.executor import SparkExecutor  # noqa: PLC0415 - needs an extra

        with bar() as shown, engine.started(shown) as session:
            executor = SparkExecutor(session)
            feed = ArchiveFeed(context, executor, archive.clusters, session)
            check_archive(feed, archive)
            watch_stream(feed, FeedPrinter(feed, archive, options), options.every_s)


@contextmanager
def _places(checkpoint: str | None, folder: str | None) -> Iterator[tuple[str, str]]:
    """Yield the folders of the checkpoint and the tables; temporary ones are removed."""
    if checkpoint is not None:
        yield checkpoint, folder or f"{checkpoint.rstrip('/')}/tables"
        return
    with TemporaryDirectory(prefix="replay-") as temporary:
        yield temporary, f"{temporary}/tables"


def _context(
    archive: ArchiveInput, profile: Profile, changes: Sequence[str], places: tuple[str, str]
) -> FeedContext:
    source = archive.source().anywhere
    limits = changed_thresholds(changes)
    checkpoint, tables = map(anywhere, places)
    settings = source.settings
    return FeedContext(source, FeedTables(tables, settings), checkpoint, settings, profile, limits)
