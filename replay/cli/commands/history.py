"""`replay history`: every record that concerns a connector, and its effect."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from controlplane.core.moments import time_text
from controlplane.core.state import Topics
from controlplane.core.text import record_text as records
from controlplane.core.text.safe_text import count
from replay.archive.archived_cluster import ArchivedCluster
from replay.cli.execution.plan_output import explain, explain_option, passed_over
from replay.cli.options.archives import (
    ArchiveInput,
    archive_argument,
    check_connectors,
    moment_option,
    planned,
    profiles_option,
    tell,
    to_option,
)
from replay.cli.options.engines import ExecutorChoice, executing_options
from replay.cli.output.printer import output_option, print_json, say, table
from replay.cli.output.progress_bar import bar
from replay.engine.ordered_records import ordered
from replay.engine.read_plan import ReadPlan
from replay.progress import Advance
from replay.timeline.connector_history import HistoryPass, HistoryReader, MeaningRow
from replay.timeline.shared_fold import chunks
from replay.timeline.timeline_rows import EVENTS, RowDocument, write


class _HistoryTask(NamedTuple):
    """A cluster, its plan, and the connector and release of the history."""

    cluster: ArchivedCluster
    plan: ReadPlan
    reader: HistoryReader


class _HistoryStep(NamedTuple):
    """Effects of some records."""

    records: int
    told: list[MeaningRow]


@click.command()
@archive_argument
@click.option(
    "--connector",
    "connectors",
    metavar="NAME",
    multiple=True,
    required=True,
    help="Connector of the history; repeatable.",
)
@moment_option("End of the history. [default: the end]")
@profiles_option
@to_option
@output_option("parquet", about="Print tables or JSON, or write Parquet.")
@executing_options
@explain_option
def history(  # noqa: PLR0913 - click passes every option by name
    asked: ArchiveInput,
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
    hidden. --as-of accepts the positions in column RECORD.
    """
    profiles = asked.profiles(releases)
    plans = asked.each(
        lambda one: (one, planned(asked.local(one, derived=False), moment, profiles))
    )
    tell([plan for _, plan in plans])
    jobs = [
        _HistoryTask(
            cluster, plan, HistoryReader(name, profile, cluster.topics, asked.exactly_once)
        )
        for cluster, plan in plans
        for profile in profiles
        for name in dict.fromkeys(connectors)
    ]
    if is_explained:
        explain([passed_over(job.cluster, job.plan, 1, executing) for job in jobs], output)
        return
    with bar() as shown, executing.by(shown) as executor:
        shown.begin("reading", sum(part.rows for job in jobs for part in job.plan.parts))
        gone = zip(jobs, executor.run(_gone_over, jobs), strict=True)
        found = [(job, list(_told(steps, shown.advance))) for job, steps in gone]
    found = [(job, told) for job, told in found if told]
    check_connectors(connectors, {job.reader.connector for job, _ in found})
    if file is not None:
        rows = (
            _about(job) | row for job, told in found for row in _events(told, job.cluster.topics)
        )
        write(file, EVENTS, rows)
        return
    if output == "json":
        print_json([_document(job, told) for job, told in found])
        return
    for job, told in found:
        _print(job, told)


def _gone_over(job: _HistoryTask) -> Iterator[_HistoryStep]:
    past = HistoryPass(job.reader)
    for some in chunks(ordered(job.cluster, job.plan.parts)):
        yield _HistoryStep(len(some), list(past.take(some)))


def _told(steps: Iterable[_HistoryStep], advance: Advance) -> Iterator[MeaningRow]:
    for step in steps:
        yield from step.told
        advance(step.records)


def _document(job: _HistoryTask, told: Sequence[MeaningRow]) -> dict[str, Any]:
    gaps = [gap.sentence for gap in job.plan.gaps]
    events = list(_events(told, job.cluster.topics))
    return _about(job) | {"as_of": job.plan.ends, "gaps": gaps, "events": events}


def _about(job: _HistoryTask) -> RowDocument:
    profile, connector = job.reader.profile.release, job.reader.connector
    return {"cluster": job.cluster.name, "profile": profile, "connector": connector}


def _events(told: Sequence[MeaningRow], topics: Topics) -> Iterator[RowDocument]:
    """Rows, one per effect of a record; the first row holds the record's value."""
    before = None
    for one in told:
        entry, row = one.event.entry, records.of_event(one.event, topics)
        value = records.document(entry)["value"] if entry.position != before else None
        before = entry.position
        yield row | {"record": row["record"] | {"value": value}, "meaning": one.meaning.value}


def _print(job: _HistoryTask, told: Sequence[MeaningRow]) -> None:
    cluster, release = job.cluster.name, job.reader.profile.release
    say(f"{cluster}: {job.reader.connector}, as {release} reads it", style="bold")
    heads = ("RECORD", "TIME", "MEANING", "WHAT", "CHANGE")
    table(heads, _rows(told, job.cluster.topics))
    number = len({one.event.entry.position for one in told})
    say(f"{cluster}: {count(number, 'record')} of {job.reader.connector}")


def _rows(told: Sequence[MeaningRow], topics: Topics) -> Iterator[tuple[str, ...]]:
    """Lines, one per effect of a record; the first line holds its position."""
    meanings = {id(one.event): one.meaning.value for one in told}
    last = None
    for event in records.shortened(one.event for one in told):
        position = event.entry.position
        again, last = position == last, position
        yield (
            "" if again else records.place(position, topics),
            "" if again else time_text(event.entry.timestamp),
            meanings.get(id(event), ""),
            event.what,
            event.words,
        )
