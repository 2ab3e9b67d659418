"""`replay audit`: what the logs of one cluster or many tell that no status page does."""

from collections.abc import Sequence
from typing import NamedTuple

import click
import msgspec

from controlplane.core.profiles import KIP, Profile, check_support
from controlplane.core.state import Topics
from replay.audit import Audited, Cluster, audited, together
from replay.audit.catalogue import KINDS
from replay.audit.thresholds import Thresholds, known, thresholds
from replay.audit.trail.trail import Request, Trail
from replay.cli.fleet import Job, Way, fleet_options, for_each, worst
from replay.cli.found import Found, print_fleet
from replay.cli.logs import Asked, Log, logs_argument
from replay.cli.printing import output_option, print_json, read_profile, say, table
from replay.cli.trails import requests_by_cluster, trail_option
from replay.findings import Finding, Severity, called

_SEVERITIES = [severity.value for severity in Severity]


class _Wanted(NamedTuple):
    """What is to be told of all that is found."""

    kinds: tuple[str, ...]
    least: str

    def __call__(self, finding: Finding) -> bool:
        """Whether this one is."""
        bad_enough = _SEVERITIES.index(finding.severity.value) >= _SEVERITIES.index(self.least)
        return bad_enough and (not self.kinds or finding.kind in self.kinds)


def _list(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print every kind and every threshold, and end."""
    if asked:
        table(("KIND", "WHAT IT IS ABOUT"), KINDS.items())
        say()
        shown = [(one.name, f"{one.usual} {one.unit}".strip(), one.reason) for one in known()]
        table(("THRESHOLD", "USUAL", "WHY"), shown)
        ctx.exit()


@click.command()
@logs_argument
@click.option(
    "--release", metavar="RELEASE", default=KIP, help="Release of the workers. [default: kip]"
)
@trail_option
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(list(KINDS)),
    multiple=True,
    metavar="KIND",
    help="Only this kind; may be given again. [default: all, see --list]",
)
@click.option("--least", type=click.Choice(_SEVERITIES), default="info", help="Leave out less.")
@click.option(
    "--threshold", "told", metavar="NAME=VALUE", multiple=True, help="When it is worth a finding."
)
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list,
    help="Show every kind of finding and every threshold, and end.",
)
@output_option()
@fleet_options
@click.pass_context
def audit(  # noqa: PLR0913, PLR0917 - click gives one argument per option
    ctx: click.Context,
    asked: tuple[Asked, ...],
    release: str,
    trails: tuple[str, ...],
    kinds: tuple[str, ...],
    least: str,
    told: tuple[str, ...],
    output: str,
    way: Way,
) -> None:
    """Look for what went wrong in the logs of one or more clusters, and for who did what.

    What clusters share that they should not is looked for among all that are named. Exit code 0:
    nothing worse than information; 1: findings; 2: bad input.
    """
    profile, limits = read_profile(release), _thresholds(told)
    check_support(profile, exactly_once=any(one.reading.exactly_once for one in asked))
    look = _Look(profile, limits, requests_by_cluster(asked, trails))
    done = for_each(asked, Job("auditing", look, Told), way)
    everything = together(one.audited for one in done.results.values())
    found = Found(
        [one for one in everything if _Wanted(kinds, least)(one)],
        {cluster: one.topics for cluster, one in done.results.items()},
    )
    if output == "json":
        print_json(found.document | done.document)
    else:
        _print(found)
    ctx.exit(worst([done.code, found.code]))


class Told(msgspec.Struct, frozen=True):
    """What was found in one cluster, and the names of its topics."""

    topics: Topics
    audited: Audited


class _Look(msgspec.Struct, frozen=True):
    """An audit of one cluster, and everything that decides about it."""

    profile: Profile
    limits: Thresholds
    requests: dict[str, list[Request]]

    def __call__(self, log: Log) -> Told:
        trail = Trail(self.requests[log.cluster])
        support = log.exactly_once
        cluster = Cluster(log.cluster, log.entries(), self.profile, log.topics, support, trail)
        return Told(log.topics, audited(cluster, self.limits))


def _thresholds(told: Sequence[str]) -> Thresholds:
    pairs = (text.partition("=") for text in told)
    return thresholds({name.strip(): value.strip() for name, _, value in pairs})


def _print(found: Found) -> None:
    several = len(found.topics) > 1
    if found.findings:
        heads = ("SEVERITY", "KIND", *["CLUSTER"] * several, "CONNECTOR", _MATTER, "RECORDS")
        table(heads, [_row(one, found, several=several) for one in found.findings])
        say()
    for advice, about in _advised(found.findings).items():
        say(f"{', '.join(about)}: {advice}")
    print_fleet(found)


_MATTER = "WHAT IS THE MATTER"


def _row(one: Finding, found: Found, *, several: bool) -> tuple[str, ...]:
    cluster = [one.cluster] * several
    records = ", ".join(found.places(one))
    return one.severity.value, one.kind, *cluster, called(one.connector), one.sentence, records


def _advised(found: Sequence[Finding]) -> dict[str, list[str]]:
    """Each advice once, with the connectors (or clusters) that it is for."""
    advised: dict[str, list[str]] = {}
    for one in found:
        whom = advised.setdefault(one.advice, []) if one.advice else []
        name = one.cluster if one.connector is None else called(one.connector)
        if name not in whom:
            whom.append(name)
    return advised
