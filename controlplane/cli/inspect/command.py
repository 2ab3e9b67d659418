"""The command `inspect`: which view of a log is asked for, and by whose eyes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from controlplane.cli.failing import FOUND
from controlplane.cli.inspect import (
    comparison,
    connector,
    hazards,
    history,
    overview,
    rest,
)
from controlplane.cli.options import (
    Reading,
    log_options,
    not_empty,
    output_option,
    plugins_option,
    read_plugins,
    read_profile,
)
from controlplane.cli.sources import Source, opened
from controlplane.core.plugins import Plugins
from controlplane.core.profiles import KIP, Profile
from controlplane.option_names import named_option
from controlplane.shell_completion import complete_files

TWO = 2
"""The fewest releases that can be compared."""


class Asked(msgspec.Struct, frozen=True):
    """The options of `inspect`, as they were given."""

    profile: str | None
    compare: str | None
    as_of: str | None
    connector: str | None
    history: str | None
    hazards: bool
    fail: bool
    rest: bool
    exactly_once: bool
    plugins: Path | None
    output: str


class Question(msgspec.Struct, frozen=True):
    """What is to be shown of a log, and by whose eyes it is read."""

    asked: Asked
    profiles: tuple[Profile, ...]
    plugins: Plugins

    async def overview(self, source: Source) -> None:
        """All connectors."""
        await overview.show(source, self.profiles[0], self.plugins, self.asked.output)

    async def depth(self, source: Source) -> None:
        """One connector."""
        name = self.asked.connector or ""
        await connector.show(source, self.profiles[0], self.plugins, self.asked.output, name)

    async def comparison(self, source: Source) -> None:
        """All connectors, or one, as several releases see them."""
        about = comparison.About(self.profiles, self.plugins, self.asked.connector)
        await comparison.show(source, about, self.asked.output)

    async def hazards(self, source: Source) -> None:
        """What no view can show."""
        profile = None if self.asked.profile is None else self.profiles[0]
        found = await hazards.show(source, profile, self.asked.output, self.asked.connector)
        if found and self.asked.fail:
            raise SystemExit(FOUND)

    async def changes(self, source: Source) -> None:
        """Everything that happened to one connector."""
        name = self.asked.history or ""
        await history.show(source, self.profiles[0], self.asked.output, name)

    async def rest(self, source: Source) -> None:
        """Every read endpoint."""
        await rest.show(source, self.profiles[0], self.plugins, self.asked.output)


View = Callable[[Question, Source], Awaitable[None]]


@click.command
@click.argument("log", shell_complete=complete_files)
@named_option(
    "--release",
    "profile",
    former=("--profile",),
    metavar="RELEASE",
    help="Read as this release: 3.4, kip. [default: kip; all for --hazards]",
)
@click.option(
    "--compare",
    metavar="RELEASES",
    callback=not_empty,
    help="Side by side, as 3.4,3.9,kip see it.",
)
@click.option("--as-of", metavar="MOMENT", help="A time, config@57, or a vector of end offsets.")
@click.option("--connector", metavar="NAME", callback=not_empty, help="One connector in depth.")
@click.option("--hazards", is_flag=True, help="What no view can show, for all releases or one.")
@click.option(
    "--fail", is_flag=True, help="With --hazards: exit with 1 if there is a hazard, for pipelines."
)
@click.option(
    "--history", metavar="CONNECTOR", callback=not_empty, help="Every change of a connector."
)
@click.option(
    "--rest",
    is_flag=True,
    help="Every read endpoint's answer, as JSON; with -o json secrets are shown, as Connect does.",
)
@click.option("--exactly-once", is_flag=True, help="Read as a worker with that support does.")
@plugins_option
@output_option
@log_options
def inspect(log: str, reading: Reading, **options: Any) -> None:
    """Show what a LOG makes a worker know.

    The worker is of our own profile, kip, unless --release names a release. Exit code 1: there is
    a hazard, and --fail was given.
    """
    asked = Asked(**options)
    view = _view(asked)
    if asked.fail and not asked.hazards:
        raise click.UsageError("--fail is about hazards: say --hazards, too")
    if asked.compare and asked.profile:
        raise click.UsageError("--compare names the releases: leave out --release")
    names = (
        asked.compare.split(",")
        if asked.compare
        else [KIP if asked.profile is None else asked.profile]
    )
    if asked.compare and len(names) < TWO:
        raise click.UsageError("--compare needs at least two releases, as in 3.4,3.9")
    plugins = read_plugins(asked.plugins, reading.settings)
    support = asked.exactly_once or reading.settings.exactly_once
    profiles = tuple(read_profile(name, exactly_once=support) for name in names)
    question = Question(asked, profiles, plugins)
    asyncio.run(_answer(log, reading, question, view, exactly_once=support))


async def _answer(
    where: str, reading: Reading, question: Question, view: View, *, exactly_once: bool
) -> None:
    as_of = question.asked.as_of
    async with opened(where, reading, exactly_once=exactly_once, as_of=as_of) as source:
        await view(question, source)


def _view(asked: Asked) -> View:
    """The one view asked for; `--connector` alone is a view, beside others it is a filter."""
    wanted = ("compare", "history", "hazards", "rest")
    views = [f"--{name}" for name in wanted if getattr(asked, name)]
    if asked.connector and not {*views} & {"--compare", "--hazards"}:
        views.append("--connector")
    if len(views) > 1:
        raise click.UsageError(f"{' and '.join(views)} are different views: ask for one")
    return _VIEWS[views[0] if views else ""]


_VIEWS: dict[str, View] = {
    "": Question.overview,
    "--connector": Question.depth,
    "--compare": Question.comparison,
    "--hazards": Question.hazards,
    "--history": Question.changes,
    "--rest": Question.rest,
}
