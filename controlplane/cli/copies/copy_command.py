"""The command `copy`: copy a log to topics in Kafka, or such topics to an embedded log."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path

import click
import msgspec

from controlplane.cli.serve.own_topics import check_free_group
from controlplane.core.state import Topics
from controlplane.core.text.safe_text import count
from controlplane.logs.log import HasWriterLock, LogNotUsable, LogUnavailable, ReadableLog
from controlplane.logs.log_copy import (
    CopyProgress,
    LogCopy,
    check_finished,
    new_names,
    put_all,
)
from controlplane.logs.log_factory import open_kafka_log, open_log
from controlplane.logs.names import is_cluster, path_of, without_login
from controlplane.logs.position_runs import PositionRun, PositionRuns
from controlplane.logs.sqlite import SqliteLog, SqliteSettings
from controlplane.logs.sqlite.files import place
from controlplane.logs.sqlite.writer_lock import LogHeld
from controlplane.private_files import draft_folder, remove_abandoned
from controlplane.settings import Configuration, WorkerSettings
from controlplane.settings.prefixes import SQLITE
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.log_options import LogOptions, log_options, output_option
from controlplane.terminal.output import note, print_json, say
from controlplane.terminal.progress_bar import counting
from controlplane.terminal.shell_completion import complete_files
from controlplane.terminal.tables import table
from controlplane.terminal.worker_options import TargetOptions, target_options

RUNS_SHOWN = 40
"""Number of rows of positions that a table shows: they fit on a screen."""


class CopyReport(msgspec.Struct, frozen=True):
    """Output of `copy -o json`: both logs, counts of records, old and new positions."""

    source: str
    target: str
    records: int
    """Number of copied records, of this call and of earlier ones."""
    added: int
    """Records that this call has copied; the others were there already."""
    marked: bool
    """True if a record was added to the command topic of the copy, because the source has no
    commands. The record marks the copy as complete."""
    positions: list[PositionRun]
    """Topics are those of the source."""
    topics: dict[str, str] = {}
    """Name of each topic in the copy, by its name in the source."""


@click.command("copy")
@click.argument("source", metavar="FROM", shell_complete=complete_files)
@click.argument("target", metavar="TO", shell_complete=complete_files)
@target_options
@output_option
@log_options
def copy(
    source: str,
    target: str,
    reading: LogOptions,
    *,
    to: TargetOptions,
    output: str,
) -> None:
    """Copy a log to Kafka, or back: either FROM or TO is kafka://host:port.

    TO gets the topics of configs, offsets, statuses and commands. It is a new file, or a cluster in
    which these topics are empty or missing. Topics keep their names, unless --to-worker-properties
    or --to-…-topic give them others. Records keep their bytes, times and headers. In Kafka, their
    offsets may change: the output lists the old and the new ones. Stop the control plane of FROM
    first. After a failure, the same command continues a copy to Kafka.
    """
    _check_kinds(source, target)
    settings = to.settings(reading.configuration)
    with counting(f"copying {without_login(source)}") as progress:
        if is_cluster(target):
            report = asyncio.run(_to_kafka(source, target, reading, settings, progress))
        else:
            report = asyncio.run(_to_file(source, target, reading, settings, progress))
    _print(report, output)


def _check_kinds(source: str, target: str) -> None:
    """Raise `InputRefused` unless exactly one of both logs is a cluster."""
    if is_cluster(source) and is_cluster(target):
        raise InputRefused(
            "FROM and TO are both clusters: copy to an embedded log first, then from it"
        )
    if not is_cluster(source) and not is_cluster(target):
        raise InputRefused(
            "neither FROM nor TO is kafka://host:port: copy an embedded log with `controlplane "
            "backup`, and a dump with `controlplane import`"
        )


async def _to_kafka(
    source: str, target: str, reading: LogOptions, settings: Configuration, progress: CopyProgress
) -> CopyReport:
    """Copy a log into topics of a cluster; `settings` are those of the cluster."""
    worker = settings.settings(WorkerSettings)
    async with AsyncExitStack() as stack:
        original = await stack.enter_async_context(_original(source, reading, worker.topics))
        log = await open_kafka_log(target, settings, for_copy=True)
        stack.push_async_callback(log.close)
        await check_free_group(log, worker.group_id)
        copying = LogCopy(original, log, reading.topics, progress, worker.topics)
        try:
            await copying.run()
        except LogUnavailable as failure:
            raise LogUnavailable(f"{failure}. The same command continues the copy") from None
        runs, names = copying.runs, new_names(reading.topics, worker.topics)
        return CopyReport(
            source, target, runs.records, copying.added, copying.marked, runs.all, names
        )


async def _to_file(
    source: str, target: str, reading: LogOptions, settings: Configuration, progress: CopyProgress
) -> CopyReport:
    """Copy the topics of a cluster into a new embedded log, which appears when it is complete."""
    path = path_of(target)
    if path.exists():
        raise LogNotUsable(f"{path} exists already: name a file that does not exist")
    renamed = settings.settings(WorkerSettings).topics
    async with _original(source, reading, renamed) as original:
        remove_abandoned(path.parent)
        with draft_folder(path) as folder:
            made = folder / path.name
            runs = await _filled(made, original, reading, renamed, progress)
            try:
                place(made, path)
            except FileExistsError:
                raise LogNotUsable(
                    f"{path} was created meanwhile: name a file that does not exist"
                ) from None
    return CopyReport(
        source,
        target,
        runs.records,
        runs.records,
        marked=False,
        positions=runs.all,
        topics=new_names(reading.topics, renamed),
    )


async def _filled(
    path: Path, original: ReadableLog, reading: LogOptions, renamed: Topics, progress: CopyProgress
) -> PositionRuns:
    """Fill a new embedded log with the records of another log."""
    limits = reading.configuration.settings(SqliteSettings, SQLITE)
    log = await SqliteLog.open(path, settings=limits)
    try:
        return await put_all(original, log, reading.topics, progress, renamed)
    finally:
        await log.close()


@asynccontextmanager
async def _original(
    source: str, reading: LogOptions, renamed: Topics
) -> AsyncIterator[ReadableLog]:
    """Open the log to copy; an embedded one cannot be written meanwhile.

    Raises:
        LogError: it cannot be opened, or another process is its control plane. Also if a command
            has not ended, and the topics of the copy (`renamed`) have other names.
    """
    named = reading.named - {"commands"}
    how = msgspec.structs.replace(reading.opening(), named=named)
    async with await open_log(source, how) as opened:
        await _check_commands(opened.log, reading.topics)
        for problem in opened.problems:
            note(f"{without_login(source)}: {problem}")
        log = opened.log
        try:
            with log.writer_lock() if isinstance(log, HasWriterLock) else nullcontext():
                if renamed != reading.topics:
                    # Under the lock, no command of an embedded log can begin after this check.
                    await check_finished(log, reading.topics)
                yield log
        except LogHeld as held:
            raise LogHeld(held.path, held.process, _BACKUP) from None


async def _check_commands(log: ReadableLog, topics: Topics) -> None:
    """Raise `LogNotUsable` if commands are not in the configured topic, but in the default one."""
    existing = await log.topics()
    usual = Topics().commands
    if topics.commands not in existing and usual in existing:
        raise LogNotUsable(
            f"FROM has no topic {topics.commands}; it has {usual}: "
            "name the topic with --commands-topic"
        )


_BACKUP = "copy a backup of the log (the copy then lacks later commands)"
"""Advice if another process is the control plane of the log."""


def _print(report: CopyReport, output: str) -> None:
    if output == "json":
        print_json(msgspec.to_builtins(report))
        return
    heads = ("TOPIC", "PARTITION", "FROM OFFSETS", "TO OFFSETS", "RECORDS")
    table(heads, (_row(run, report.topics) for run in report.positions[:RUNS_SHOWN]))
    unlisted = len(report.positions) - RUNS_SHOWN
    if unlisted > 0:
        say(f"… and {count(unlisted, 'more range')}; -o json has all")
    say()
    say(_summary(report))


def _row(run: PositionRun, names: Mapping[str, str]) -> Sequence[str]:
    spans = (f"{first}-{first + run.records - 1}" for first in (run.source, run.target))
    copy = names[run.topic]
    topic = run.topic if copy == run.topic else f"{run.topic} → {copy}"
    return (topic, str(run.partition), *spans, str(run.records))


def _summary(report: CopyReport) -> str:
    target = without_login(report.target)
    if not report.added and report.records:
        return f"nothing copied: all {count(report.records, 'record')} were in {target} already"
    present = report.records - report.added
    already = f"; {present} were there already" if present else ""
    return f"{count(report.added, 'record')} copied to {target}{already}"
