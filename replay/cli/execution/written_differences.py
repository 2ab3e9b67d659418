"""Differences written as a folder of Parquet files, by this process or by Spark's tasks."""

from collections.abc import Sequence
from itertools import chain

from controlplane.core.text.safe_text import count
from controlplane.terminal.output import say
from replay.cli.options.archives import ArchiveInput, print_plan_notices
from replay.cli.options.engines import ExecutorChoice
from replay.cli.options.logs import check_connectors
from replay.cli.output.progress_bar import bar
from replay.fleet.comparisons import DifferenceQuery
from replay.fleet.difference_files import ComparedCluster
from replay.moments import END


def write_differences(
    archive: ArchiveInput, query: DifferenceQuery, folder: str, executing: ExecutorChoice
) -> bool:
    """Write the differences of all clusters, and print their numbers; True if there are any.

    Raises:
        NotWritable: the folder has files, or cannot be written.
        UnknownConnector: a selected connector does not occur.
        UnreadableCluster: every cluster is unreadable (`archives.no_answer`).
    """
    answers: list[ComparedCluster] = []

    def review(compared: Sequence[ComparedCluster]) -> None:
        answers.extend(archive.readable(each.problem or each for each in compared))
        known_names = chain.from_iterable(answer.connectors for answer in answers)
        check_connectors(query.connectors, frozenset(known_names))

    before, after = query.before, query.after
    with bar() as progress, archive.opened(executing, progress) as opened:
        opened.write_diff(
            folder,
            before.moment,
            after.moment or END,
            release=before.profile.release,
            to_release=after.profile.release,
            to_cluster=after.cluster,
            connectors=query.connectors or None,
            review=review,
        )
    print_plan_notices([plan for answer in answers for plan in answer.plans])
    for answer in answers:
        say_differences(answer.plans[-1].cluster, answer.differences)
    total = sum(answer.differences for answer in answers)
    say(f"{folder}: {count(total, 'difference')}")
    return total > 0


def say_differences(cluster: str, number: int) -> None:
    """Print the number of differences of a cluster."""
    say(f"{cluster}: {count(number, 'difference') if number else 'no differences'}")
