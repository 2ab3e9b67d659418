"""Logs and archives named on the command line: a cluster each, read when its turn comes."""

import asyncio
import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
import msgspec

from controlplane.clock import now_ms
from controlplane.core.entry import Batch, Entry
from controlplane.core.file_sentences import unreadable
from controlplane.core.moments import check_come
from controlplane.core.order import before, ends_at, entries_of, in_order
from controlplane.core.state import Topics, check_topics
from controlplane.logs.log import ReadableLog
from controlplane.logs.opening import Opening, open_log
from controlplane.shell_completion import complete_files
from replay.archive.hadoop import NONE, Settings
from replay.errors import NoArchive, no_archive
from replay.gaps import Gap
from replay.offsets_topics import own_topics

Command = TypeVar("Command", bound=Callable[..., Any])

OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs", "file")
"""Schemes of places for files: if anything, an archive is there. A folder is one, too."""


class Reading(NamedTuple):
    """How what was named is to be read."""

    topics: Topics
    """Of logs: an archive knows the names of its own."""
    exactly_once: bool
    moment: str | None


class Asked(NamedTuple):
    """A log, or one cluster of an archive. Nothing of it is opened yet."""

    where: str
    cluster: str
    """What people call it."""
    reading: Reading
    archived: bool = False
    settings: Settings = NONE
    """Of an archive, those of its object store."""


class Log(NamedTuple):
    """The records of one cluster, to be read."""

    cluster: str
    topics: Topics
    exactly_once: bool
    entries: Callable[[], Iterable[Entry]]
    """In the one order. Of an archive they are read as they are gone through."""
    head: str | None = None
    """The hash that stands for all that is archived; None: it is a log, which may go on."""
    gaps: tuple[Gap, ...] = ()
    """Of an archive, what had been removed before it was archived, and may have been read."""


def logs_argument(command: Command) -> Command:
    """Add LOG… and what has to be known; the command gets `asked`, a tuple of `Asked`."""

    @functools.wraps(command)
    def with_logs(
        logs: tuple[str, ...], names: tuple[str, ...], moment: str | None, **arguments: Any
    ) -> Any:
        reading = Reading(_topics(arguments), arguments.pop("exactly_once"), moment)
        return command(asked=_asked(logs, names, reading), **arguments)

    argument = click.argument(
        "logs", metavar="LOG|ARCHIVE...", nargs=-1, required=True, shell_complete=complete_files
    )
    return argument(_with_options(with_logs))  # type: ignore[return-value]  # click changes the type


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_options()):
        command = option(command)
    return command


def _options() -> list[Callable[[Any], Any]]:
    usual = msgspec.structs.asdict(Topics())
    return [
        click.option(
            "--cluster",
            "names",
            metavar="NAME",
            multiple=True,
            help="Of archives only this one; of logs what to call them, in their order. Repeat.",
        ),
        click.option(
            "--as-of",
            "moment",
            metavar="MOMENT",
            help="Up to a time, a record (config@57), or a vector of ends. [default: the end]",
        ),
        click.option(
            "--exactly-once",
            is_flag=True,
            help="Workers run with exactly-once support: they read no aborted records.",
        ),
        *(
            click.option(
                f"--{field}-topic",
                metavar="NAME",
                help=f"Of logs, the topic of {field}. [default: {topic}]",
            )
            for field, topic in usual.items()
        ),
    ]


def _topics(arguments: dict[str, Any]) -> Topics:
    """The names of topics that were told, taken out of the arguments."""
    named = {field: arguments.pop(f"{field}_topic") for field in Topics.__struct_fields__}
    topics = Topics(**{field: name for field, name in named.items() if name is not None})
    check_topics(topics)
    return topics


# --- what was named -----------------------------------------------------------------------------


def is_archive(where: str) -> bool:
    """Whether a name means an archive: a folder, or a place in an object store."""
    scheme, found, _ = where.partition("://")
    # Unlike `Path.is_dir` this is false, too, in a directory that may not be looked into.
    return scheme in OBJECT_STORES if found else os.path.isdir(where)  # noqa: PTH112


