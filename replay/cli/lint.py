"""`replay lint`: compact now and restart a worker; who is not what he was?"""

import click
import msgspec

from controlplane.core.profiles import Profile, check_support
from controlplane.core.redact import redacted_text
from controlplane.core.state import Topics
from replay.cli.fleet import Job, Way, fleet_options, for_each, worst
from replay.cli.found import Found, print_fleet
from replay.cli.logs import Asked, Log, logs_argument
from replay.cli.printing import output_option, print_json, read_profile, say, table
from replay.findings import Finding, called
from replay.lint import lint as rehearse


@click.command()
@logs_argument
@click.option("--release", metavar="RELEASE", required=True, help="The release of the worker.")
@output_option()
@fleet_options
@click.pass_context
def lint(ctx: click.Context, asked: tuple[Asked, ...], release: str, output: str, way: Way) -> None:
    """What would change if Kafka's log cleaner came by now and a worker was restarted.

    Exit code 0: nothing that has to be seen to; 1: something; 2: bad input.
    """
    profile = read_profile(release)
    check_support(profile, exactly_once=any(one.reading.exactly_once for one in asked))
    done = for_each(asked, Job("linting", _Look(profile), Told), way)
    found = Found(
        [finding for one in done.results.values() for finding in one.findings],
        {cluster: one.topics for cluster, one in done.results.items()},
    )
    if output == "json":
        print_json({"release": profile.release} | found.document | done.document)
    else:
        _print(found)
        print_fleet(found, f", compacted and read by a worker of {profile.release}")
    ctx.exit(worst([done.code, found.code]))


class Told(msgspec.Struct, frozen=True):
    """What was found in one cluster, and the names of its topics."""

    topics: Topics
    findings: tuple[Finding, ...]


class _Look(msgspec.Struct, frozen=True):
    """A rehearsal with one cluster, and everything that decides about it."""

    profile: Profile

    def __call__(self, log: Log) -> Told:
        found = rehearse(
            log.entries(),
            self.profile,
            topics=log.topics,
            cluster=log.cluster,
            exactly_once=log.exactly_once,
        )
        return Told(log.topics, tuple(found))


def _print(found: Found) -> None:
    if not found.findings:
        return
    several = len(found.topics) > 1
    heads = ("SEVERITY", *["CLUSTER"] * several, "CONNECTOR", "WHAT HAPPENS", "RECORDS")
    table(heads, [_row(one, found, several=several) for one in found.findings])
    for one in found.findings:
        if one.advice:
            whose = f"{one.cluster}, " if several else ""
            say(f"{whose}{called(one.connector)}: {one.advice}")


def _row(one: Finding, found: Found, *, several: bool) -> tuple[str, ...]:
    cluster = [one.cluster] * several
    sentence, records = redacted_text(one.sentence), ", ".join(found.places(one))
    return one.severity.value, *cluster, called(one.connector), sentence, records
