"""The command `import`: copy records from files and clusters into an embedded log, unchanged."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from controlplane.cli.opened_log import PROBLEMS_SHOWN, LogContent, opened, read_whole
from controlplane.client.http.cluster_address import ClusterAddress
from controlplane.core.entry import Entry
from controlplane.core.text.safe_text import count
from controlplane.event_loop import run_to_end
from controlplane.logs.log import LogNotUsable
from controlplane.logs.log_factory import (
    assumed_in,
    check_form,
    check_whole,
    open_dump,
    partitions_in,
    partitions_of,
    problem_text,
    remarks,
    unread,
)
from controlplane.logs.names import is_cluster, is_embedded, path_of, without_login
from controlplane.logs.offset_rules import by_place
from controlplane.logs.sqlite import SqliteLog, SqliteSettings
from controlplane.logs.sqlite.files import companions_of, create
from controlplane.logs.sqlite.writer_lock import writer_lock
from controlplane.settings.prefixes import SQLITE
from controlplane.terminal.exit_codes import FOUND
from controlplane.terminal.log_options import LogOptions, log_options, output_option
from controlplane.terminal.output import print_json, say
from controlplane.terminal.progress_bar import working
from controlplane.terminal.shell_completion import complete_files
from controlplane.terminal.tables import table


class ImportedInput(msgspec.Struct, frozen=True):
    """Records and problems of one file or cluster."""

    name: str
    form: str
    entries: list[Entry]
    unread: int = 0
    """Number of lines that were left out."""
    problems: tuple[str, ...] = ()
    """Every line that was left out or is doubtful."""
    lossy: bool = False
    """True if records are missing, or may be. An assumed fact, such as an offset that the format
    lacks, loses no record."""
    remarks: tuple[str, ...] = ()
    """Counts of lines that a tool wrote about itself, and that are no records."""
    partitions: Mapping[str, int] = {}
    """Partitions by topic, empty topics included, as far as the source knows them."""
    assumed: frozenset[str] = frozenset()
    """Topics that may have more partitions than the source shows."""


class ImportTarget(NamedTuple):
    """Embedded log that receives the records."""

    path: Path
    limits: SqliteSettings


class ImportReport(msgspec.Struct, frozen=True):
    """Inputs of an import, and the number of records that were new."""

    log: str
    inputs: tuple[ImportedInput, ...]
    added: int

    @property
    def records(self) -> int:
        """Number of records that were read."""
        return sum(len(source.entries) for source in self.inputs)

    @property
    def lossy(self) -> bool:
        """True if records are missing, or may be."""
        return any(source.lossy for source in self.inputs)


class _Import(click.Command):
    """Command that reports a missing LOG; click would take a single word as LOG, and miss FILE."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; a single word is a FILE, and LOG is missing."""
        arguments = [*args]
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter:
            words, *_ = self.make_parser(ctx).parse_args(arguments)
            only, files = words.get("log"), words.get("files")
            if not isinstance(only, str) or (isinstance(files, tuple) and files):
                raise
            raise click.UsageError(
                f"Missing argument 'LOG': {only} is the only word. Name what to read, then the "
                f"embedded log to write: import {only} state.db",
                ctx,
            ) from None


@click.command("import", cls=_Import)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, shell_complete=complete_files)
@click.argument("log", shell_complete=complete_files)
@click.option("--partial", is_flag=True, help="Leave out lines that cannot be read.")
@output_option
@log_options
def import_logs(
    files: tuple[str, ...], log: str, reading: LogOptions, *, partial: bool, output: str
) -> None:
    """Copy records from FILEs (or kafka://host:port) into LOG, an embedded log.

    LOG is created if it does not exist. Offsets, gaps, times and aborted records are kept; records
    that LOG already has are not added again.

    Exit code 1: records are missing, or may be. Causes: --partial left out a line, a file has fewer
    records than it announces, or a tool has replaced bytes. Each such line is listed. A format may
    lack a fact, such as offsets: what was assumed is listed, too, but is no loss. Exit code 2:
    nothing was changed, for instance because a line cannot be read.
    """
    target = _target(log, reading.configuration.settings(SqliteSettings, SQLITE))
    inputs = tuple(_read_input(name, reading, partial=partial) for name in files)
    _check_form(inputs, reading)
    entries = [entry for source in inputs for entry in source.entries]
    _check_one_cluster(entries)  # before the first write: a refusal changes nothing
    added = asyncio.run(_add(target, entries, inputs))
    result = ImportReport(log, inputs, added)
    _print(result, output)
    if result.lossy:
        raise SystemExit(FOUND)


