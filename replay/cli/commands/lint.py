"""`replay lint`: rehearsal of a compaction and a worker's restart."""

import click
import msgspec

from controlplane.core.releases.profiles import Profile, check_support
from controlplane.core.state import Topics
from controlplane.core.text.redaction import redacted_text
from controlplane.terminal.log_options import read_profile
from controlplane.terminal.output import print_json, say
from controlplane.terminal.tables import table
from replay.cli.execution.cluster_jobs import (
    ClusterJob,
    JobOptions,
    fleet_options,
    run_for_each_cluster,
    worst,
)
from replay.cli.inputs.log_input import LogInput
from replay.cli.options.formats import output_option
from replay.cli.options.logs import logs_argument
from replay.cli.output.fleet_findings import FleetFindings, print_fleet
from replay.cli.output.hazards import (
    HazardOutcome,
    HazardTask,
    hazard_documents,
    print_hazards,
)
from replay.cluster_records import ClusterRecords
from replay.findings import Finding, called
from replay.lint import lint as rehearse


@click.command()
@logs_argument
@click.option(
    "--release",
    metavar="RELEASE",
    help="Release of the worker. Required without --hazards. [default with --hazards: all]",
)
@click.option(
    "--hazards",
    "is_about_hazards",
    is_flag=True,
    help="List the records that stop a worker, make reads fail, or make members disagree.",
)
@click.option("--connector", metavar="NAME", help="With --hazards: show only this connector.")
@click.option(
    "--fail", is_flag=True, help="With --hazards: exit with 1 if there is a hazard, for pipelines."
)
@output_option()
@fleet_options
@click.pass_context
def lint(  # noqa: PLR0913 - click gives one argument per option
    ctx: click.Context,
    inputs: tuple[LogInput, ...],
    release: str | None,
    *,
    is_about_hazards: bool,
    connector: str | None,
    fail: bool,
    output: str,
    options: JobOptions,
) -> None:
    """Rehearse a compaction of the log and the restart of a worker.

    The states before and after are compared. Exit code 0: at most informational findings; 1:
    findings that need action; 2: bad input. With --hazards nothing is rehearsed: the records that
    would harm a worker are listed, as by `controlplane inspect --hazards`.
    """
    profile = None if release is None else read_profile(release)
    exactly_once = any(log.reading.exactly_once for log in inputs)
    if profile is not None:
        check_support(profile, exactly_once=exactly_once)
    if is_about_hazards:
        task = HazardTask(profile, connector)
        ctx.exit(_hazards(inputs, task, options, output, fail=fail, exactly_once=exactly_once))
    if connector is not None or fail:
        raise click.UsageError("--connector and --fail need --hazards: give it, too")
    if profile is None:
        raise click.UsageError("Missing option '--release'.")
    ctx.exit(_rehearsed(inputs, profile, options, output))


def _hazards(  # noqa: PLR0913 - two of them are flags
    inputs: tuple[LogInput, ...],
    task: HazardTask,
    options: JobOptions,
    output: str,
    *,
    fail: bool,
    exactly_once: bool,
) -> int:
    """List the hazards of every cluster; return the exit code."""
    job = ClusterJob("finding hazards", task, HazardOutcome)
    cluster_results = run_for_each_cluster(inputs, job, options)
    outcomes = cluster_results.results
    if output == "json":
        release = None if task.profile is None else task.profile.release
        about = {"release": release, "exactly_once": exactly_once, "clusters": list(outcomes)}
        hazards = {"hazards": hazard_documents(outcomes)}
        print_json(about | hazards | cluster_results.document)
    else:
        print_hazards(task.profile, outcomes, exactly_once=exactly_once)
    any_found = any(outcome.rows for outcome in outcomes.values())
    return worst([cluster_results.code, int(fail and any_found)])


def _rehearsed(
    inputs: tuple[LogInput, ...], profile: Profile, options: JobOptions, output: str
) -> int:
    """Rehearse every cluster; return the exit code."""
    cluster_results = run_for_each_cluster(
        inputs, ClusterJob("linting", _LintTask(profile), LintOutcome), options
    )
    fleet = FleetFindings(
        [finding for outcome in cluster_results.results.values() for finding in outcome.findings],
        {cluster: outcome.topics for cluster, outcome in cluster_results.results.items()},
    )
    if output == "json":
        print_json({"release": profile.release} | fleet.document | cluster_results.document)
    else:
        _print(fleet)
        print_fleet(fleet, f", compacted and read by a worker of {profile.release}")
    return worst([cluster_results.code, fleet.code])


class LintOutcome(msgspec.Struct, frozen=True):
    """Findings of one cluster, and the names of its topics."""

    topics: Topics
    findings: tuple[Finding, ...]


class _LintTask(msgspec.Struct, frozen=True):
    """Task: rehearse one cluster. Its fields are everything that affects the result."""

    profile: Profile

    def __call__(self, log: ClusterRecords) -> LintOutcome:
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
