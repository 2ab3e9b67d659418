"""`replay report`: one page of HTML about a fleet."""

from pathlib import Path

import click
import msgspec

from controlplane.core.profiles import KIP, RELEASES, Profile, check_support
from controlplane.core.safe_text import count
from controlplane.option_names import named_option
from replay.cli.fleet import Done, Job, Way, fleet_options, for_each
from replay.cli.logs import Asked, Log, logs_argument
from replay.cli.printing import read_profile, say
from replay.cli.trails import requests_by_cluster, trail_option
from replay.report import Limits, Look, Looked, page
from replay.report.looking import Records
from replay.whole import check_place, whole

OLDEST_LINE = "2.8"
"""Of the release lines that a fleet is compared with, unless others are named, the oldest."""


@click.command()
@logs_argument
@named_option(
    "--file",
    former=("--to",),
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The HTML file to write.",
)
@click.option(
    "--release", metavar="RELEASE", default=KIP, help="Release of the workers. [default: kip]"
)
@click.option(
    "--towards",
    "goals",
    metavar="RELEASE",
    multiple=True,
    help=f"What they may become; repeat. [default: each release line from {OLDEST_LINE} on]",
)
@trail_option
@fleet_options
@click.pass_context
def report(  # noqa: PLR0913, PLR0917 - click gives one argument per option
    ctx: click.Context,
    asked: tuple[Asked, ...],
    file: Path,
    release: str,
    goals: tuple[str, ...],
    trails: tuple[str, ...],
    way: Way,
) -> None:
    """Write one page about everything that is named: it opens anywhere, and asks nobody.

    Timelines of connectors, what audits find, what releases would do, what compaction would, each
    with the records that show it. Exit code 0: it is written; 2: bad input, though the page may
    tell of the rest.
    """
    check_place(file)
    profile = read_profile(release)
    check_support(profile, exactly_once=any(one.reading.exactly_once for one in asked))
    towards = tuple(map(read_profile, goals)) if goals else _lines()
    limits, requests = Limits.shared_by(len(asked)), requests_by_cluster(asked, trails)
    look = _Looking(Look(profile, towards, limits, requests))
    done = for_each(asked, Job("looking", look, Looked), way)
    if done.results:
        _write(file, done)
        say(f"{file}: {count(len(done.results), 'cluster')}")
    ctx.exit(done.code)


class _Looking(msgspec.Struct, frozen=True):
    """A look at one cluster, and everything that decides about it."""

    look: Look

    def __call__(self, log: Log) -> Looked:
        name, topics, support, entries, head, gaps = log
        return self.look(Records(name, topics, support, list(entries()), head, gaps))


def _lines() -> tuple[Profile, ...]:
    """The last patch of each release line."""
    since = RELEASES.index(f"{OLDEST_LINE}.0")
    ends = {release.rpartition(".")[0]: release for release in RELEASES[since:]}
    return tuple(map(Profile.of, ends.values()))


def _write(file: Path, done: Done[Looked]) -> None:
    """Write the page whole or not at all."""
    with whole(file) as draft, draft.open("w", encoding="utf-8") as out:
        out.writelines(page(list(done.results.values()), done.failed))
