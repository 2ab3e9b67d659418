"""`replay lint`: rehearsal of a compaction and a worker's restart."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click
import msgspec

from controlplane.core.entry import Entry
from controlplane.core.order import OrderedEntries
from controlplane.core.releases.profiles import KIP, Profile, check_support
from controlplane.core.state import Topics
from controlplane.core.text.redaction import redacted_text
from controlplane.core.topics.key_owners import key_filter, owner
from controlplane.terminal.hazard_hits import (
    HEADS,
    HazardReader,
    hit_document,
    without_releases,
)
from controlplane.terminal.log_options import not_empty, read_profile
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
from replay.cli.options.logs import check_connectors, logs_argument
from replay.cli.output.fleet_findings import FleetFindings, print_fleet
from replay.cluster_records import ClusterRecords
from replay.findings import Finding, called
from replay.lint import lint as rehearse
from replay.releases import EVERY, check_single


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
@click.option(
    "--connector",
    metavar="NAME",
    callback=not_empty,
    help="With --hazards: leave out hazards that only harm other connectors.",
)
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
    findings that need action; 2: bad input, or a cluster is unreadable. With --hazards nothing is
    rehearsed: the records that would harm a worker are listed, as by `controlplane inspect
    --hazards`. Only with --fail do they change the exit code.
    """
    if is_about_hazards and release == EVERY:
        release = None  # the default
    profile = None
    if release is not None:
        check_single(release)
        profile = read_profile(release)
        check_support(profile, exactly_once=any(log.reading.exactly_once for log in inputs))
    if is_about_hazards:
        ctx.exit(_hazards(inputs, _HazardTask(profile, connector), options, output, fail=fail))
    if connector is not None or fail:
        raise click.UsageError("--connector and --fail need --hazards: give it, too")
    if profile is None:
        raise click.UsageError(
            "Missing option '--release'. A restart depends on the release of the workers, and a "
            "log does not tell it: name the release, such as 3.9"
        )
    ctx.exit(_rehearsed(inputs, profile, options, output))


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
            OrderedEntries(log.entries()),
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


# --- hazards -------------------------------------------------------------------------------------


class HazardOutcome(msgspec.Struct, frozen=True):
    """Hazards of one cluster, as rows and as documents."""

    rows: tuple[tuple[str, ...], ...]
    documents: tuple[dict[str, Any], ...]
    has_connector: bool = True
    """False if no record concerns the connector of `--connector`."""


class _HazardTask(msgspec.Struct, frozen=True):
    """Task: find the hazards of one cluster. Its fields are everything that affects the result."""

    profile: Profile | None
    """None: workers of all releases."""
    connector: str | None

    def __call__(self, log: ClusterRecords) -> HazardOutcome:
        reader, entries = (
            HazardReader(self.profile, log.topics, log.exactly_once),
            OrderedEntries(log.entries()),
        )
        hits = reader.hits(entries, self.connector)
        by_position = {entry.position: entry for entry in entries}
        return HazardOutcome(
            tuple(reader.cells(hit, by_position[hit.hazard.position]) for hit in hits),
            tuple(hit_document(hit, by_position) for hit in hits),
            self.connector is None or _has_connector(self.connector, entries, log.topics),
        )


def _has_connector(connector: str, entries: Iterable[Entry], topics: Topics) -> bool:
    profile, may_name = Profile.of(KIP), key_filter(connector)
    owners = (owner(e.topic, e.key, topics, profile) for e in entries if may_name(e.key))
    return connector in owners


def _hazards(
    inputs: tuple[LogInput, ...], task: _HazardTask, options: JobOptions, output: str, *, fail: bool
) -> int:
    """List the hazards of every cluster; return the exit code."""
    exactly_once = any(log.reading.exactly_once for log in inputs)
    job = ClusterJob("finding hazards", task, HazardOutcome)
    cluster_results = run_for_each_cluster(inputs, job, options)
    outcomes = cluster_results.results
    if cluster_results.code == 0 and not any(each.has_connector for each in outcomes.values()):
        check_connectors([task.connector or ""], ())
    if output == "json":
        release = None if task.profile is None else task.profile.release
        about = {"release": release, "exactly_once": exactly_once, "clusters": list(outcomes)}
        hazards = {"hazards": _documents(outcomes)}
        print_json(about | hazards | cluster_results.document)
    else:
        _print_hazards(task.profile, outcomes, exactly_once=exactly_once)
    any_found = any(outcome.rows for outcome in outcomes.values())
    return worst([cluster_results.code, int(fail and any_found)])


def _documents(results: Mapping[str, HazardOutcome]) -> list[dict[str, Any]]:
    """Hazards of all clusters as JSON documents."""
    return [
        {"cluster": cluster, **document}
        for cluster, outcome in results.items()
        for document in outcome.documents
    ]


def _print_hazards(
    profile: Profile | None, results: Mapping[str, HazardOutcome], *, exactly_once: bool
) -> None:
    """Print the hazards of all clusters as one table, and their number in each."""
    rows = list(_hazard_rows(profile, results))
    if rows:
        heads = HEADS if profile is None else without_releases(HEADS)
        table([*["CLUSTER"] * (len(results) > 1), *heads], rows)
        say()
    reader = HazardReader(profile, Topics(), exactly_once)
    for cluster, outcome in results.items():
        say(reader.summary(cluster, len(outcome.rows)))


def _hazard_rows(
    profile: Profile | None, results: Mapping[str, HazardOutcome]
) -> Iterator[tuple[str, ...]]:
    for cluster, outcome in results.items():
        for row in outcome.rows:
            cells = row if profile is None else without_releases(row)
            yield (cluster, *cells) if len(results) > 1 else cells