def _target(name: str, limits: SqliteSettings) -> ImportTarget:
    if is_cluster(name):
        cluster = without_login(name)
        raise LogNotUsable(f"{cluster} is a cluster, which is only read: name a file as LOG")
    ClusterAddress(name).check_scheme()
    return ImportTarget(path_of(name), limits)


def _check_form(inputs: Sequence[ImportedInput], reading: LogOptions) -> None:
    """Refuse options about a dump's form that fit none of the inputs."""
    refused = []
    for source in inputs:
        try:
            check_form(source.name, source.form, reading.form)
        except LogNotUsable as error:
            refused.append(error)
    if len(refused) == len(inputs):
        raise refused[0]


def _check_one_cluster(entries: Sequence[Entry]) -> None:
    """Raise `LogNotUsable` if two sources have different records at one position."""
    try:
        by_place(entries)
    except LogNotUsable as error:
        raise LogNotUsable(f"{str(error).rstrip('.')}: {_ONE_CLUSTER}") from None


_ONE_CLUSTER = (
    "use one log per cluster. If a topic was deleted and created again, use one log for the old "
    "records and another for the new"
)


# --- reading --------------------------------------------------------------------------------


def _read_input(name: str, reading: LogOptions, *, partial: bool) -> ImportedInput:
    if is_cluster(name):
        content = asyncio.run(_snapshot(name, reading))
        return ImportedInput(name, "kafka", content.entries, partitions=content.partitions)
    if is_embedded(name):
        content = asyncio.run(read_whole(name, reading))
        partition_counts, assumed = content.partitions, content.assumed
        return ImportedInput(
            name, "sqlite", content.entries, partitions=partition_counts, assumed=assumed
        )
    with working(f"reading {name}"):
        opening = reading.opening()
        dump = open_dump(path_of(name), opening)
    if not partial:
        check_whole(name, dump)
    partition_counts = partitions_in(name, dump, opening)
    return ImportedInput(
        name,
        dump.format,
        dump.entries,
        unread=len(unread(dump)),
        problems=tuple(map(problem_text, dump.problems)),
        lossy=not all(problem.assumed for problem in dump.problems),
        remarks=remarks(dump),
        partitions=partition_counts,
        assumed=assumed_in(dump, partition_counts, opening.topics),
    )


async def _snapshot(name: str, reading: LogOptions) -> LogContent:
    """Read the records of a worker's topics from a cluster, up to now."""
    async with opened(name, reading, exactly_once=True) as source:
        partitions = {topic: len(ends) for topic, ends in source.stop.items()}
        return LogContent(await source.entries(), partitions)


def partitions(inputs: Iterable[ImportedInput]) -> dict[str, int]:
    """Number of partitions by topic: as the source has it, or as the records need it."""
    numbers: dict[str, int] = {}
    for source in inputs:
        for partition_counts in (source.partitions, partitions_of(source.entries)):
            for topic, number in partition_counts.items():
                numbers[topic] = max(number, numbers.get(topic, 0))
    return numbers


# --- writing --------------------------------------------------------------------------------


async def _add(
    target: ImportTarget, entries: Sequence[Entry], inputs: Sequence[ImportedInput]
) -> int:
    """Add the records that the log lacks; after a failure, a file that was created here is removed.

    The lock comes first: otherwise another process could fill the new file, which a failure here
    removes.
    """
    path, created = target.path, list[bool]()

    async def create_file() -> None:
        created.append(await asyncio.to_thread(create, path))

    with writer_lock(path), working(f"writing {path}"):
        try:
            await run_to_end(create_file())  # after Ctrl-C, the file must not appear later
            return await _add_to(target, entries, inputs)
        except BaseException:
            if any(created):
                for file in (path, *companions_of(path)):
                    file.unlink(missing_ok=True)
            raise


