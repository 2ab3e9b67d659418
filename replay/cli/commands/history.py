"""`replay history`: every record that concerns a connector, and its effect."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import click

from controlplane.core.moments import time_text
from controlplane.core.state import Topics
from controlplane.core.text import record_text
from controlplane.core.text.safe_text import count
from controlplane.core.views.history_text import shortened
from controlplane.terminal.log_options import not_empty
from controlplane.terminal.output import print_json, say
from controlplane.terminal.tables import table
from replay.cli.execution.plan_output import explain, explain_option, ordered_plan_summary
from replay.cli.options.archives import (
    ArchiveInput,
    archive_argument,
    missing_documents,
    moment_option,
    print_plan_notices,
    profiles_option,
    to_option,
)
from replay.cli.options.engines import ExecutorChoice, executing_options
from replay.cli.options.formats import output_option
from replay.cli.options.logs import check_connectors
from replay.cli.output.progress_bar import bar
from replay.fleet.table_queries import HistoryQuery
from replay.progress import Advance
from replay.timeline.connector_history import EventEffect
from replay.timeline.history_jobs import HistoryJob, HistoryStep, history_steps
from replay.timeline.history_rows import event_rows, history_head, history_rows
from replay.timeline.timeline_rows import EVENTS, write


@click.command()
@archive_argument
@click.option(
    "--connector",
    "connectors",
    metavar="NAME",
    multiple=True,
    required=True,
    callback=not_empty,
    help="Connector of the history. May be repeated.",
)
@moment_option("End of the history. [default: end]")
@profiles_option
@to_option
@output_option("parquet", about="Print tables or JSON, or write Parquet.")
@executing_options
@explain_option
def history(  # noqa: PLR0913 - click passes every option by name
    archive: ArchiveInput,
    connectors: tuple[str, ...],
    moment: str | None,
    releases: tuple[str, ...],
    *,
    output: str,
    file: Path | None,
    executing: ExecutorChoice,
    is_explained: bool,
) -> None:
    """List every record in ARCHIVE that concerns a connector, in order, with its effect.

    The effect of a record depends on the release; each release has its own list. Secrets are
    hidden. --as-of accepts the positions in column RECORD. Exit code 2: a cluster is unreadable;
    the others are shown.
    """
    query = HistoryQuery(moment, tuple(archive.profiles(releases)), connectors)
    jobs_of = archive.answer_of_each(
        partial(query.planned, archive.source()), moment, jobs=executing.jobs
    )
    print_plan_notices([cluster_jobs[0].plan for cluster_jobs in jobs_of])
    jobs = list(chain.from_iterable(jobs_of))
    if is_explained:
        explain([ordered_plan_summary(job.cluster, job.plan, 1, executing) for job in jobs], output)
        return
    histories = archive.answer_without_damaged(jobs, partial(_histories, executing))
    histories = [(job, effects) for job, effects in histories if effects]
    check_connectors(connectors, {job.reader.connector for job, _ in histories})
    if file is not None:
        rows = (history_rows(job, effects) for job, effects in histories)
        write(file, EVENTS, chain.from_iterable(rows))
        return
    if output == "json":
        print_json([_document(job, effects) for job, effects in histories])
        return
    for job, effects in histories:
        _print(job, effects)


def _histories(
    executing: ExecutorChoice, jobs: Sequence[HistoryJob]
) -> list[tuple[HistoryJob, list[EventEffect]]]:
    with bar() as shown, executing.by(shown) as executor:
        shown.begin("reading", sum(part.rows for job in jobs for part in job.plan.parts))
        steps_of = zip(jobs, executor.run(history_steps, jobs), strict=True)
        return [(job, list(_effects(steps, shown.advance))) for job, steps in steps_of]


def _effects(steps: Iterable[HistoryStep], advance: Advance) -> Iterator[EventEffect]:
    for step in steps:
        yield from step.effects
        advance(step.records)


def _document(job: HistoryJob, effects: Sequence[EventEffect]) -> dict[str, Any]:
    events = list(event_rows(effects, job.reader))
    head = history_head(job.cluster.name, job.reader)
    return head | {"as_of": job.plan.ends, **missing_documents(job.plan), "events": events}


def _print(job: HistoryJob, effects: Sequence[EventEffect]) -> None:
    cluster, release = job.cluster.name, job.reader.profile.release
    say(f"{cluster}: {job.reader.connector}, as {release} reads it", style="bold")
    heads = ("RECORD", "TIME", "MEANING", "WHAT", "CHANGE")
    table(heads, _rows(effects, job.cluster.topics))
    number = len({effect.event.entry.position for effect in effects})
    say(f"{cluster}: {count(number, 'record')} of {job.reader.connector}")


def _rows(effects: Sequence[EventEffect], topics: Topics) -> Iterator[tuple[str, ...]]:
    """Lines, one per effect of a record; the first line holds its position."""
    meanings = {id(effect.event): effect.meaning.value for effect in effects}
    last = None
    for event in shortened(effect.event for effect in effects):
        position = event.entry.position
        again, last = position == last, position
        yield (
            "" if again else record_text.place(position, topics),
            "" if again else time_text(event.entry.timestamp),
            meanings.get(id(event), ""),
            event.what,
            event.words,
        )
