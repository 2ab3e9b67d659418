"""`replay audit`: what the logs of one cluster or many tell that no status page does."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from controlplane.core.order import in_order
from controlplane.core.profiles import KIP, Profile, check_support
from controlplane.core.safe_text import count
from controlplane.core.shown_records import place
from controlplane.core.state import Topics
from replay.audit import Cluster
from replay.audit import audit as look
from replay.audit.catalogue import KINDS
from replay.audit.thresholds import Thresholds, known, thresholds
from replay.audit.trail.lines import read_trail
from replay.audit.trail.trail import Request, Trail
from replay.cli.logs import Asked, logs_argument, read_entries
from replay.cli.printing import output_option, print_json, read_profile, say, table
from replay.errors import ReplayError
from replay.findings import Finding, Severity, called

FOUND = 1
"""Exit code: something worse than information was found."""

PROBLEMS_SHOWN = 5
"""Lines of an audit stream that cannot be read and are named; the others are counted."""

_SEVERITIES = [severity.value for severity in Severity]


class BadTrail(ReplayError):
    """A file that is no audit stream. The message says why."""


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
@click.option("--release", metavar="V", default=KIP, help="Of its workers. [default: kip]")
@click.option(
    "--trail",
    "trails",
    metavar="[NAME=]FILE",
    multiple=True,
    help="Who asked for what: JSON lines, CloudEvents, or an access log (common, combined); of "
    "one cluster, or of all.",
)
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
) -> None:
    """Look for what went wrong in the logs of one or more clusters, and for who did what.

    Exit code 0: nothing worse than information; 1: findings; 2: bad input.
    """
    profile, limits = read_profile(release), _thresholds(told)
    check_support(profile, exactly_once=any(one.exactly_once for one in asked))
    everything = look(_clusters(asked, profile, _trails(asked, trails)), limits)
    found = [one for one in everything if _Wanted(kinds, least)(one)]
    topics = asked[0].topics
    if output == "json":
        findings = [_document(one, topics) for one in found]
        print_json({"clusters": [one.cluster for one in asked], "findings": findings})
    else:
        _print(found, asked)
    ctx.exit(FOUND if any(one.severity is not Severity.INFO for one in found) else 0)


def _clusters(
    asked: Sequence[Asked], profile: Profile, trails: Mapping[str, Trail]
) -> Iterator[Cluster]:
    """One log after the other: the next one is read when the one before it is done."""
    for one in asked:
        entries = in_order(read_entries(one))
        trail = trails[one.cluster]
        yield Cluster(one.cluster, entries, profile, one.topics, one.exactly_once, trail)


def _trails(asked: Sequence[Asked], told: Sequence[str]) -> dict[str, Trail]:
    """What is told of each cluster: `NAME=FILE` of one, `FILE` of all."""
    requests: dict[str, list[Request]] = {one.cluster: [] for one in asked}
    for text in told:
        name, equals, path = text.partition("=")
        one_cluster = bool(equals) and name in requests
        for found in _requests(Path(path if one_cluster else text)):
            for cluster in [name] if one_cluster else requests:
                requests[cluster].append(found)
    return {cluster: Trail(found) for cluster, found in requests.items()}


def _thresholds(told: Sequence[str]) -> Thresholds:
    pairs = (text.partition("=") for text in told)
    return thresholds({name.strip(): value.strip() for name, _, value in pairs})


def _requests(path: Path) -> list[Request]:
    """The requests of an audit stream; lines that are none are told of."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            read = read_trail(lines)
    except OSError as error:
        raise BadTrail(f"{path} cannot be read ({error.strerror}): check the path") from None
    if read.problems and len(read.problems) == read.lines:
        raise BadTrail(f"{path} is no audit stream: {read.problems[0]}")
    for problem in read.problems[:PROBLEMS_SHOWN]:
        click.echo(f"{path}: {problem}", err=True)
    more = len(read.problems) - PROBLEMS_SHOWN
    if more > 0:
        click.echo(f"{path}: … and {more} more lines", err=True)
    return read.requests


def _print(found: Sequence[Finding], asked: Sequence[Asked]) -> None:
    topics, several = asked[0].topics, len(asked) > 1
    if found:
        heads = ("SEVERITY", "KIND", *["CLUSTER"] * several, "CONNECTOR", _MATTER, "RECORDS")
        table(heads, [_row(one, topics, several=several) for one in found])
        say()
    for advice, about in _advised(found).items():
        say(f"{', '.join(about)}: {advice}")
    what = count(len(found), "finding") if found else "no findings"
    say(f"{', '.join(one.cluster for one in asked)}: {what}")


_MATTER = "WHAT IS THE MATTER"


def _row(one: Finding, topics: Topics, *, several: bool) -> tuple[str, ...]:
    records = ", ".join(place(position, topics) for position in one.evidence)
    cluster = [one.cluster] * several
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


def _document(finding: Finding, topics: Topics) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(finding)
    return told | {"evidence": [place(position, topics) for position in finding.evidence]}
