"""Arguments of commands on logs and archives: one input per cluster."""

import functools
import os
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from controlplane.core.moments import quoted
from controlplane.core.state import Topics, check_topics
from controlplane.core.text.file_errors import unreadable
from controlplane.core.topic_names import ALLOWED, is_legal
from controlplane.logs.names import without_login
from controlplane.terminal.log_options import not_empty
from controlplane.terminal.option_names import MOMENT, Decorated
from controlplane.terminal.shell_completion import complete_files
from replay.cli.inputs.log_input import LogInput, ReadOptions
from replay.cli.options.moments import checked_moment
from replay.errors import NoArchive, ReplayError, no_archive, unknown_connectors

OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs", "file")
"""URL schemes of archives, of which `open_store` refuses some; a folder is an archive, too."""


class UnknownConnector(ReplayError):
    """No record concerns a connector of that name."""


def logs_argument(command: Decorated) -> Decorated:
    """Add LOG… and its options; the command gets `inputs`, a tuple of `LogInput`."""

    @functools.wraps(command)
    def with_logs(
        logs: tuple[str, ...], names: tuple[str, ...], moment: str | None, **arguments: Any
    ) -> Any:
        reading = ReadOptions(_topics(arguments), arguments.pop("exactly_once"), moment)
        return command(inputs=_inputs(logs, names, reading), **arguments)

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
            callback=not_empty,
            help="Name for each log, in order, or the archived clusters to select. "
            "May be repeated.",
        ),
        click.option(
            "--as-of",
            "moment",
            metavar="MOMENT",
            callback=checked_moment,
            help=f"Read up to a moment: {MOMENT}. [default: end]",
        ),
        click.option(
            "--exactly-once",
            is_flag=True,
            help="Read like workers with exactly-once support: skip aborted configs and offsets.",
        ),
        *(
            click.option(
                f"--{field}-topic",
                metavar="NAME",
                callback=_legal_topic,
                help=f"Topic of {field} in logs. [default: {topic}]",
            )
            for field, topic in usual.items()
        ),
    ]


def _legal_topic(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    """Refuse a name that no topic can have. Raises `BadParameter`."""
    if name is not None and not is_legal(name):
        raise click.BadParameter(f"{quoted(name)} cannot be the name of a topic: use {ALLOWED}")
    return name


def _topics(arguments: dict[str, Any]) -> Topics:
    """Pop the names of topics from the arguments."""
    named = {field: arguments.pop(f"{field}_topic") for field in Topics.__struct_fields__}
    topics = Topics(**{field: name for field, name in named.items() if name is not None})
    check_topics(topics)
    return topics


# --- what was named -----------------------------------------------------------------------------


def is_archive(where: str) -> bool:
    """True for an archive: a folder, or a place in an object store."""
    scheme, separator, _ = where.partition("://")
    # Unlike `Path.is_dir` this is also False in an unreadable directory.
    return scheme in OBJECT_STORES if separator else os.path.isdir(where)  # noqa: PTH112


def _inputs(
    named: tuple[str, ...], names: tuple[str, ...], reading: ReadOptions
) -> tuple[LogInput, ...]:
    inputs = [log for where in named for log in _inputs_at(where, reading)]
    archived = sum(log.archived for log in inputs)
    if archived and reading.topics != Topics():
        raise click.UsageError(
            "an archive knows the names of its topics: name topics for logs only"
        )
    if names and archived:
        if archived < len(inputs):
            raise click.UsageError("--cluster means either logs or clusters of archives, not both")
        inputs = _only(inputs, names)
    elif names:
        inputs = _called(inputs, names)
    _check_names(inputs)
    return tuple(inputs)


def _check_names(inputs: list[LogInput]) -> None:
    """Refuse two inputs of one name: results, failures and findings are told apart by it."""
    by_cluster: dict[str, LogInput] = {}
    for log in inputs:
        namesake = by_cluster.setdefault(log.cluster, log)
        if namesake is log:
            continue
        if log.archived or namesake.archived:
            raise click.UsageError(
                f"two clusters have the name {log.cluster}: read their archives in separate calls"
            )
        raise click.UsageError("two logs have the same name: name them with --cluster")


def _inputs_at(where: str, reading: ReadOptions) -> list[LogInput]:
    if not is_archive(where):
        return [LogInput(where, without_login(where), reading)]
    _check_folder(Path(where))
    from replay.cli.inputs import archived_logs  # noqa: PLC0415 - needs an extra

    return archived_logs.clusters_of(where, reading)


def _check_folder(folder: Path) -> None:
    """Refuse a folder without clusters before an optional package is required."""
    try:
        if folder.is_dir() and not any(map(_is_cluster, folder.iterdir())):
            raise no_archive(str(folder))
    except OSError as error:
        raise NoArchive(unreadable(folder, error)) from None


def _is_cluster(folder: Path) -> bool:
    return folder.name.startswith("cluster=")


def _only(inputs: list[LogInput], names: tuple[str, ...]) -> list[LogInput]:
    """Archived clusters with the given names, in the order of the names.

    Several archives may have a cluster of the same name.
    """
    by_cluster: dict[str, list[LogInput]] = {}
    for log in inputs:
        by_cluster.setdefault(log.cluster, []).append(log)
    for name in names:
        if name not in by_cluster:
            raise NoArchive(f"no cluster {name} is archived there (found: {', '.join(by_cluster)})")
    return [log for name in dict.fromkeys(names) for log in by_cluster[name]]


def _called(inputs: list[LogInput], names: tuple[str, ...]) -> list[LogInput]:
    """Logs with the given names, in the order of the names."""
    if len(names) > len(inputs):
        raise click.UsageError("--cluster is given more often than there are logs")
    called = [*names, *(log.cluster for log in inputs[len(names) :])]
    return [log._replace(cluster=name) for log, name in zip(inputs, called, strict=True)]


def check_connectors(wanted: Iterable[str], there: Container[str]) -> None:
    """Raise `UnknownConnector` for names that do not occur."""
    absent = [name for name in dict.fromkeys(wanted) if name not in there]
    if absent:
        raise UnknownConnector(unknown_connectors(absent))
