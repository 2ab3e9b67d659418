"""`replay timeline`: what held from when until when, and a digest after every config record."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import click
import pyarrow as pa

from controlplane.core.diff import Aspect
from controlplane.core.moments import time_text
from controlplane.core.safe_text import count
from controlplane.core.shown import change, item, text
from controlplane.core.shown_records import place
from replay.cli.asking import (
    NONE,
    Asked,
    archive_argument,
    check_connectors,
    connectors_option,
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
from replay.engine.executors import Executor
from replay.engine.explain import Explained
from replay.engine.local import Local
from replay.progress import Advance
from replay.timeline.intervals import Interval, Moment, Seen
from replay.timeline.rows import DIGESTS, INTERVALS, Row, of_digest, of_interval, write
from replay.timeline.sharing import Job, Question
from replay.timeline.telling import SeenDigest, digests, timelines, told_of

DIGEST_SHOWN = 16
"""Digits of a digest that people are shown; machines get all."""


@click.command("timeline")
@archive_argument
@moment_option("It ends there. [default: the end]")
@profiles_option
@connectors_option
@click.option("--offsets", is_flag=True, help="Source offsets, too: most records are those.")
@click.option(
    "--digests",
    "numbers",
    is_flag=True,
    help="Instead: the digest of what is known of configs, after each record of their topic.",
)
@to_option
@output_option("parquet", about="Tables for people, JSON or Parquet for machines.")
@executing_options
@explain_option
def command(  # noqa: PLR0913 - click passes every option by name
    asked: Asked,
    moment: str | None,
    releases: tuple[str, ...],
    connectors: tuple[str, ...],
    *,
    offsets: bool,
    numbers: bool,
    output: str,
    file: Path | None,
    executing: Executing,
    is_explained: bool,
) -> None:
    """From when until when each fact about the connectors in ARCHIVE held. Secrets are hidden.

    Facts are configs, target states, tasks and their configs, statuses, active topics and, if asked
    for, source offsets. Each has the record that made it and the one that ended it, in the one
    order in which records are folded. Releases that saw the same are named together. What sinks
    have read lies in consumer groups, and not in these topics.
    """
    if numbers and (connectors or offsets):
        raise click.UsageError("--digests are of all configs: leave --connector and --offsets out")
    profiles = asked.profiles(releases)
    question = Question(profiles, connectors, asked.exactly_once, offsets)
    jobs = asked.each(lambda cluster: _job(asked.local(cluster, derived=False), moment, question))
    tell([job.plan for job in jobs])
    kind = _DIGESTS if numbers else _INTERVALS
    if is_explained:
        plans = [_explained(job, _topics(job, numbers=numbers), executing) for job in jobs]
        explain(plans, output)
        return
    with bar() as shown, executing.by(shown) as executor:
        shown.begin("reading", sum(_records(job, numbers=numbers) for job in jobs))
        told = _told(jobs, kind, shown.advance, executor)
        if file is not None:
            write(file, kind.schema, (kind.row(job.cluster.name, one) for job, one in told))
            return
        found: dict[str, list[Any]] = {job.cluster.name: [] for job in jobs}
        for job, one in told:
            found[job.cluster.name].append(one)
    if output == "json":
        print_json([_document(job, found[job.cluster.name], kind) for job in jobs])
    else:
        kind.show([(job, found[job.cluster.name]) for job in jobs])


def _job(local: Local, moment: str | None, question: Question) -> Job:
    return Job(local.cluster, planned(local, moment, question.profiles), question)


def _records(job: Job, *, numbers: bool) -> int:
    """How many records are gone through."""
    topics = _topics(job, numbers=numbers)
    return sum(part.rows for topic in topics for part in job.plan.parts_of(topic))


def _topics(job: Job, *, numbers: bool) -> list[str]:
    """Those whose records are gone through."""
    return [job.plan.topics.config] if numbers else told_of(job)


def _explained(job: Job, topics: Sequence[str], executing: Executing) -> Explained:
    return passed_over(job.cluster, job.plan.only(topics), len(topics), executing)


def _told(
    jobs: Sequence[Job], kind: "_Kind", advance: Advance, by: Executor
) -> Iterator[tuple[Job, Any]]:
    """All that is told; in the end it is looked whether every connector was anywhere."""
    there: set[str] = set()
    for job, one in kind.told(jobs, advance, by):
        there.update(kind.about(one))
        yield job, one
    check_connectors(jobs[0].question.connectors, there)


def _document(job: Job, told: Iterable[Any], kind: "_Kind") -> Row:
    asked = [profile.release for profile in job.question.profiles]
    about = {"cluster": job.cluster.name, "as_of": job.plan.ends, "profiles": asked}
    about["gaps"] = [gap.sentence for gap in job.plan.gaps]
    return about | {kind.name: [kind.row(job.cluster.name, one) for one in told]}


# --- intervals ------------------------------------------------------------------------------


def _show_intervals(found: Sequence[tuple[Job, list[Seen]]]) -> None:
    rows = []
    for job, told in found:
        before: Seen | None = None
        for seen in sorted(told, key=_by_fact):
            rows.append(_interval_cells(job, seen, before))
            before = seen
    heads = ("CLUSTER", "RELEASES", "CONNECTOR", "WHAT", "FROM", "TIME", "UNTIL", "VALUE")
    table(*_telling(heads, rows))
    for job, told in found:
        connectors = {seen.interval.connector for seen in told}
        say(
            f"{job.cluster.name}: {count(len(told), 'interval')} "
            f"of {count(len(connectors), 'connector')}"
        )


def _telling(
    heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A table without clusters or releases, where there is but one of them."""
    columns = [
        at
        for at in range(len(heads))
        if heads[at] not in ("CLUSTER", "RELEASES") or len({row[at] for row in rows}) > 1
    ]
    return tuple(heads[at] for at in columns), [tuple(row[at] for at in columns) for row in rows]


