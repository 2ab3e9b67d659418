"""A log that was named on the command line, read whole."""

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
        named = {field: arguments.pop(f"{field}_topic") for field in Topics.__struct_fields__}
        topics = Topics(**{field: name for field, name in named.items() if name is not None})
        check_topics(topics)
        return command(asked=Asked(log, topics, exactly_once, cluster or log), **arguments)

    for option in reversed(_options()):
        with_log = option(with_log)
    return click.argument("log")(with_log)  # type: ignore[return-value]  # click changes the type


def _options() -> list[Callable[[Any], Any]]:
    usual = msgspec.structs.asdict(Topics())
    return [
        click.option("--cluster", metavar="NAME", help="What to call it. [default: LOG]"),
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
