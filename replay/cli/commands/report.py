"""`replay report`: one page of HTML about a fleet."""

from pathlib import Path

import click
import msgspec

from controlplane.core.order import OrderedEntries
from controlplane.core.releases.profiles import KIP, RELEASES, Profile, check_support, release_line
from controlplane.core.text.safe_text import count
from controlplane.terminal.log_options import read_profile
from controlplane.terminal.option_names import named_option
from controlplane.terminal.output import say
from replay.atomic_file import atomic_write, check_place
from replay.cli.execution.cluster_jobs import (
    ClusterJob,
    ClusterResults,
    JobOptions,
    fleet_options,
    run_for_each_cluster,
)
from replay.cli.inputs.log_input import LogInput
from replay.cli.options.logs import logs_argument
from replay.cli.options.output_file import OutputFile
from replay.cli.options.trails import requests_by_cluster, trail_option
from replay.cluster_records import ClusterRecords
from replay.compat import check_predictable
from replay.releases import check_single
from replay.report import ClusterFacts, PageLimits, ReportTask, page
from replay.report.fleet_facts import RecordStream

OLDEST_LINE = "2.8"
"""Oldest release line in the default comparison."""


@click.command()
@logs_argument
@named_option(
    "--file",
    former=("--to",),
    type=OutputFile(),
    required=True,
    metavar="FILE",
    help="HTML file to write.",
)
@click.option(
    "--release", metavar="RELEASE", default=KIP, help="Release of the workers. [default: kip]"
)
@click.option(
    "--towards",
    "goals",
    metavar="RELEASE",
    multiple=True,
    help="Release to compare with. May be repeated. "
    f"[default: each release line from {OLDEST_LINE}]",
)
@trail_option
@fleet_options
@click.pass_context
def report(  # noqa: PLR0913, PLR0917 - click gives one argument per option
    ctx: click.Context,
    inputs: tuple[LogInput, ...],
    file: Path,
    release: str,
    goals: tuple[str, ...],
    trails: tuple[str, ...],
    options: JobOptions,
) -> None:
    """Write one self-contained HTML page about all named logs and archives.

    It shows timelines of connectors, findings, effects of releases and of compaction, each with the
    records that prove it. Exit code 0: the page is written; 2: bad input, or a cluster cannot be
    read. The page then shows the other clusters.
    """
    check_place(file)
    check_single(release, *goals)
    profile = read_profile(release)
    check_support(profile, exactly_once=any(log.reading.exactly_once for log in inputs))
    check_predictable(*goals)
    towards = tuple(map(read_profile, goals)) if goals else _lines()
    limits, requests = PageLimits.shared_by(len(inputs)), requests_by_cluster(inputs, trails)
    task = _FactsTask(ReportTask(profile, towards, limits, requests=requests))
    job = ClusterJob(
        "collecting", task, ClusterFacts, past=True, task_of=task.of_cluster, notices_only=True
    )
    cluster_results = run_for_each_cluster(inputs, job, options)
    if cluster_results.results:
        _write(file, cluster_results)
        say(f"{file}: {count(len(cluster_results.results), 'cluster')}")
    ctx.exit(cluster_results.code)


class _FactsTask(msgspec.Struct, frozen=True):
    """Task: collect the facts of one cluster. Its fields are everything that affects the result."""

    task: ReportTask

    def of_cluster(self, cluster: str) -> "_FactsTask":
        """Task without the requests of other clusters."""
        return _FactsTask(self.task.of_cluster(cluster))

    def __call__(self, log: ClusterRecords) -> ClusterFacts:
        name, topics, support, entries, head, gaps, _, doubts, may_be_older = log
        ordered = OrderedEntries(entries())
        return self.task(
            RecordStream(name, topics, support, ordered, head, gaps, doubts, may_be_older)
        )


def _lines() -> tuple[Profile, ...]:
    """Last patch of each release line."""
    since = RELEASES.index(f"{OLDEST_LINE}.0")
    ends = {release_line(release): release for release in RELEASES[since:]}
    return tuple(map(Profile.of, ends.values()))


def _write(file: Path, cluster_results: ClusterResults[ClusterFacts]) -> None:
    """Write the page; the file appears when it is complete."""
    with atomic_write(file) as draft, draft.open("w", encoding="utf-8") as out:
        out.writelines(page(list(cluster_results.results.values()), cluster_results.failed))
