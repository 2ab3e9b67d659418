"""The command `inspect`: which view of a log is asked for, and by whose eyes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from controlplane.cli.inspect import (
    change_list,
    connector_view,
    hazard_list,
    overview,
    release_comparison,
    rest_answers,
)
from controlplane.cli.opened_log import InputLog, opened
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.terminal.command_errors import FOUND
from controlplane.terminal.log_options import (
    LogOptions,
    log_options,
    not_empty,
    output_option,
    plugins_option,
    read_plugins,
    read_profile,
)
from controlplane.terminal.option_names import named_option
from controlplane.terminal.shell_completion import complete_files

TWO = 2
"""The fewest releases that can be compared."""


class InspectOptions(msgspec.Struct, frozen=True):
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


class ViewRequest(msgspec.Struct, frozen=True):
    """A view of a log to print: options, releases and known plugins."""

    asked: InspectOptions
    profiles: tuple[Profile, ...]
    plugins: Plugins

    async def overview(self, source: InputLog) -> None:
        """All connectors."""
        await overview.show(source, self.profiles[0], self.plugins, self.asked.output)

    async def depth(self, source: InputLog) -> None:
        """Print the view of one connector."""
        name = self.asked.connector or ""
        await connector_view.show(source, self.profiles[0], self.plugins, self.asked.output, name)

    async def comparison(self, source: InputLog) -> None:
        """All connectors, or one, as several releases see them."""
        about = release_comparison.ComparisonScope(
            self.profiles, self.plugins, self.asked.connector
        )
        await release_comparison.show(source, about, self.asked.output)

    async def hazards(self, source: InputLog) -> None:
        """Print the hazards, which no view can show."""
        profile = None if self.asked.profile is None else self.profiles[0]
        found = await hazard_list.show(source, profile, self.asked.output, self.asked.connector)
        if found and self.asked.fail:
            raise SystemExit(FOUND)

    async def changes(self, source: InputLog) -> None:
        """Everything that happened to one connector."""
        name = self.asked.history or ""
        await change_list.show(source, self.profiles[0], self.asked.output, name)

    async def rest(self, source: InputLog) -> None:
        """Every read endpoint."""
        await rest_answers.show(source, self.profiles[0], self.plugins, self.asked.output)


ViewFunction = Callable[[ViewRequest, InputLog], Awaitable[None]]


@click.command
@click.argument("log", shell_complete=complete_files)
@named_option(
    "--release",
    "profile",
    former=("--profile",),
    metavar="RELEASE",
    help="Release to read as: 3.4, kip. [default: kip; with --hazards all]",
)
@click.option(
    "--compare",
    metavar="RELEASES",
    callback=not_empty,
    help="Compare releases side by side: 3.4,3.9,kip.",
)
@click.option("--as-of", metavar="MOMENT", help="A time, config@57, or a vector of end offsets.")
@click.option("--connector", metavar="NAME", callback=not_empty, help="One connector in depth.")
@click.option("--hazards", is_flag=True, help="What no view can show, for all releases or one.")
@click.option(
    "--fail", is_flag=True, help="With --hazards: exit with 1 if there is a hazard, for pipelines."
)
@click.option(
    "--history", metavar="CONNECTOR", callback=not_empty, help="List every change of a connector."
)
@click.option(
    "--rest",
    is_flag=True,
    help="Print the answer of every read endpoint as JSON; -o json shows secrets, as Connect does.",
)
@click.option("--exactly-once", is_flag=True, help="Read as a worker with that support does.")
@plugins_option
@output_option
@log_options
def inspect(log: str, reading: LogOptions, **options: Any) -> None:
    """Show the state that a worker has after reading a LOG.

    The worker is of our own profile, kip, unless --release names a release. Exit code 1: there is
    a hazard, and --fail was given.
    """
    asked = InspectOptions(**options)
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
    question = ViewRequest(asked, profiles, plugins)
    asyncio.run(_answer(log, reading, question, view, exactly_once=support))


async def _answer(
    where: str,
    reading: LogOptions,
    question: ViewRequest,
    view: ViewFunction,
    *,
    exactly_once: bool,
) -> None:
    as_of = question.asked.as_of
    async with opened(where, reading, exactly_once=exactly_once, as_of=as_of) as source:
        await view(question, source)


def _view(asked: InspectOptions) -> ViewFunction:
    """The one view asked for; `--connector` alone is a view, beside others it is a filter."""
    wanted = ("compare", "history", "hazards", "rest")
    views = [f"--{name}" for name in wanted if getattr(asked, name)]
    if asked.connector and not {*views} & {"--compare", "--hazards"}:
        views.append("--connector")
    if len(views) > 1:
        raise click.UsageError(f"{' and '.join(views)} are different views: ask for one")
    return _VIEWS[views[0] if views else ""]


_VIEWS: dict[str, ViewFunction] = {
    "": ViewRequest.overview,
    "--connector": ViewRequest.depth,
    "--compare": ViewRequest.comparison,
    "--hazards": ViewRequest.hazards,
    "--history": ViewRequest.changes,
    "--rest": ViewRequest.rest,
}
