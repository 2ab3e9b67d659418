"""Who works out states: this process, or Spark, which is started only where it is worth it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from replay.cli.engines import AUTO, HERE, SPARK, Choice
from replay.cli.progress import bar
from replay.engine.asked import Asked, Engine, InProcess
from replay.engine.explain import Explained, explained
from replay.engine.slicing import slices

WORTH_IT = 200_000_000
"""Rows to be read from which on `auto` takes Spark: before, one host is done without it."""


def plans(choice: Choice, asked: Sequence[Asked]) -> list[Explained]:
    """What plans come to. Nothing is started for it."""
    name, why = _made(choice, asked)
    return [
        explained(one.local.cluster, one.plan, name, why, _slices(one, spark=name == SPARK))
        for one in asked
    ]


@contextmanager
def engine(choice: Choice, asked: Sequence[Asked]) -> Iterator[Engine]:
    """The engine for these questions, as long as it takes."""
    name, why = _made(choice, asked)
    if name == HERE:
        with bar() as progress:
            yield InProcess(progress)
        return
    if choice.engine == AUTO:
        click.echo(f"Spark works it out ({why})", err=True)
    from replay.engine.spark import Spark  # noqa: PLC0415 - see `Choice.started`

    with bar() as progress, choice.started(progress) as session:
        yield Spark(session, progress=progress)


def _made(choice: Choice, asked: Sequence[Asked]) -> tuple[str, str]:
    """The engine that it comes to, and why."""
    if choice.is_spark:
        return SPARK, f"one job at {choice.where.master}"
    rows = sum(part.rows for one in asked for part in one.plan.busy)
    if choice.engine == AUTO and rows >= WORTH_IT:
        return SPARK, f"one job at {choice.where.master}, for {rows:,} rows are to be read"
    return HERE, "in this process: no JVM is started"


def _slices(one: Asked, *, spark: bool) -> list[int]:
    """Into how many slices each busy part of a plan is cut."""
    cluster = one.local.cluster
    return [len(slices(cluster, part)) if spark else 1 for part in one.plan.busy]
