"""`replay history`: every record that concerns a connector, and what it meant for it."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from controlplane.core import shown_records as records
from controlplane.core.moments import time_text
from controlplane.core.safe_text import count
from controlplane.core.state import Topics
from replay.archive.cluster import Cluster
from replay.cli.asking import (
    Asked,
    archive_argument,
    check_connectors,
    moment_option,
    planned,
    profiles_option,
    tell,
    to_option,
)
from replay.cli.engines import Executing, executing_options
from replay.cli.explaining import explain, explain_option, passed_over
from replay.cli.printing import output_option, print_json, say, table
from replay.cli.progress import bar
from replay.engine.plan import Plan
from replay.engine.records import ordered
from replay.progress import Advance
from replay.timeline.past import Past, Reader, Told
from replay.timeline.rows import EVENTS, Row, write
from replay.timeline.together import chunks


class _Job(NamedTuple):
    """A cluster, what is read of it, and whose past through whose eyes."""

    cluster: Cluster
    plan: Plan
    reader: Reader


class _Step(NamedTuple):
    """What some records meant."""

    records: int
    told: list[Told]


@click.command()
@archive_argument
@click.option(
    "--connector",
    "connectors",
    metavar="NAME",
    multiple=True,
    required=True,
    help="Whose past; repeat.",
)
@moment_option("It ends there. [default: the end]")
@profiles_option
@to_option
@output_option("parquet", about="Tables for people, JSON or Parquet for machines.")
@executing_options
@explain_option
def history(  # noqa: PLR0913 - click passes every option by name
    asked: Asked,
    connectors: tuple[str, ...],
    moment: str | None,
    releases: tuple[str, ...],
    *,
    output: str,
    file: Path | None,
    executing: Executing,
    is_explained: bool,
) -> None:
    """Every record in ARCHIVE that concerns a connector, in order, and what it meant for it.

    What a record meant depends on who reads it: each release tells its own. Secrets are hidden.
    What stands in the column RECORD, --as-of takes everywhere.
    """
    profiles = asked.profiles(releases)
    plans = asked.each(
        lambda one: (one, planned(asked.local(one, derived=False), moment, profiles))
    )
    tell([plan for _, plan in plans])
    jobs = [
        _Job(cluster, plan, Reader(name, profile, cluster.topics, asked.exactly_once))
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


def _gone_over(job: _Job) -> Iterator[_Step]:
    past = Past(job.reader)
    for some in chunks(ordered(job.cluster, job.plan.parts)):
        yield _Step(len(some), list(past.take(some)))


def _told(steps: Iterable[_Step], advance: Advance) -> Iterator[Told]:
    for step in steps:
        yield from step.told
        advance(step.records)


def _document(job: _Job, told: Sequence[Told]) -> dict[str, Any]:
    gaps = [gap.sentence for gap in job.plan.gaps]
    events = list(_events(told, job.cluster.topics))
    return _about(job) | {"as_of": job.plan.ends, "gaps": gaps, "events": events}


def _about(job: _Job) -> Row:
    profile, connector = job.reader.profile.release, job.reader.connector
    return {"cluster": job.cluster.name, "profile": profile, "connector": connector}


def _events(told: Sequence[Told], topics: Topics) -> Iterator[Row]:
    """A row for each thing that a record meant; the record's value comes with the first of them."""
    before = None
    for one in told:
        entry, row = one.event.entry, records.of_event(one.event, topics)
        value = records.document(entry)["value"] if entry.position != before else None
        before = entry.position
        yield row | {"record": row["record"] | {"value": value}, "meaning": one.meaning.value}


def _print(job: _Job, told: Sequence[Told]) -> None:
    cluster, release = job.cluster.name, job.reader.profile.release
    say(f"{cluster}: {job.reader.connector}, as {release} reads it", style="bold")
    heads = ("RECORD", "TIME", "MEANING", "WHAT", "CHANGE")
    table(heads, _rows(told, job.cluster.topics))
    number = len({one.event.entry.position for one in told})
    say(f"{cluster}: {count(number, 'record')} of {job.reader.connector}")


def _rows(told: Sequence[Told], topics: Topics) -> Iterator[tuple[str, ...]]:
    """A line for each thing that a record did; where it lies stands in the first."""
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
