"""States written as a folder of Parquet files, by this process or by Spark's tasks."""

from collections.abc import Sequence

from controlplane.core.text.safe_text import count
from controlplane.terminal.output import say
from controlplane.terminal.tables import table
from replay.cli.options.archives import ArchiveInput, no_answer
from replay.cli.options.engines import ExecutorChoice
from replay.cli.output.gap_warnings import tell_doubts, tell_gaps
from replay.cli.output.progress_bar import bar
from replay.cluster_problem import ClusterProblem
from replay.fleet.cluster_summaries import FleetQuestion, StateSummary
from replay.tables.schemas import STATE_SCHEMAS

DIGEST_SHOWN = 16
"""Shown digits of a digest; the file of summaries has all."""


def write_states(
    archive: ArchiveInput, question: FleetQuestion, folder: str, executing: ExecutorChoice
) -> None:
    """Write all tables of the states, and print a line per state.

    Raises:
        NotWritable: the folder has files, or cannot be written.
        UnreadableCluster: every cluster is unreadable (`archives.no_answer`).
    """
    summaries: list[StateSummary] = []

    def review(every: Sequence[StateSummary]) -> None:
        _check(every)
        summaries.extend(every)

    releases = [profile.release for profile in question.profiles]
    from_segments = not question.source.derived
    with (
        bar() as progress,
        archive.opened(executing, progress, from_segments=from_segments) as opened,
    ):
        opened.write_state(folder, as_of=question.moment, release=releases, review=review)
    tell_gaps({summary.cluster: summary.gaps for summary in summaries if summary.gaps})
    tell_doubts(
        {summary.cluster: [summary.answer_doubts] for summary in summaries if summary.doubts}
    )
    for summary in summaries:
        if summary.problem is not None:
            archive.fail(ClusterProblem(summary.cluster, summary.problem))
    states = [summary.row for summary in summaries if summary.problem is None]
    heads = ("CLUSTER", "RELEASE", *(name.upper() for name in STATE_SCHEMAS), "DIGEST")
    table(heads, [_cells(row) for row in states])
    say(f"{folder}: {count(len(states), 'state')}")


def _check(summaries: Sequence[StateSummary]) -> None:
    problems = [
        ClusterProblem(summary.cluster, summary.problem)
        for summary in summaries
        if summary.problem is not None
    ]
    if len(problems) == len(summaries):
        raise no_answer(problems)


def _cells(row: dict[str, object]) -> tuple[str, ...]:
    counts = (str(row[name]) for name in STATE_SCHEMAS)
    return (str(row["cluster"]), str(row["release"]), *counts, str(row["digest"])[:DIGEST_SHOWN])