def _by_fact(seen: Seen) -> tuple[str, int, str, Moment]:
    one = seen.interval
    return one.connector, _ASPECTS.index(one.aspect), one.item, one.since


_ASPECTS = list(Aspect)


def _interval_cells(job: Job, seen: Seen, before: Seen | None) -> tuple[str, ...]:
    one, topics = seen.interval, job.plan.topics
    return (
        job.cluster.name,
        _releases(seen.profiles, job.question),
        one.connector,
        f"{one.aspect.value} {item(one.aspect, one.item)}".strip(),
        place(one.since.position, topics),
        time_text(one.since.time_ms),
        NONE if one.until is None else place(one.until.position, topics),
        _value(one, before.interval if before and _follows(before, seen) else None),
    )


def _follows(before: Seen, seen: Seen) -> bool:
    """Whether one interval goes on where another ended, for the same releases."""
    return (
        before.profiles == seen.profiles
        and before.interval.place[:3] == seen.interval.place[:3]
        and before.interval.until == seen.interval.since
    )


def _value(one: Interval, before: Interval | None) -> str:
    """A value; of a map that was another before, what of it is new."""
    if before is not None and one.aspect in (Aspect.CONFIG, Aspect.TASK_CONFIG):
        return change(Aspect.TASK_CONFIG, "", before.value, one.value)
    return text(one.aspect, "", one.value)


def _releases(names: Sequence[str], question: Question) -> str:
    """`2.3.1`, `2.4.0 … 3.2.3, kip`: who sees it so, of those that were asked."""
    asked = [profile.release for profile in question.profiles]
    runs: list[list[str]] = []
    for before, name in pairwise(["", *asked]):
        if name in names:
            if before not in names:
                runs.append([])
            runs[-1].append(name)
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} … {run[-1]}" for run in runs)


# --- digests --------------------------------------------------------------------------------


def _show_digests(found: Sequence[tuple[Job, list[SeenDigest]]]) -> None:
    rows = [
        (
            job.cluster.name,
            place(seen.after.position, job.plan.topics),
            time_text(seen.after.time_ms),
            seen.digest[:DIGEST_SHOWN],
            _releases(seen.profiles, job.question),
        )
        for job, told in found
        for seen in told
    ]
    table(*_telling(("CLUSTER", "AFTER", "TIME", "DIGEST", "RELEASES"), rows))


class _Kind(NamedTuple):
    """What a timeline can be made of."""

    name: str
    schema: pa.Schema
    told: Callable[[Sequence[Job], Advance, Executor], Iterator[tuple[Job, Any]]]
    about: Callable[[Any], Iterable[str]]
    """The connectors that one is about."""
    row: Callable[[str, Any], Row]
    show: Callable[[Any], None]


_INTERVALS = _Kind(
    "intervals",
    INTERVALS,
    timelines,
    lambda seen: (seen.interval.connector,),
    of_interval,
    _show_intervals,
)
_DIGESTS = _Kind("digests", DIGESTS, digests, lambda _: (), of_digest, _show_digests)
