"""`replay timeline`: intervals of facts, and digests after every config record."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import click
import pyarrow as pa

from controlplane.core.moments import time_text
from controlplane.core.text.record_text import place
from controlplane.core.text.safe_text import count
from controlplane.core.text.value_text import change, item, text
from controlplane.core.views.diff import Aspect
from controlplane.terminal.output import print_json, say
from controlplane.terminal.tables import table
from replay.cli.execution.plan_output import explain, explain_option, ordered_plan_summary
from replay.cli.options.archives import (
    NONE,
    ArchiveInput,
    archive_argument,
    connectors_option,
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
from replay.engine.executors import Executor
from replay.engine.plans.plan_summary import PlanSummary
from replay.fleet.table_queries import IntervalQuery
from replay.progress import Advance
from replay.tables.cells import RowDocument
from replay.timeline.interval_doubts import IntervalDoubts
from replay.timeline.intervals import Interval, Moment, SharedInterval
from replay.timeline.passes import digests, timeline_topics, timelines
from replay.timeline.timeline_rows import (
    DIGESTS,
    INTERVALS,
    RowMaker,
    digest_documents,
    interval_documents,
    write,
)
from replay.timeline.work_shares import TimelineJob, TimelineQuery

DIGEST_SHOWN = 16
"""Shown digits of a digest; JSON and Parquet have all."""


@click.command("timeline")
@archive_argument
@moment_option("End of the timeline. [default: end]")
@profiles_option
@connectors_option
@click.option("--offsets", is_flag=True, help="Include source offsets, the majority of records.")
@click.option(
    "--digests",
    "with_digests",
    is_flag=True,
    help="Print no intervals, but a digest of the config state after each config record.",
)
@to_option
@output_option("parquet", about="Print tables or JSON, or write Parquet.")
@executing_options
@explain_option
def command(  # noqa: PLR0913 - click passes every option by name
    archive: ArchiveInput,
    moment: str | None,
    releases: tuple[str, ...],
    connectors: tuple[str, ...],
    *,
    offsets: bool,
    with_digests: bool,
    output: str,
    file: Path | None,
    executing: ExecutorChoice,
    is_explained: bool,
) -> None:
    """List when each fact about the connectors in ARCHIVE held. Secrets are hidden.

    Facts are configs, target states, tasks and their configs, statuses, active topics and, with
    --offsets, source offsets. Each has its first record and the record that ended it, in the order
    in which records are folded. Releases with the same fact are named together. Offsets of sinks
    are not included: they lie in consumer groups. Exit code 2: a cluster is unreadable; the others
    are shown.
    """
    if with_digests and (connectors or offsets):
        raise click.UsageError("--digests covers all configs: leave --connector and --offsets out")
    profiles = tuple(archive.profiles(releases))
    query = IntervalQuery(moment, profiles, connectors, offsets)
    jobs = archive.answer_of_each(
        partial(query.planned, archive.source()), moment, jobs=executing.jobs
    )
    print_plan_notices([job.plan for job in jobs])
    kind = _DIGESTS if with_digests else _INTERVALS
    if is_explained:
        explain([_explained(job, kind.topics(job), executing) for job in jobs], output)
        return
    if file is not None:
        archive.answer_without_damaged(jobs, partial(_write_rows, file, kind, executing))
        return
    results = archive.answer_without_damaged(jobs, partial(_results, kind, executing))
    if output == "json":
        print_json([_document(result, kind) for result in results])
    else:
        kind.show(results)


class _TimelineResult(NamedTuple):
    job: TimelineJob
    rows: list[Any]


def _write_rows(
    file: Path, kind: "_TimelineKind", executing: ExecutorChoice, jobs: Sequence[TimelineJob]
) -> None:
    makers = {job.cluster.name: kind.documents(job) for job in jobs}
    with _rows(jobs, kind, executing) as timeline_rows:
        rows = (makers[job.cluster.name](row) for job, row in timeline_rows)
        write(file, kind.schema, rows)


def _results(
    kind: "_TimelineKind", executing: ExecutorChoice, jobs: Sequence[TimelineJob]
) -> list[_TimelineResult]:
    rows_of: dict[str, list[Any]] = {job.cluster.name: [] for job in jobs}
    with _rows(jobs, kind, executing) as timeline_rows:
        for job, row in timeline_rows:
            rows_of[job.cluster.name].append(row)
    return [_TimelineResult(job, rows_of[job.cluster.name]) for job in jobs]


@contextmanager
def _rows(
    jobs: Sequence[TimelineJob], kind: "_TimelineKind", executing: ExecutorChoice
) -> Iterator[Iterator[tuple[TimelineJob, Any]]]:
    """Yield an iterator over the rows of all jobs, which advances a progress bar."""
    parts = [
        part for job in jobs for topic in kind.topics(job) for part in job.plan.parts_of(topic)
    ]
    with bar() as shown, executing.by(shown) as executor:
        shown.begin("reading", sum(part.rows for part in parts))
        yield _all_rows(jobs, kind, shown.advance, executor)


def _explained(job: TimelineJob, topics: Sequence[str], executing: ExecutorChoice) -> PlanSummary:
    return ordered_plan_summary(job.cluster, job.plan.only(topics), len(topics), executing)


def _all_rows(
    jobs: Sequence[TimelineJob], kind: "_TimelineKind", advance: Advance, by: Executor
) -> Iterator[tuple[TimelineJob, Any]]:
    """Yield all rows; at the end, check that every named connector occurred."""
    occurring: set[str] = set()
    for job, row in kind.rows(jobs, advance, by):
        occurring.update(kind.about(row))
        yield job, row
    check_connectors(jobs[0].question.connectors, occurring)


def _document(result: _TimelineResult, kind: "_TimelineKind") -> RowDocument:
    job = result.job
    releases = [profile.release for profile in job.question.profiles]
    about: RowDocument = {"cluster": job.cluster.name, "as_of": job.plan.ends, "releases": releases}
    about |= missing_documents(job.plan)
    return about | {kind.name: list(map(kind.documents(job), result.rows))}


# --- intervals ------------------------------------------------------------------------------


def _show_intervals(results: Sequence[_TimelineResult]) -> None:
    rows: list[tuple[str, ...]] = []
    for job, intervals in results:
        doubts = IntervalDoubts(job.cluster, job.plan.ends)
        before: SharedInterval | None = None
        for shared in sorted(intervals, key=_by_fact):
            rows.append((*_interval_cells(job, shared, before), _note(job, shared, doubts)))
            before = shared
    heads: tuple[str, ...] = (*_HEADS, _NOTE)
    if not any(row[-1] for row in rows):
        heads, rows = _HEADS, [row[:-1] for row in rows]
    table(*_without_constant_columns(heads, rows))
    for job, intervals in results:
        connectors = {shared.interval.connector for shared in intervals}
        say(
            f"{job.cluster.name}: {count(len(intervals), 'interval')} "
            f"of {count(len(connectors), 'connector')}"
        )


_HEADS = ("CLUSTER", "RELEASES", "CONNECTOR", "WHAT", "FROM", "TIME", "UNTIL", "VALUE")
_NOTE = "CERTAINTY"
"""Column that only a table with doubts has."""


def _note(job: TimelineJob, shared: SharedInterval, doubts: IntervalDoubts) -> str:
    return doubts.of(shared.interval).sentence(shared.interval, job.plan.topics)


def _without_constant_columns(
    heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Table without the columns for cluster and release, if there is only one."""
    columns = [
        at
        for at in range(len(heads))
        if heads[at] not in ("CLUSTER", "RELEASES") or len({row[at] for row in rows}) > 1
    ]
    return tuple(heads[at] for at in columns), [tuple(row[at] for at in columns) for row in rows]


