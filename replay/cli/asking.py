"""What several commands ask of an archive: which clusters, as of when, through whose eyes."""

import functools
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from controlplane.core.moments import UnknownMoment
from controlplane.core.profiles import PROFILES, Profile, check_support
from controlplane.core.safe_text import safe
from controlplane.option_names import named_option
from controlplane.shell_completion import complete_files
from replay.archive import layout
from replay.archive.cluster import Cluster, open_cluster, open_clusters
from replay.archive.integrity import checked
from replay.cli.codes import REFUSED
from replay.cli.gaps import tell_gaps
from replay.cli.printing import read_profile
from replay.cli.stores import store_named
from replay.engine.local import Local, Options
from replay.engine.plan import Plan
from replay.errors import ReplayError
from replay.whole import check_place

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")

EVERY = "all"

NONE = "-"
"""Shown where there is nothing."""


class UnknownConnector(ReplayError):
    """No record of what was asked about concerns a connector of that name."""


class Asked(NamedTuple):
    """An archive, and how it is read."""

    archive: str
    clusters: tuple[str, ...]
    """Only these; none: all."""
    exactly_once: bool
    trusting: bool
    failed: list[str]
    """Clusters of which nothing could be told, as found out on the way."""

    def opened(self) -> list[Cluster]:
        """The clusters that are asked about.

        Raises:
            NoArchive: there is none of such a name, or none at all.
        """
        found = open_clusters(store_named(self.archive), self.clusters)
        return found if self.trusting else [checked(one) for one in found]

    def each(self, ask: Callable[[Cluster], T]) -> list[T]:
        """What is asked of each cluster. What is wrong with one is told, and hides no other.

        Raises:
            ReplayError: nothing can be told of any; why not of the first.
            UnknownMoment: the same.
        """
        store = store_named(self.archive)
        found: list[T] = []
        wrong: list[ReplayError | UnknownMoment] = []
        for name in layout.asked_for(store, self.clusters):
            try:
                cluster = open_cluster(store, name)
                found.append(ask(cluster if self.trusting else checked(cluster)))
            except (ReplayError, UnknownMoment) as error:
                self.failed.append(name)
                wrong.append(error)
        if not found:
            raise wrong[0]
        for one in wrong:
            click.echo(f"Error: {safe(str(one))}", err=True)
        return found

    def profiles(self, names: Sequence[str]) -> list[Profile]:
        """The releases with these names; `all` are those that differ, each once.

        Raises:
            UnknownRelease: a name means nothing, or that release has no exactly-once support.
        """
        found: dict[str, Profile] = {}
        for name in names:
            every = [one for one in PROFILES if one.exactly_once_support or not self.exactly_once]
            for profile in every if name == EVERY else [read_profile(name)]:
                check_support(profile, exactly_once=self.exactly_once)
                found[profile.release] = profile
        return list(found.values())

    def local(self, cluster: Cluster, *, derived: bool = True) -> Local:
        """Who works it out."""
        return Local(cluster, Options(self.exactly_once, derived))


def planned(local: Local, moment: str | None, profiles: Sequence[Profile]) -> Plan:
    """What is to be read as of a moment.

    Raises:
        UnknownMoment: not such a text, or the archive has nothing there.
    """
    try:
        return local.plan(moment, profiles)
    except UnknownMoment as error:
        raise UnknownMoment(f"{local.cluster.name}: {error}") from None


def tell(plans: Sequence[Plan]) -> None:
    """Tell people what they have to know about what is read, each thing once."""
    for told in dict.fromkeys(f"{one.cluster}: {each}" for one in plans for each in one.notices):
        click.echo(told, err=True)
    tell_gaps(gaps_of(plans))


def gaps_of(plans: Sequence[Plan]) -> dict[str, list[str]]:
    """By cluster, what is missing where plans read; those of which nothing is are left out."""
    found: dict[str, dict[str, None]] = {}
    for plan in plans:
        for gap in plan.gaps:
            found.setdefault(plan.cluster, {})[gap.sentence] = None
    return {cluster: [*sentences] for cluster, sentences in found.items()}


def check_connectors(wanted: Iterable[str], there: Container[str]) -> None:
    """Raise `UnknownConnector` for a connector that was asked for and is nowhere."""
    for name in wanted:
        if name not in there:
            raise UnknownConnector(f"no record concerns a connector {name!r}: check the name")


def archive_argument(command: Command) -> Command:
    """Add ARCHIVE and how it is read; the command gets `asked: Asked`."""

    @functools.wraps(command)
    def with_archive(
        archive: str, names: tuple[str, ...], *, exactly_once: bool, trusting: bool, **rest: Any
    ) -> Any:
        asked = Asked(archive, names, exactly_once, trusting, [])
        done = command(asked=asked, **rest)
        if asked.failed:
            raise SystemExit(REFUSED)
        return done

    for option in reversed(_OPTIONS):
        with_archive = option(with_archive)
    return with_archive  # type: ignore[return-value]  # click changes the type


_OPTIONS = (
    click.argument("archive", shell_complete=complete_files),
    click.option(
        "--cluster", "names", metavar="NAME", multiple=True, help="Only this one; repeat."
    ),
    click.option(
        "--exactly-once", is_flag=True, help="As workers see it that read no aborted records."
    ),
    click.option("--trust", "trusting", is_flag=True, help="Do not compare the hashes of files."),
)


def moment_option(about: str = "[default: the end]") -> Callable[[Command], Command]:
    """Add `--as-of MOMENT`; the command gets `moment`."""
    told = f"A time, a record (config@57), or a vector of end offsets. {about}"
    return click.option("--as-of", "moment", metavar="MOMENT", help=told)


profiles_option = named_option(
    "--release",
    "releases",
    former=("--profile",),
    metavar="RELEASE",
    multiple=True,
    default=("kip",),
    help="Whose eyes: a release, kip, or all (each distinct one once); repeat. [default: kip]",
)

connectors_option = click.option(
    "--connector", "connectors", metavar="NAME", multiple=True, help="Only it; repeat."
)


def file_option(*former: str) -> Callable[[Command], Command]:
    """Add `--file FILE`, which belongs to `-o parquet`; the command gets `file`."""

    def with_option(command: Command) -> Command:
        @functools.wraps(command)
        def with_file(*, output: str, file: Path | None, **rest: Any) -> Any:
            if (output == "parquet") is not (file is not None):
                raise click.UsageError("-o parquet and --file FILE belong together")
            if file is not None:
                check_place(file)
            return command(output=output, file=file, **rest)

        return named_option(  # type: ignore[return-value]  # click changes the type
            "--file",
            former=former,
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="The Parquet file to write.",
        )(with_file)

    return with_option


to_option = file_option("--to")