async def _add_to(
    target: ImportTarget, entries: Sequence[Entry], inputs: Sequence[ImportedInput]
) -> int:
    """Open the existing log, and add the records that it lacks."""
    log = await SqliteLog.open(target.path, create=False, settings=target.limits)
    try:
        assumed = await _assumed(log, inputs)
        added = await _put(log, entries, partitions(inputs))
        await log.set_assumed_partitions(assumed)
        return added
    finally:
        await log.close()


async def _assumed(log: SqliteLog, inputs: Sequence[ImportedInput]) -> set[str]:
    """Topics that may have more partitions than the log has after the import.

    The import adds to this set only topics that are new in the log. A topic leaves the set if an
    input knows its number of partitions.
    """
    fresh = {topic for source in inputs for topic in source.assumed} - {*await log.topics()}
    definite = {topic for source in inputs for topic in source.partitions.keys() - source.assumed}
    return ({*await log.assumed_partitions()} | fresh) - definite


async def _put(
    log: SqliteLog, entries: Sequence[Entry], partition_counts: Mapping[str, int]
) -> int:
    """Put all records into the log; its topics get at least these numbers of partitions.

    Records of existing partitions come first: only they can conflict with records of the log. Such
    a conflict then leaves the log unchanged.
    """
    present = await log.topics()
    old = [entry for entry in entries if entry.partition < present.get(entry.topic, 0)]
    new = [entry for entry in entries if entry.partition >= present.get(entry.topic, 0)]
    added = await log.put(old)
    for topic, partition_count in partition_counts.items():
        if topic in present:
            await log.add_partitions(topic, partition_count)
        else:
            await log.create_topic(topic, partition_count)
    return added + await log.put(new)


# --- printing -------------------------------------------------------------------------------


def _print(result: ImportReport, output: str) -> None:
    if output == "json":
        print_json(_document(result))
        return
    rows = [
        (source.name, source.form, str(len(source.entries)), str(source.unread))
        for source in result.inputs
    ]
    table(("FILE", "FORMAT", "RECORDS", "LINES LEFT OUT"), rows)
    say()
    table(("TOPIC", "PARTITIONS", "RECORDS"), _topics(result.inputs))
    say()
    for source in result.inputs:
        _print_problems(source)
    say(_summary(result))


def _topics(inputs: Sequence[ImportedInput]) -> list[tuple[str, str, str]]:
    counts = Counter(entry.topic for source in inputs for entry in source.entries)
    numbers = partitions(inputs)
    return [(topic, str(numbers[topic]), str(counts[topic])) for topic in sorted(numbers)]


def _print_problems(source: ImportedInput) -> None:
    for remark in source.remarks:
        say(f"{source.name}: {remark}")
    for problem in source.problems[:PROBLEMS_SHOWN]:
        say(f"{source.name}: {problem}", style="yellow")
    unlisted = len(source.problems) - PROBLEMS_SHOWN
    if unlisted > 0:
        say(f"{source.name}: … and {unlisted} more; -o json has them all", style="yellow")


def _summary(result: ImportReport) -> str:
    if not result.records:
        (first, *rest) = result.inputs
        empty = f"{len(result.inputs)} files hold" if rest else f"{first.name} holds"
        return f"nothing added to {result.log}: {empty} no records"
    if not result.added:
        return f"nothing added: all {count(result.records, 'record')} were in {result.log} already"
    present = result.records - result.added
    already = f"; {present} were there already" if present else ""
    return f"{count(result.added, 'record')} added to {result.log}{already}"


def _document(result: ImportReport) -> dict[str, Any]:
    return {
        "log": result.log,
        "records": result.records,
        "added": result.added,
        "files": [
            {
                "file": source.name,
                "format": source.form,
                "records": len(source.entries),
                "topics": partitions([source]),
                "lines_left_out": source.unread,
                "problems": list(source.problems),
                "remarks": list(source.remarks),
            }
            for source in result.inputs
        ],
    }