def _asked(named: tuple[str, ...], names: tuple[str, ...], reading: Reading) -> tuple[Asked, ...]:
    found = [one for where in named for one in _found(where, reading)]
    archived = sum(one.archived for one in found)
    if archived and reading.topics != Topics():
        raise click.UsageError("an archive knows the names of its topics: tell those of logs only")
    if names and archived:
        if archived < len(found):
            raise click.UsageError("--cluster means either logs or clusters of archives, not both")
        found = _only(found, names)
    elif names:
        found = _called(found, names)
    if len({one.cluster for one in found}) < len(found):
        raise click.UsageError("two logs have the same name: name them with --cluster")
    return tuple(found)


def _found(where: str, reading: Reading) -> list[Asked]:
    if not is_archive(where):
        return [Asked(where, where, reading)]
    _check_folder(Path(where))
    from replay.cli import archives  # noqa: PLC0415 - not everybody has what it needs

    return archives.clusters_of(where, reading)


def _check_folder(folder: Path) -> None:
    """Refuse a folder without a cluster in it, before an extra is asked for."""
    try:
        if folder.is_dir() and not any(map(_is_cluster, folder.iterdir())):
            raise no_archive(str(folder))
    except OSError as error:
        raise NoArchive(unreadable(folder, error)) from None


def _is_cluster(folder: Path) -> bool:
    return folder.name.startswith("cluster=")


def _only(found: list[Asked], names: tuple[str, ...]) -> list[Asked]:
    """The clusters of these names."""
    there = {one.cluster: one for one in found}
    for name in names:
        if name not in there:
            raise NoArchive(f"no cluster {name} is archived there (found: {', '.join(there)})")
    return [there[name] for name in dict.fromkeys(names)]


def _called(found: list[Asked], names: tuple[str, ...]) -> list[Asked]:
    """Logs with the names that they are given, in their order."""
    if len(names) > len(found):
        raise click.UsageError("--cluster is given more often than there are logs")
    called = [*names, *(one.cluster for one in found[len(names) :])]
    return [one._replace(cluster=name) for one, name in zip(found, called, strict=True)]


# --- reading ------------------------------------------------------------------------------------


def opened(asked: Asked) -> Log:
    """What was named, ready to be read.

    Raises:
        ReplayError: of an archive, its manifests are not what they were.
    """
    if asked.archived:
        from replay.cli import archives  # noqa: PLC0415 - not everybody has what it needs

        return archives.opened(asked)
    topics, exactly_once, _ = asked.reading
    return Log(asked.cluster, topics, exactly_once, functools.partial(_read, asked))


def _read(asked: Asked) -> Iterable[Entry]:
    """Every record of a log, those of aborted transactions where there are any, too.

    Raises:
        LogError: it cannot be opened or read.
        UnknownMoment: it has nothing there, or not yet.
    """
    topics, _, moment = asked.reading
    batches = asyncio.run(_batches(asked))
    entries = list(entries_of(batches))
    if moment is None:
        return in_order(entries)
    kept = list(before(entries, ends_at(batches, moment, topics)))
    if len(kept) == len(entries):  # else a clock was ahead of ours
        check_come(moment, now_ms())
    return in_order(kept)


async def _batches(asked: Asked) -> list[Batch]:
    topics, exactly_once, _ = asked.reading
    found = await open_log(asked.where, Opening(topics, exactly_once=exactly_once))
    try:
        for problem in found.problems:
            click.echo(f"{asked.where}: {problem}", err=True)
        return await _read_connects(found.log, topics)
    finally:
        await found.log.close()


async def _read_connects(log: ReadableLog, topics: Topics) -> list[Batch]:
    """Every record of Connect's topics, and none of the data that connectors move."""
    there = await log.topics()
    batches = [batch async for batch in log.read({topics.config} & there.keys())]
    own = {topic for batch in batches for topic in own_topics(batch, topics)}
    others = {topics.offsets, topics.status, topics.commands, *own} - {topics.config}
    batches += [batch async for batch in log.read(sorted(others & there.keys()))]
    return batches
