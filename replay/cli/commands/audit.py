"""`replay audit`: problems and changes in the logs of one or more clusters."""

from collections.abc import Sequence
from typing import NamedTuple

import click

from controlplane.core.releases.profiles import KIP, check_support
from controlplane.terminal.log_options import read_profile
from controlplane.terminal.output import print_json, say
from controlplane.terminal.tables import table
from replay.audit import fleet_findings
from replay.audit.audit_task import AuditOutcome, AuditTask
from replay.audit.kinds import KINDS
from replay.audit.thresholds import all_thresholds
from replay.cli.execution.cluster_jobs import (
    ClusterJob,
    JobOptions,
    fleet_options,
    interruption_named,
    run_for_each_cluster,
    worst,
)
from replay.cli.inputs.log_input import LogInput
from replay.cli.options.formats import output_option
from replay.cli.options.logs import logs_argument
from replay.cli.options.threshold_changes import changed_thresholds, threshold_option
from replay.cli.options.trails import requests_by_cluster, trail_option
from replay.cli.output.fleet_findings import FleetFindings, print_fleet
from replay.findings import Finding, Severity, called
from replay.releases import check_single

_SEVERITIES = [severity.value for severity in Severity]


class _FindingFilter(NamedTuple):
    """Filter of the findings to print."""

    kinds: tuple[str, ...]
    least: str

    def __call__(self, finding: Finding) -> bool:
        """True if a finding is to be printed."""
        bad_enough = _SEVERITIES.index(finding.severity.value) >= _SEVERITIES.index(self.least)
        return bad_enough and (not self.kinds or finding.kind in self.kinds)


def _list(ctx: click.Context, _: click.Parameter, is_given: bool) -> None:
    """Print every kind and every threshold, and end."""
    if is_given:
        table(("KIND", "MEANING"), KINDS.items())
        say()
        shown = [
            (threshold.name, f"{threshold.usual} {threshold.unit}".strip(), threshold.reason)
            for threshold in all_thresholds()
        ]
        table(("THRESHOLD", "DEFAULT", "MEANING"), shown)
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
    help="Print only this kind of finding. May be repeated. [default: all, see --list]",
)
@click.option(
    "--least",
    type=click.Choice(_SEVERITIES),
    default="info",
    help="Print only findings of at least this severity. [default: info]",
)
@threshold_option("--list")
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list,
    help="List all kinds of findings and all thresholds, and exit.",
)
@output_option()
@fleet_options
@click.pass_context
def audit(  # noqa: PLR0913, PLR0917 - click gives one argument per option
    ctx: click.Context,
    inputs: tuple[LogInput, ...],
    release: str,
    trails: tuple[str, ...],
    kinds: tuple[str, ...],
    least: str,
    changes: tuple[str, ...],
    output: str,
    options: JobOptions,
) -> None:
    """Find problems, changes and their authors in the logs of one or more clusters.

    All named clusters are compared, to find resources that they share by mistake. Exit code 0: the
    printed findings are at most informational; 1: some need action; 2: bad input, or a cluster is
    unreadable.
    """
    check_single(release)
    profile, limits = read_profile(release), changed_thresholds(changes)
    check_support(profile, exactly_once=any(log.reading.exactly_once for log in inputs))
    with interruption_named(inputs, options):
        requests = requests_by_cluster(inputs, trails)
    task = AuditTask(profile, limits, requests=requests)
    job = ClusterJob("auditing", task, AuditOutcome, past=True, task_of=task.of_cluster)
    cluster_results = run_for_each_cluster(inputs, job, options)
    everything = fleet_findings(outcome.audited for outcome in cluster_results.results.values())
    fleet = FleetFindings(
        [finding for finding in everything if _FindingFilter(kinds, least)(finding)],
        {cluster: outcome.topics for cluster, outcome in cluster_results.results.items()},
    )
    if output == "json":
        print_json(fleet.document | cluster_results.document)
    else:
        _print(fleet)
    ctx.exit(worst([cluster_results.code, fleet.code]))


def _print(fleet: FleetFindings) -> None:
    several = len(fleet.topics) > 1
    if fleet.findings:
        heads = ("SEVERITY", "KIND", *["CLUSTER"] * several, "CONNECTOR", "FINDING", "RECORDS")
        table(heads, [_row(finding, fleet, several=several) for finding in fleet.findings])
        say()
    for advice, about in _advised(fleet.findings).items():
        say(f"{', '.join(about)}: {advice}")
    print_fleet(fleet)


def _row(finding: Finding, fleet: FleetFindings, *, several: bool) -> tuple[str, ...]:
    cluster = [finding.cluster] * several
    records = ", ".join(fleet.places(finding))
    return (
        finding.severity.value,
        finding.kind,
        *cluster,
        called(finding.connector),
        finding.sentence,
        records,
    )


def _advised(findings: Sequence[Finding]) -> dict[str, list[str]]:
    """Each advice once, with its connectors or clusters."""
    advised: dict[str, list[str]] = {}
    for finding in findings:
        whom = advised.setdefault(finding.advice, []) if finding.advice else []
        name = finding.cluster if finding.connector is None else called(finding.connector)
        if name not in whom:
            whom.append(name)
    return advised
