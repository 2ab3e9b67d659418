"""`replay lint`: rehearsal of a compaction and a worker's restart."""

import click
import msgspec

from controlplane.core.releases.profiles import Profile, check_support
from controlplane.core.state import Topics
from controlplane.core.text.redaction import redacted_text
from replay.cli.execution.cluster_jobs import ClusterJob, JobOptions, fleet_options, for_each, worst
from replay.cli.inputs.log_input import LogInput, OpenedInput
from replay.cli.options.logs import logs_argument
from replay.cli.output.findings import FleetFindings, print_fleet
from replay.cli.output.printer import output_option, print_json, read_profile, say, table
from replay.findings import Finding, called
from replay.lint import lint as rehearse


@click.command()
@logs_argument
@click.option("--release", metavar="RELEASE", required=True, help="Release of the worker.")
@output_option()
@fleet_options
@click.pass_context
def lint(
    ctx: click.Context, inputs: tuple[LogInput, ...], release: str, output: str, way: JobOptions
) -> None:
    """Rehearse a compaction of the log and the restart of a worker.

    The states before and after are compared. Exit code 0: at most informational findings; 1:
    findings that need action; 2: bad input.
    """
    profile = read_profile(release)
    check_support(profile, exactly_once=any(log.reading.exactly_once for log in inputs))
    cluster_results = for_each(inputs, ClusterJob("linting", _LintTask(profile), LintOutcome), way)
    fleet = FleetFindings(
        [finding for outcome in cluster_results.results.values() for finding in outcome.findings],
        {cluster: outcome.topics for cluster, outcome in cluster_results.results.items()},
    )
    if output == "json":
        print_json({"release": profile.release} | fleet.document | cluster_results.document)
    else:
        _print(fleet)
        print_fleet(fleet, f", compacted and read by a worker of {profile.release}")
    ctx.exit(worst([cluster_results.code, fleet.code]))


class LintOutcome(msgspec.Struct, frozen=True):
    """Findings of one cluster, and the names of its topics."""

    topics: Topics
    findings: tuple[Finding, ...]


class _LintTask(msgspec.Struct, frozen=True):
    """Task: rehearse one cluster. Its fields are everything that affects the result."""

    profile: Profile

    def __call__(self, log: OpenedInput) -> LintOutcome:
        findings = rehearse(
            log.entries(),
            self.profile,
            topics=log.topics,
            cluster=log.cluster,
            exactly_once=log.exactly_once,
        )
        return LintOutcome(log.topics, tuple(findings))


def _print(fleet: FleetFindings) -> None:
    if not fleet.findings:
        return
    several = len(fleet.topics) > 1
    heads = ("SEVERITY", *["CLUSTER"] * several, "CONNECTOR", "FINDING", "RECORDS")
    table(heads, [_row(finding, fleet, several=several) for finding in fleet.findings])
    for finding in fleet.findings:
        if finding.advice:
            whose = f"{finding.cluster}, " if several else ""
            say(f"{whose}{called(finding.connector)}: {finding.advice}")


def _row(finding: Finding, fleet: FleetFindings, *, several: bool) -> tuple[str, ...]:
    cluster = [finding.cluster] * several
    sentence, records = redacted_text(finding.sentence), ", ".join(fleet.places(finding))
    return finding.severity.value, *cluster, called(finding.connector), sentence, records
