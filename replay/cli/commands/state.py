"""`replay state`: states of workers of any release, at any moment of an archive."""

from collections import Counter
from collections.abc import Container, Generator, Iterable, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

import click
import msgspec
import pyarrow.parquet as pq

from controlplane.core.text.record_text import place
from controlplane.core.text.safe_text import count
from controlplane.terminal.output import print_json, say
from controlplane.terminal.tables import table
from replay.atomic_file import atomic_write
from replay.cli.execution import engine_choice
from replay.cli.execution.folded_states import (
    PrintedState,
    StateAnswer,
    StateAnswerTask,
    answers_here,
)
from replay.cli.execution.plan_output import explain, explain_option
from replay.cli.execution.written_states import write_states
from replay.cli.options.archives import (
    NONE,
    ArchiveInput,
    archive_argument,
    connectors_option,
    folder_option,
    missing_documents,
    moment_option,
    print_plan_notices,
    profiles_option,
)
from replay.cli.options.engines import ExecutorChoice, executing_options
from replay.cli.options.formats import output_option
from replay.cli.options.logs import UnknownConnector
from replay.cli.output.progress_bar import bar
from replay.doubts import DoubtKind
from replay.engine.plans.read_plan import ReadPlan
from replay.engine.query import StateQuery
from replay.engine.states.state_rows import SCHEMA, ConnectorRow, UnreadableCounts, table_of
from replay.errors import listed
from replay.fleet.cluster_summaries import FleetQuestion

_ORDER = "depends on the order between partitions: {}"
"""Remark about a fact that may differ between two workers; `--hazards` uses the same words."""

UNREADABLE_SHOWN = 5
"""Unreadable records that a table lists per state; JSON lists more."""


@click.command()
@archive_argument
@moment_option()
@profiles_option
@connectors_option
@executing_options
@click.option(
    "--from-segments",
    is_flag=True,
    help="Read segments only, and no files derived from them (snapshots, winners).",
)
@explain_option
@output_option("parquet", about="Print tables or JSON, or write Parquet.")
@folder_option("New folder for all tables in Parquet, partitioned by cluster and release.", "--to")
def state(  # noqa: PLR0913 - click passes every option by name
    archive: ArchiveInput,
    moment: str | None,
    releases: tuple[str, ...],
    connectors: tuple[str, ...],
    *,
    executing: ExecutorChoice,
    from_segments: bool,
    is_explained: bool,
    output: str,
    file: Path | None,
    folder: str | None,
) -> None:
    """Show the state of the clusters in ARCHIVE at a moment. Secrets are hidden.

    A moment selects a prefix of the order in which records are folded; it is no filter on
    timestamps. Exit code 2: a cluster is unreadable, or has no state because it begins later.
    """
    profiles = archive.profiles(releases)
    source = archive.source(derived=not from_segments).anywhere
    question = FleetQuestion(source, moment, tuple(profiles))
    if folder is not None:
        if connectors:
            raise click.UsageError("--folder is for whole states: leave --connector out")
        if not is_explained:
            write_states(archive, question, folder, executing)
            return
    queries: list[StateQuery] = []
    if is_explained or not (executing.choice.is_spark or executing.is_parallel):
        queries = archive.answer_of_each(question.query, moment, jobs=executing.jobs)
        if is_explained:
            print_plan_notices([query.plan for query in queries])
            explain(engine_choice.plans(executing, queries), output)
            return
    answers_to_come = _answers(archive, queries, StateAnswerTask(question, connectors), executing)
    if file is not None:
        with closing(answers_to_come):  # ends the work in Spark if the file cannot be written
            _write(file, answers_to_come, connectors)
        return
    answers = list(answers_to_come)
    connector_rows = [row for answer in answers for row in _rows(answer)]
    _check(
        [answer.plan for answer in answers], connectors, {row.connector for row in connector_rows}
    )
    if output == "json":
        print_json([_document(answer) for answer in answers])
    else:
        _print(answers, connector_rows)


def _answers(
    archive: ArchiveInput,
    queries: Sequence[StateQuery],
    task: StateAnswerTask,
    executing: ExecutorChoice,
) -> Generator[StateAnswer, None, None]:
    """Fold the clusters: in Spark or other processes, which plan them again, or in this process."""

    def clusters() -> Sequence[str]:
        # The problems of other clusters are already printed.
        return [query.plan.cluster for query in queries] or archive.selected()

    with bar() as progress:
        in_tasks = engine_choice.answers_of_tasks(executing, queries, task, clusters, progress)
        if in_tasks is not None:
            yield from archive.each_readable(chain.from_iterable(in_tasks))
            return
        rows = sum(part.rows for query in queries for part in query.plan.busy)
        progress.begin("reading", rows)
        local_answers = answers_here(queries, task.connectors, progress.advance)
        yield from archive.each_readable(local_answers)


