"""Choice of the engine for states: this process, or Spark for very large work."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from replay.cli.options.engines import AUTO, HERE, SPARK, EngineChoice
from replay.cli.output.progress_bar import bar
from replay.engine.plan_summary import PlanSummary, explained
from replay.engine.query import InProcessEngine, StateEngine, StateQuery
from replay.engine.slices import slices

WORTH_IT = 200_000_000
"""Rows from which `auto` selects Spark; below, one process finishes earlier."""


def plans(choice: EngineChoice, queries: Sequence[StateQuery]) -> list[PlanSummary]:
    """Summaries of plans; nothing is started."""
    name, why = _made(choice, queries)
    return [
        explained(query.local.cluster, query.plan, name, why, _slices(query, spark=name == SPARK))
        for query in queries
    ]


@contextmanager
def engine(choice: EngineChoice, queries: Sequence[StateQuery]) -> Iterator[StateEngine]:
    """Yield the engine for these queries."""
    name, why = _made(choice, queries)
    if name == HERE:
        with bar() as progress:
            yield InProcessEngine(progress)
        return
    if choice.engine == AUTO:
        click.echo(f"using Spark ({why})", err=True)
    from replay.engine.spark.engine import SparkEngine  # noqa: PLC0415 - see `EngineChoice.started`

    with bar() as progress, choice.started(progress) as session:
        yield SparkEngine(session, progress=progress)


def _made(choice: EngineChoice, queries: Sequence[StateQuery]) -> tuple[str, str]:
    """Selected engine, with the reason."""
    if choice.is_spark:
        return SPARK, f"one job at {choice.where.master}"
    rows = sum(part.rows for query in queries for part in query.plan.busy)
    if choice.engine == AUTO and rows >= WORTH_IT:
        return SPARK, f"one job at {choice.where.master}, because {rows:,} rows must be read"
    return HERE, "in this process: no JVM is started"


def _slices(query: StateQuery, *, spark: bool) -> list[int]:
    """Number of slices of each busy part of a plan."""
    cluster = query.local.cluster
    return [len(slices(cluster, part)) if spark else 1 for part in query.plan.busy]
