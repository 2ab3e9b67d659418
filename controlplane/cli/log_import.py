"""The command `import`: records out of files and clusters into an embedded log, as they are."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from controlplane.cli.opened_log import PROBLEMS_SHOWN, LogContent, opened, read_whole
from controlplane.core.entry import Entry
from controlplane.core.text.safe_text import count
from controlplane.logs.log import LogNotUsable
from controlplane.logs.log_factory import (
    assumed_in,
    check_form,
    check_whole,
    open_dump,
    partitions_in,
    partitions_of,
    remarks,
    shown,
    unread,
)
from controlplane.logs.names import is_cluster, is_embedded, path_of, without_login
from controlplane.logs.offset_rules import by_place
from controlplane.logs.sqlite import SqliteLog, SqliteSettings
from controlplane.settings.parts import SQLITE
from controlplane.terminal.command_errors import FOUND
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
    """Lines that were left out."""
    problems: tuple[str, ...] = ()
    """Every line that was left out or is doubtful."""
    lossy: bool = False
    """Something of it is missing, or may be: not all of the problems are mere assumptions."""
    remarks: tuple[str, ...] = ()
    """Counts of lines that are a tool's remarks about itself, not records."""
    partitions: Mapping[str, int] = {}
    """Topics with their number of partitions, empty ones too, where the source knows them."""
    assumed: frozenset[str] = frozenset()
    """Topics that may have more partitions than the source shows."""


class ImportTarget(NamedTuple):
    """The embedded log that takes it all."""

    path: Path
    fresh: bool
    """It is not there yet."""
    limits: SqliteSettings


class ImportReport(msgspec.Struct, frozen=True):
    """Result of an import."""

    log: str
    taken: tuple[ImportedInput, ...]
    added: int

    @property
    def records(self) -> int:
        """Number of records that were read."""
        return sum(len(one.entries) for one in self.taken)

    @property
    def lossy(self) -> bool:
        """True if records are missing, or may be."""
        return any(one.lossy for one in self.taken)


class _Import(click.Command):
    """Tells a missing LOG from a missing FILE: the last word is the LOG."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Say which word is missing where there is only one."""
        given = [*args]
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter:
            words, *_ = self.make_parser(ctx).parse_args(given)
            told, files = words.get("log"), words.get("files")
            if not isinstance(told, str) or (isinstance(files, tuple) and files):
                raise
            raise click.UsageError(
                f"Missing argument 'LOG': {told} is the only word. Name what to read, then the "
                f"embedded log to write: import {told} state.db",
                ctx,
            ) from None


@click.command("import", cls=_Import)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, shell_complete=complete_files)
@click.argument("log", shell_complete=complete_files)
@click.option("--partial", is_flag=True, help="Take what can be read of a file with bad lines.")
@output_option
@log_options
def import_logs(
    files: tuple[str, ...], log: str, reading: LogOptions, *, partial: bool, output: str
) -> None:
    """Copy records from FILEs (or kafka://host:port) into LOG, an embedded log.

    LOG is made if it is not there. Offsets, gaps, times and aborted records are kept as they are;
    what is there already is not added again. Exit code 2: nothing was changed, for instance
    because a line cannot be read. Exit code 1: something is missing, or may be: lines that
    --partial left out, records that a file promises and does not have, bytes that a tool has
    replaced. Each such line is named, and so is what had to be assumed, which alone is no loss: 0.
    """
    target = _target(log, reading.configuration.settings(SqliteSettings, SQLITE))
    taken = tuple(_take(name, reading, partial=partial) for name in files)
    _check_form(taken, reading)
    entries = [entry for one in taken for entry in one.entries]
    _check_one_cluster(entries)  # before anything is changed
    added = asyncio.run(_add(target, entries, taken))
    result = ImportReport(log, taken, added)
    _print(result, output)
    if result.lossy:
        raise SystemExit(FOUND)


def _target(name: str, limits: SqliteSettings) -> ImportTarget:
    if is_cluster(name):
        told = without_login(name)
        raise LogNotUsable(f"{told} is a cluster, which is only ever read: name a file as LOG")
    path = path_of(name)
    return ImportTarget(path, not path.exists(), limits)


def _check_form(taken: Sequence[ImportedInput], reading: LogOptions) -> None:
    """Refuse options about a dump's form that fit none of the inputs."""
    refused = []
    for one in taken:
        try:
            check_form(one.name, one.form, reading.form)
        except LogNotUsable as error:
            refused.append(error)
    if len(refused) == len(taken):
        raise refused[0]


def _check_one_cluster(entries: Sequence[Entry]) -> None:
    """Two files may repeat each other, but not contradict."""
    try:
        by_place(entries)
    except LogNotUsable as error:
        raise LogNotUsable(f"{str(error).rstrip('.')}: {_ONE_CLUSTER}") from None


_ONE_CLUSTER = "import records of different clusters, or of topics made anew, into a log for each"


# --- reading --------------------------------------------------------------------------------