def _rows(answer: StateAnswer) -> list[ConnectorRow]:
    """Rows of all releases."""
    return [row for printed in answer.states for row in printed.connectors]


def _check(plans: Sequence[ReadPlan], connectors: tuple[str, ...], shown: Container[str]) -> None:
    """Print notices, gaps and doubts; raise `UnknownConnector` for a name that is not shown."""
    print_plan_notices(plans)
    absent = [name for name in dict.fromkeys(connectors) if name not in shown]
    if absent:
        raise UnknownConnector(_absent_then(absent))


def _absent_then(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"no cluster had a connector {names[0]!r} at that moment: check the name"
    return f"no cluster had the connectors {listed(names)} at that moment: check the names"


# --- printing -------------------------------------------------------------------------------

GROUP_ROWS = 1_000
"""Minimum number of rows that are written together, except the last. A row has all offsets of a
connector, so many rows need much memory. A row group of few rows is slow to read."""


def _write(file: Path, answers: Iterable[StateAnswer], connectors: tuple[str, ...]) -> None:
    """Write the rows of one cluster after the other."""
    plans: list[ReadPlan] = []
    shown: set[str] = set()
    unwritten: list[ConnectorRow] = []
    # After an error, `pq.write_table` would remove the path, also of a device or a pipe.
    with (
        atomic_write(file) as draft,
        pq.ParquetWriter(draft, SCHEMA, compression="zstd") as writer,
    ):
        for answer in answers:
            plans.append(answer.plan.brief)
            rows = _rows(answer)
            shown.update(row.connector for row in rows)
            unwritten += rows
            if len(unwritten) >= GROUP_ROWS:
                writer.write_table(table_of(unwritten))
                unwritten = []
            del answer, rows  # they would stay in memory while the next cluster is folded
        if unwritten:  # readers warn of empty row groups
            writer.write_table(table_of(unwritten))
        _check(plans, connectors, shown)


def _document(answer: StateAnswer) -> dict[str, Any]:
    return {
        "cluster": answer.cluster,
        "as_of": answer.plan.ends,
        **missing_documents(answer.plan),
        "states": [
            {
                "release": printed.release,
                "exactly_once": printed.exactly_once,
                "digest": printed.digest,
                "unreadable": _unreadable(printed.unreadable),
                "connectors": [msgspec.structs.asdict(row) for row in printed.connectors],
            }
            for printed in answer.states
        ],
    }


def _unreadable(counts: UnreadableCounts) -> dict[str, Any]:
    records = [{"position": at._asdict(), "reason": why} for at, why in counts.records]
    return {"count": counts.number, "records": records}


def _print(answers: Sequence[StateAnswer], connector_rows: Sequence[ConnectorRow]) -> None:
    heads = ("CLUSTER", "RELEASE", "CONNECTOR", "TARGET", "TASKS", "STATUS", "TASK STATES")
    table((*heads, "OFFSETS", "REMARKS"), [_cells(row) for row in connector_rows])
    for answer in answers:
        for printed in answer.states:
            _print_unreadable(answer.cluster, printed)
        _print_derived(answer)
        vector = msgspec.json.encode(answer.plan.ends).decode()
        say(f"{answer.cluster}: {count(len(answer.states), 'state')} as of {vector}")


def _print_derived(answer: StateAnswer) -> None:
    """Name the topics in which earlier records are missing; other doubts are on standard error."""
    doubts = [doubt for doubt in answer.plan.doubts if doubt.kind is DoubtKind.DERIVED]
    if doubts:
        topics = ", ".join(dict.fromkeys(doubt.topic for doubt in doubts))
        say(
            f"{answer.cluster}: earlier records are missing in {topics}. A worker that has read "
            "them may have other tasks and statuses (-o json has the offsets)"
        )


def _print_unreadable(cluster: str, printed: PrintedState) -> None:
    unusable = printed.unreadable
    if not unusable.number:
        return
    records = count(unusable.number, "record")
    say(f"{cluster}: {records} that a worker of {printed.release} cannot use:")
    for at, why in unusable.records[:UNREADABLE_SHOWN]:
        say(f"  {place(at, printed.topics)}  {why}")
    if unusable.number > UNREADABLE_SHOWN:
        say(
            f"  … and {unusable.number - UNREADABLE_SHOWN} more; `replay audit` counts them by "
            "reason"
        )


def _cells(row: ConnectorRow) -> tuple[str, ...]:
    states = Counter(task["state"] for task in row.task_status.values()).most_common()
    remarks = ("inconsistent",) if row.inconsistent else ()
    return (
        row.cluster,
        row.release,
        row.connector,
        row.target_state or NONE,
        NONE if row.tasks is None else str(row.tasks),
        row.status["state"] if row.status else NONE,
        ", ".join(f"{number} {name}" for name, number in states) or NONE,
        str(len(row.offsets)) if row.offsets else NONE,
        "; ".join((*remarks, *row.remarks, *map(_ORDER.format, row.order_dependent))),
    )
