"""`replay diff`: differences between two moments, two releases, or two clusters."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import click

from controlplane.core.text.record_text import place
from controlplane.core.text.value_text import change, item
from controlplane.core.views.diff import Change
from controlplane.terminal.exit_codes import FOUND, REFUSED
from controlplane.terminal.log_options import not_empty
from controlplane.terminal.option_names import MOMENT, named_option
from controlplane.terminal.output import print_json
from controlplane.terminal.tables import table
from replay.cli.execution import engine_choice
from replay.cli.execution.folded_differences import DiffAnswer, DiffTask, answer_of
from replay.cli.execution.plan_output import explain, explain_option
from replay.cli.execution.written_differences import say_differences, write_differences
from replay.cli.options.archives import (
    NONE,
    ArchiveInput,
    archive_argument,
    connectors_option,
    doubt_documents,
    folder_option,
    gaps_of,
    moment_option,
    print_plan_notices,
)
from replay.cli.options.engines import ExecutorChoice, executing_options
from replay.cli.options.formats import output_option
from replay.cli.options.logs import check_connectors
from replay.cli.options.moments import checked_moment
from replay.cli.output.progress_bar import bar
from replay.engine.query import StateQuery
from replay.fleet.comparisons import DifferenceQuery, MomentRelease
from replay.releases import EVERY
from replay.tables.cells import RowDocument
from replay.timeline.difference_rows import change_document, change_rows
from replay.timeline.timeline_rows import CHANGES, write


class _SideNames(NamedTuple):
    """Options that name the two sides; None: not given."""

    begin: str | None
    end: str | None
    moment: str | None
    profile: str | None
    cluster: str | None

    def check(self, archive: ArchiveInput) -> None:
        """Raise `UsageError` unless the options name two sides."""
        if self == (None,) * len(self):
            raise click.UsageError(
                "name a second side: --from MOMENT, --to-release or --to-cluster"
            )
        if self.end is not None and self.moment is not None:
            raise click.UsageError("--as-of and --to mean the same here: leave one out")
        if self.cluster is not None and len(archive.clusters) != 1:
            raise click.UsageError(
                "--to-cluster needs a cluster to compare with: name it with --cluster"
            )

    @property
    def moments(self) -> tuple[str | None, str | None]:
        """Moment of each side; None is the end of the archive."""
        begin, end, moment, profile, cluster = self
        if moment is not None:
            is_for_both = begin is None and (profile is not None or cluster is not None)
            return (moment if is_for_both else begin), moment
        return begin, (begin if end is None and profile is not None else end)


@click.command("diff")
@archive_argument
@click.option(
    "--from",
    "begin",
    metavar="MOMENT",
    callback=checked_moment,
    help=f"First moment: {MOMENT}. [default: end]",
)
@click.option(
    "--to",
    "end",
    metavar="MOMENT",
    callback=checked_moment,
    help="Second moment, in the same forms. [default: end; with --to-release: that of --from]",
)
@moment_option(
    "Same as --to. Without --from, releases or clusters are compared at this one moment."
)
@named_option(
    "--release",
    former=("--profile",),
    metavar="RELEASE",
    default="kip",
    help="Release of the first side. [default: kip]",
)
@named_option(
    "--to-release",
    former=("--to-profile",),
    metavar="RELEASE",
    help="Release of the second side. [default: release of the first]",
)
@click.option(
    "--to-cluster",
    metavar="NAME",
    callback=not_empty,
    help="Cluster of the second side. [default: cluster of the first]",
)
@connectors_option
@executing_options
@explain_option
@folder_option("New folder for the differences in Parquet, partitioned by cluster.")
@output_option("parquet", about="Print tables or JSON, or write Parquet.")
def command(  # noqa: PLR0913 - click passes every option by name
    archive: ArchiveInput,
    *,
    begin: str | None,
    end: str | None,
    moment: str | None,
    release: str,
    to_release: str | None,
    to_cluster: str | None,
    connectors: tuple[str, ...],
    executing: ExecutorChoice,
    is_explained: bool,
    output: str,
    file: Path | None,
    folder: str | None,
) -> None:
    """Compare the connectors in ARCHIVE between two moments. Secrets are hidden.

    --release and --to-release compare two releases at one moment (--to then defaults to --from);
    --cluster and --to-cluster compare two clusters. Exit code 1: a difference was found; 2: bad
    input, or a cluster is unreadable.
    """
    if EVERY in (release, to_release):
        raise click.UsageError("only two releases can be compared: --release A --to-release B")
    named = _SideNames(begin, end, moment, to_release, to_cluster)
    named.check(archive)
    since, until = named.moments
    profiles = archive.profiles([release, release if to_release is None else to_release])
    after = MomentRelease(until, profiles[-1], to_cluster)
    query = DifferenceQuery(MomentRelease(since, profiles[0]), after, connectors)
    if folder is not None and not is_explained:
        _end(archive, is_different=write_differences(archive, query, folder, executing))
        return
    queries: list[list[StateQuery]] = []
    if is_explained or not (executing.choice.is_spark or executing.is_parallel):
        plan_sides = partial(query.queries, archive.source())
        queries = archive.answer_of_each(plan_sides, since, until, jobs=executing.jobs)
        if is_explained:
            every = list(chain.from_iterable(queries))
            print_plan_notices([query.plan for query in every])
            explain(engine_choice.plans(executing, every), output)
            return
    answers_to_come = _answers(archive, query, queries, executing)
    if file is not None:
        with closing(answers_to_come):  # ends the work in Spark if the file cannot be written
            is_different = _write(file, answers_to_come, connectors)
        _end(archive, is_different=is_different)
        return
    answers = list(answers_to_come)
    _check(answers, connectors)
    if output == "json":
        print_json([_document(answer) for answer in answers])
    else:
        _print(answers)
    _end(archive, is_different=any(answer.changes for answer in answers))


def _end(archive: ArchiveInput, *, is_different: bool) -> None:
    """End the command after a difference: exit code 1, or 2 if a cluster could not be read.

    Without a difference, return: `archive_argument` then ends the command with 0 or 2.
    """
    if is_different:
        raise SystemExit(REFUSED if archive.failed else FOUND)


def _answers(
    archive: ArchiveInput,
    query: DifferenceQuery,
    queries: Sequence[Sequence[StateQuery]],
    executing: ExecutorChoice,
) -> Generator[DiffAnswer, None, None]:
    """Compare the sides: in Spark or other processes, which plan them again, or in this process."""
    every = list(chain.from_iterable(queries))
    task = DiffTask(archive.source().anywhere, query)

    def clusters() -> Sequence[str]:
        # The problems of other clusters are already printed.
        return [first.plan.cluster for first, _ in queries] or archive.selected()

    with bar() as progress:
        in_tasks = engine_choice.answers_of_tasks(executing, every, task, clusters, progress)
        if in_tasks is not None:
            yield from archive.each_readable(chain.from_iterable(in_tasks))
            return
        progress.begin("reading", sum(part.rows for query in every for part in query.plan.busy))
        comparisons = (query.compared(sides, progress.advance) for sides in queries)
        yield from archive.each_readable(map(answer_of, comparisons))


def _check(answers: Sequence[DiffAnswer], connectors: tuple[str, ...]) -> None:
    """Print notices, gaps and doubts; raise `UnknownConnector` for a name that does not occur."""
    print_plan_notices([plan for answer in answers for plan in answer.plans])
    check_connectors(connectors, frozenset().union(*(answer.connectors for answer in answers)))


def _write(file: Path, answers: Iterable[DiffAnswer], connectors: tuple[str, ...]) -> bool:
    """Write the differences of one cluster after the other; True if there are any."""
    written: list[DiffAnswer] = []

    def rows() -> Iterator[RowDocument]:
        for answer in answers:
            yield from change_rows(answer.before, answer.after, answer.changes)
            # The first difference decides the exit code; the others need no memory.
            written.append(answer._replace(changes=answer.changes[:1]))
            del answer
        _check(written, connectors)

    write(file, CHANGES, rows())
    return any(answer.changes for answer in written)


def _document(answer: DiffAnswer) -> dict[str, Any]:
    return {
        "from": answer.before._asdict(),
        "to": answer.after._asdict(),
        "gaps": gaps_of(answer.plans),
        "doubts": doubt_documents(answer.plans),
        "certain_from": [plan.certain_from for plan in answer.plans],
        "changes": [change_document(difference) for difference in answer.changes],
    }


def _print(answers: Sequence[DiffAnswer]) -> None:
    rows = [
        (answer.after.cluster, *_row(answer, difference))
        for answer in answers
        for difference in answer.changes
    ]
    if rows:
        table(("CLUSTER", "CONNECTOR", "WHAT", "CHANGE", "CAUSE"), rows)
    for answer in answers:
        say_differences(answer.after.cluster, len(answer.changes))


def _row(answer: DiffAnswer, difference: Change) -> tuple[str, ...]:
    return (
        difference.connector,
        f"{difference.aspect.value} {item(difference.aspect, difference.item)}".strip(),
        change(difference.aspect, difference.item, difference.before, difference.after),
        NONE if difference.cause is None else place(difference.cause, answer.topics),
    )