def _by_fact(shared: SharedInterval) -> tuple[str, int, str, Moment]:
    interval = shared.interval
    return interval.connector, _ASPECTS.index(interval.aspect), interval.item, interval.since


_ASPECTS = list(Aspect)


def _interval_cells(
    job: TimelineJob, shared: SharedInterval, before: SharedInterval | None
) -> tuple[str, ...]:
    interval, topics = shared.interval, job.plan.topics
    return (
        job.cluster.name,
        _releases(shared.profiles, job.question),
        interval.connector,
        f"{interval.aspect.value} {item(interval.aspect, interval.item)}".strip(),
        place(interval.since.position, topics),
        time_text(interval.since.time_ms),
        NONE if interval.until is None else place(interval.until.position, topics),
        _value(interval, before.interval if before and _follows(before, shared) else None),
    )


def _follows(before: SharedInterval, shared: SharedInterval) -> bool:
    """True if an interval continues another one, for the same releases."""
    return (
        before.profiles == shared.profiles
        and before.interval.place[:3] == shared.interval.place[:3]
        and before.interval.until == shared.interval.since
    )


def _value(interval: Interval, before: Interval | None) -> str:
    """Text of a value; for a changed map, only its changes."""
    if before is not None and interval.aspect in (Aspect.CONFIG, Aspect.TASK_CONFIG):
        return change(Aspect.TASK_CONFIG, "", before.value, interval.value)
    return text(interval.aspect, "", interval.value)


def _releases(names: Sequence[str], question: TimelineQuery) -> str:
    """Format releases as ranges: `2.3.1`, `2.4.0 … 3.2.3, kip`."""
    releases = [profile.release for profile in question.profiles]
    runs: list[list[str]] = []
    for before, name in pairwise(["", *releases]):
        if name in names:
            if before not in names:
                runs.append([])
            runs[-1].append(name)
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} … {run[-1]}" for run in runs)


# --- digests --------------------------------------------------------------------------------


def _show_digests(results: Sequence[_TimelineResult]) -> None:
    rows = [
        (
            job.cluster.name,
            place(shared.after.position, job.plan.topics),
            time_text(shared.after.time_ms),
            shared.digest[:DIGEST_SHOWN],
            _releases(shared.profiles, job.question),
        )
        for job, job_digests in results
        for shared in job_digests
    ]
    table(*_without_constant_columns(("CLUSTER", "AFTER", "TIME", "DIGEST", "RELEASES"), rows))


class _TimelineKind(NamedTuple):
    """Kind of a timeline: intervals or digests."""

    name: str
    schema: pa.Schema
    topics: Callable[[TimelineJob], Sequence[str]]
    """Topics to read."""
    rows: Callable[[Sequence[TimelineJob], Advance, Executor], Iterator[tuple[TimelineJob, Any]]]
    about: Callable[[Any], Iterable[str]]
    """Connectors of a row."""
    documents: Callable[[TimelineJob], RowMaker]
    show: Callable[[Any], None]


_INTERVALS = _TimelineKind(
    "intervals",
    INTERVALS,
    timeline_topics,
    timelines,
    lambda shared: (shared.interval.connector,),
    interval_documents,
    _show_intervals,
)
_DIGESTS = _TimelineKind(
    "digests",
    DIGESTS,
    lambda job: [job.plan.topics.config],
    digests,
    lambda _: (),
    digest_documents,
    _show_digests,
)