def _take(name: str, reading: LogOptions, *, partial: bool) -> ImportedInput:
    if is_cluster(name):
        found = asyncio.run(_snapshot(name, reading))
        return ImportedInput(name, "kafka", found.entries, partitions=found.partitions)
    if is_embedded(name):
        found = asyncio.run(read_whole(name, reading))
        known, assumed = found.partitions, found.assumed
        return ImportedInput(name, "sqlite", found.entries, partitions=known, assumed=assumed)
    with working(f"reading {name}"):
        how = reading.opening()
        dump = open_dump(path_of(name), how)
    if not partial:
        check_whole(name, dump)
    known = partitions_in(name, dump, how)
    return ImportedInput(
        name,
        dump.format,
        dump.entries,
        unread=len(unread(dump)),
        problems=tuple(map(shown, dump.problems)),
        lossy=not all(problem.assumed for problem in dump.problems),
        remarks=remarks(dump),
        partitions=known,
        assumed=assumed_in(dump, known, how.topics),
    )


async def _snapshot(name: str, reading: LogOptions) -> LogContent:
    """Read the records that a worker reads from a cluster, up to now."""
    async with opened(name, reading, exactly_once=True) as source:
        partitions = {topic: len(ends) for topic, ends in source.stop.items()}
        return LogContent(await source.entries(), partitions)


def partitions(taken: Iterable[ImportedInput]) -> dict[str, int]:
    """Topics with as many partitions as their source has, or their records need."""
    wanted: dict[str, int] = {}
    for one in taken:
        for told in (one.partitions, partitions_of(one.entries)):
            for topic, number in told.items():
                wanted[topic] = max(number, wanted.get(topic, 0))
    return wanted


# --- writing --------------------------------------------------------------------------------


async def _add(
    target: ImportTarget, entries: Sequence[Entry], taken: Sequence[ImportedInput]
) -> int:
    """Add what is not there yet; a fresh file does not outlive a failure."""
    path = target.path
    log = await SqliteLog.open(path, settings=target.limits)
    try:
        with working(f"writing {path}"):
            assumed = await _assumed(log, taken)
            added = await _put(log, entries, partitions(taken))
            await log.set_assumed_partitions(assumed)
            return added
    except BaseException:
        if target.fresh:
            await log.close()
            for part in (path, *_beside(path)):
                part.unlink(missing_ok=True)
        raise
    finally:
        await log.close()


async def _assumed(log: SqliteLog, taken: Sequence[ImportedInput]) -> set[str]:
    """Topics that may have more partitions, once these sources are in the log.

    A topic that is there already has its partitions. A source that knows the number settles it.
    """
    fresh = {topic for one in taken for topic in one.assumed} - {*await log.topics()}
    known = {topic for one in taken for topic in one.partitions.keys() - one.assumed}
    return ({*await log.assumed_partitions()} | fresh) - known


def _beside(path: Path) -> Iterable[Path]:
    """The files that SQLite keeps beside its own."""
    return (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))


async def _put(log: SqliteLog, entries: Sequence[Entry], wanted: Mapping[str, int]) -> int:
    """Put records of existing partitions first: only they can conflict; then nothing changes."""
    present = await log.topics()
    old = [one for one in entries if one.partition < present.get(one.topic, 0)]
    new = [one for one in entries if one.partition >= present.get(one.topic, 0)]
    added = await log.put(old)
    for topic, count_wanted in wanted.items():
        if topic in present:
            await log.add_partitions(topic, count_wanted)
        else:
            await log.create_topic(topic, count_wanted)
    return added + await log.put(new)


# --- printing -------------------------------------------------------------------------------


def _print(result: ImportReport, output: str) -> None:
    if output == "json":
        print_json(_document(result))
        return
    rows = [(one.name, one.form, str(len(one.entries)), str(one.unread)) for one in result.taken]
    table(("FILE", "FORMAT", "RECORDS", "LINES LEFT OUT"), rows)
    say()
    table(("TOPIC", "PARTITIONS", "RECORDS"), _topics(result.taken))
    say()
    for one in result.taken:
        _print_problems(one)
    say(_summary(result))


def _topics(taken: Sequence[ImportedInput]) -> list[tuple[str, str, str]]:
    counts = Counter(entry.topic for one in taken for entry in one.entries)
    wanted = partitions(taken)
    return [(topic, str(wanted[topic]), str(counts[topic])) for topic in sorted(wanted)]


def _print_problems(taken: ImportedInput) -> None:
    for remark in taken.remarks:
        say(f"{taken.name}: {remark}")
    for problem in taken.problems[:PROBLEMS_SHOWN]:
        say(f"{taken.name}: {problem}", style="yellow")
    more = len(taken.problems) - PROBLEMS_SHOWN
    if more > 0:
        say(f"{taken.name}: … and {more} more; -o json names them all", style="yellow")


def _summary(result: ImportReport) -> str:
    if not result.records:
        (first, *more) = result.taken
        empty = f"{len(result.taken)} files hold" if more else f"{first.name} holds"
        return f"nothing added to {result.log}: {empty} no records"
    if not result.added:
        return f"nothing added: all {count(result.records, 'record')} were in {result.log} already"
    there = result.records - result.added
    already = f"; {there} were there already" if there else ""
    return f"{count(result.added, 'record')} added to {result.log}{already}"


def _document(result: ImportReport) -> dict[str, Any]:
    return {
        "log": result.log,
        "records": result.records,
        "added": result.added,
        "files": [
            {
                "file": one.name,
                "format": one.form,
                "records": len(one.entries),
                "topics": partitions([one]),
                "lines_left_out": one.unread,
                "problems": list(one.problems),
                "remarks": list(one.remarks),
            }
            for one in result.taken
        ],
    }
