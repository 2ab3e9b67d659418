"""The command `inspect`: select a view of a log, and the releases that read it."""

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
)
from controlplane.cli.inspect.sink_lag import stored_offsets
from controlplane.cli.opened_log import InputLog, opened
from controlplane.core.plan import GroupOffsets
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.core.text.redaction import redacted
from controlplane.terminal.exit_codes import FOUND
from controlplane.terminal.log_options import (
    LogOptions,
    as_of_option,
    exactly_once_option,
    log_options,
    not_empty,
    output_option,
    plugins_option,
    read_plugins,
    read_profile,
)
from controlplane.terminal.option_names import named_option
from controlplane.terminal.output import print_json
from controlplane.terminal.shell_completion import complete_files

RELEASES_LEAST = 2
"""The fewest releases that can be compared."""


class InspectOptions(msgspec.Struct, frozen=True):
    """View that `inspect` prints, with its moment and its releases."""

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
    """View of a log to print: options, releases and known plugins."""

    options: InspectOptions
    profiles: tuple[Profile, ...]
    plugins: Plugins
    reading: LogOptions

    async def overview(self, source: InputLog) -> None:
        """Print all connectors, the unreadable records and the end offsets."""
        await overview.show(source, self.profiles[0], self.plugins, self.options.output)

    async def connector_detail(self, source: InputLog) -> None:
        """Print one connector in detail; the group of a sink only without `--as-of`."""
        await connector_view.show(
            source,
            self.profiles[0],
            self.plugins,
            self.options.output,
            self.options.connector or "",
            # A broker keeps only the present offsets of a group.
            cluster_access=None if self.options.as_of else self.reading,
        )

    async def comparison(self, source: InputLog) -> None:
        """Print all connectors, or one, as several releases see them."""
        scope = release_comparison.ComparisonScope(
            self.profiles, self.plugins, self.options.connector
        )
        await release_comparison.show(source, scope, self.options.output)

    async def hazards(self, source: InputLog) -> None:
        """Print the hazards of the log; exit with 1 if there are any and `--fail` is given."""
        profile = None if self.options.profile is None else self.profiles[0]
        hazards = await hazard_list.show(
            source, profile, self.options.output, self.options.connector
        )
        if hazards and self.options.fail:
            raise SystemExit(FOUND)

    async def changes(self, source: InputLog) -> None:
        """Print every change of one connector."""
        name = self.options.history or ""
        await change_list.show(source, self.profiles[0], self.options.output, name)

    async def rest(self, source: InputLog) -> None:
        """Print the answers of `/` and of every endpoint that reads connectors.

        `-o json` shows secrets, as a worker does.

        An endpoint that the release lacks is listed with the 404 of its workers. An embedded log
        has the present offsets of a sink if a worker has stored them there.
        """
        # Imported here: no other view needs the endpoints.
        from controlplane.rest.endpoints.pure_requests import (  # noqa: PLC0415
            answer,
            base_path,
            every_path,
        )
        from controlplane.rest.endpoints.reads import ReadInputs  # noqa: PLC0415

        state = await source.state(self.profiles[0])
        reading = ReadInputs(state, self.plugins, source.cluster_id)
        groups: dict[str, GroupOffsets] = {}
        if self.options.as_of is None:
            stored = await stored_offsets(source, self.reading, state, self.plugins)
            groups = {f"{base_path(name)}/offsets": offsets for name, offsets in stored.items()}
        answers = {
            path: answer(reading._replace(group=groups.get(path)), path)
            for path in ("/", *every_path(state))
        }
        document = {
            path: {"status": response.status, "answer": response.body}
            for path, response in answers.items()
        }
        print_json(document if self.options.output == "json" else redacted(document))


ViewFunction = Callable[[ViewRequest, InputLog], Awaitable[None]]


@click.command
@click.argument("log", shell_complete=complete_files)
@named_option(
    "--release",
    "profile",
    former=("--profile",),
    metavar="RELEASE",
    help="Release to read as: 3.4, kip. [default: kip; with --hazards: all]",
)
@click.option(
    "--compare",
    metavar="RELEASES",
    callback=not_empty,
    help="Compare releases side by side: 3.4,3.9,kip.",
)
@as_of_option
@click.option(
    "--connector",
    metavar="NAME",
    callback=not_empty,
    help="Show one connector in detail. With --compare: only this one. With --hazards: leave out "
    "hazards that only harm other connectors.",
)
@click.option(
    "--hazards",
    is_flag=True,
    help="List the records that stop a worker, make reads fail, or make members disagree.",
)
@click.option(
    "--fail", is_flag=True, help="With --hazards: exit with 1 if there is a hazard, for pipelines."
)
@click.option(
    "--history", metavar="CONNECTOR", callback=not_empty, help="List every change of a connector."
)
@click.option(
    "--rest",
    is_flag=True,
    help="Print the answers of / and of every endpoint that reads connectors, as JSON; -o json "
    "shows secrets, as Connect does.",
)
@exactly_once_option
@plugins_option
@output_option
@log_options
def inspect(log: str, reading: LogOptions, **options: Any) -> None:
    """Show the state that a worker has after reading LOG.

    Without --release, the worker has the profile kip: the newest release, with known defects
    corrected. Exit code 1: there is a hazard, and --fail was given.
    """
    inspect_options = InspectOptions(**options)
    view = _view(inspect_options)
    if inspect_options.fail and not inspect_options.hazards:
        raise click.UsageError("--fail needs --hazards: give both")
    if inspect_options.compare and inspect_options.profile:
        raise click.UsageError("--compare names the releases: leave out --release")
    names = (
        inspect_options.compare.split(",")
        if inspect_options.compare
        else [KIP if inspect_options.profile is None else inspect_options.profile]
    )
    plugins = read_plugins(inspect_options.plugins, reading.settings)
    support = inspect_options.exactly_once or reading.settings.exactly_once
    profiles = tuple(read_profile(name, exactly_once=support) for name in names)
    releases = {profile.release for profile in profiles}
    if inspect_options.compare and len(releases) < RELEASES_LEAST:
        if len(names) > 1:
            raise click.UsageError(
                f"--compare names one release, {profiles[0].release}, {len(names)} times: name two"
            )
        raise click.UsageError("--compare needs at least two releases, as in 3.4,3.9")
    request = ViewRequest(inspect_options, profiles, plugins, reading)
    asyncio.run(_show(log, reading, request, view, exactly_once=support))


async def _show(
    where: str,
    reading: LogOptions,
    request: ViewRequest,
    view: ViewFunction,
    *,
    exactly_once: bool,
) -> None:
    as_of = request.options.as_of
    async with opened(where, reading, exactly_once=exactly_once, as_of=as_of) as source:
        await view(request, source)


def _view(options: InspectOptions) -> ViewFunction:
    """The selected view. `--connector` is a filter of `--compare` and `--hazards`, else a view."""
    names = ("compare", "history", "hazards", "rest")
    views = [f"--{name}" for name in names if getattr(options, name)]
    if options.connector and not {*views} & {"--compare", "--hazards"}:
        views.append("--connector")
    if len(views) > 1:
        raise click.UsageError(f"{' and '.join(views)} are different views: give one of them")
    return _VIEWS[views[0] if views else ""]


_VIEWS: dict[str, ViewFunction] = {
    "": ViewRequest.overview,
    "--connector": ViewRequest.connector_detail,
    "--compare": ViewRequest.comparison,
    "--hazards": ViewRequest.hazards,
    "--history": ViewRequest.changes,
    "--rest": ViewRequest.rest,
}
