"""Logs that were named on the command line, read whole."""

import asyncio
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click
import msgspec

from controlplane.core.entry import Entry
from controlplane.core.order import entries_of
from controlplane.core.state import Topics, check_topics
from controlplane.logs.opening import Opening, open_log

Command = TypeVar("Command", bound=Callable[..., Any])


class Asked(NamedTuple):
    """A log, the names of its topics, and how its workers read."""

    where: str
    topics: Topics
    exactly_once: bool
    cluster: str
    """What people call it."""


def log_argument(command: Command) -> Command:
    """Add LOG and what has to be known about it; the command gets one argument, `asked: Asked`."""

    @functools.wraps(command)
    def with_log(log: str, cluster: str | None, *, exactly_once: bool, **arguments: Any) -> Any:
        topics = _topics(arguments)
        return command(asked=Asked(log, topics, exactly_once, cluster or log), **arguments)

    with_name = click.option("--cluster", metavar="NAME", help="What to call it. [default: LOG]")
    return click.argument("log")(with_name(_with_options(with_log)))  # type: ignore[return-value]


def logs_argument(command: Command) -> Command:
    """Add LOG… and what has to be known; the command gets `asked`, a tuple of `Asked`."""

    @functools.wraps(command)
    def with_logs(
        logs: tuple[str, ...], names: tuple[str, ...], *, exactly_once: bool, **arguments: Any
    ) -> Any:
        topics = _topics(arguments)
        if len(names) > len(logs):
            raise click.UsageError("--cluster is given more often than there are logs")
        called = [*names, *logs[len(names) :]]
        if len({*called}) < len(called):
            raise click.UsageError("two logs have the same name: name them with --cluster")
        asked = [
            Asked(log, topics, exactly_once, name) for log, name in zip(logs, called, strict=True)
        ]
        return command(asked=tuple(asked), **arguments)

    with_names = click.option(
        "--cluster",
        "names",
        metavar="NAME",
        multiple=True,
        help="What to call them, once per LOG in their order. [default: LOG]",
    )(_with_options(with_logs))
    argument = click.argument("logs", metavar="LOG...", nargs=-1, required=True)
    return argument(with_names)  # type: ignore[return-value]  # click changes the type


def _topics(arguments: dict[str, Any]) -> Topics:
    """The names of topics that were told, taken out of the arguments."""
    named = {field: arguments.pop(f"{field}_topic") for field in Topics.__struct_fields__}
    topics = Topics(**{field: name for field, name in named.items() if name is not None})
    check_topics(topics)
    return topics


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_options()):
        command = option(command)
    return command


def _options() -> list[Callable[[Any], Any]]:
    usual = msgspec.structs.asdict(Topics())
    return [
        click.option(
            "--exactly-once",
            is_flag=True,
            help="Workers run with exactly-once support: they read no aborted records.",
        ),
        *(
            click.option(
                f"--{field}-topic", metavar="NAME", help=f"Topic of {field}. [default: {topic}]"
            )
            for field, topic in usual.items()
        ),
    ]


def read_entries(asked: Asked) -> list[Entry]:
    """Every record of a log, those of aborted transactions where there are any, too.

    Raises:
        LogError: it cannot be opened or read.
    """
    return asyncio.run(_read(asked))


async def _read(asked: Asked) -> list[Entry]:
    opened = await open_log(asked.where, Opening(asked.topics, exactly_once=asked.exactly_once))
    try:
        for problem in opened.problems:
            click.echo(f"{asked.where}: {problem}", err=True)
        batches = opened.log.read(list(await opened.log.topics()))
        return list(entries_of([batch async for batch in batches]))
    finally:
        await opened.log.close()
