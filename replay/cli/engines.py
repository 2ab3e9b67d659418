"""Who works out an answer: this process, or Spark, which is started only where it is worth it."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import click

from replay.cli.progress import bar
from replay.engine.asked import Asked, Engine, InProcess
from replay.engine.explain import Explained, explained
from replay.engine.slicing import slices
from replay.engine.where import LOCAL, Where

Command = TypeVar("Command", bound=Callable[..., Any])

HERE, SPARK, AUTO = "local", "spark", "auto"

WORTH_IT = 200_000_000
"""Rows to be read from which on `auto` takes Spark: before, one host is done without it."""


class Choice(NamedTuple):
    """Which engine was asked for."""

    engine: str
    master: str | None
    conf: tuple[tuple[str, str], ...]

    @property
    def where(self) -> Where:
        """Where Spark runs."""
        return Where(self.master or LOCAL, dict(self.conf))

    @property
    def is_spark(self) -> bool:
        """Whether it is Spark, whatever is to be done."""
        return self.engine == SPARK or (self.engine == AUTO and bool(self.master or self.conf))

    def explained(self, asked: Sequence[Asked]) -> list[Explained]:
        """What plans come to. Nothing is started for it."""
        name, why = self._made(asked)
        return [
            explained(one.local.cluster, one.plan, name, why, _slices(one, spark=name == SPARK))
            for one in asked
        ]

    @contextmanager
    def opened(self, asked: Sequence[Asked]) -> Iterator[Engine]:
        """The engine for these questions, as long as it takes."""
        name, why = self._made(asked)
        if name == HERE:
            yield InProcess()
            return
        if self.engine == AUTO:
            click.echo(f"Spark works it out ({why})", err=True)
        from replay.engine.session import session  # noqa: PLC0415 - who has not asked for it
        from replay.engine.spark import Spark  # noqa: PLC0415   need not have installed it

        with bar() as progress:
            progress.begin("Spark starts", 1)
            with session(self.where) as started:
                yield Spark(started, progress=progress)

    def _made(self, asked: Sequence[Asked]) -> tuple[str, str]:
        """The engine that it comes to, and why."""
        if self.is_spark:
            return SPARK, f"one job at {self.where.master}"
        rows = sum(part.rows for one in asked for part in one.plan.busy)
        if self.engine == AUTO and rows >= WORTH_IT:
            return SPARK, f"one job at {self.where.master}, for {rows:,} rows are to be read"
        return HERE, "in this process: no JVM is started"


def _slices(one: Asked, *, spark: bool) -> list[int]:
    """Into how many slices each busy part of a plan is cut."""
    cluster = one.local.cluster
    return [len(slices(cluster, part)) if spark else 1 for part in one.plan.busy]


def engine_options(command: Command) -> Command:
    """Add `--engine`, `--master` and `--conf`; the command gets `engine: Choice`."""

    @functools.wraps(command)
    def with_engine(
        engine: str, master: str | None, conf: tuple[tuple[str, str], ...], **arguments: Any
    ) -> Any:
        if engine == HERE and (master or conf):
            raise click.UsageError("--master and --conf are for Spark: give --engine spark, too")
        return command(engine=Choice(engine, master, conf), **arguments)

    for option in reversed(_OPTIONS):
        with_engine = option(with_engine)
    return with_engine  # type: ignore[return-value]  # click changes the type


def _setting(_: click.Context, __: click.Parameter, told: tuple[str, ...]) -> Any:
    """`key=value` in two."""
    pairs = [one.partition("=") for one in told]
    for (key, equals, _value), one in zip(pairs, told, strict=True):
        if not (key and equals):
            raise click.BadParameter(f"{one!r} is not KEY=VALUE")
    return tuple((key, value) for key, _, value in pairs)


_OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice([AUTO, HERE, SPARK]),
        default=AUTO,
        help="Who works it out; auto: Spark only for what is very large. [default: auto]",
    ),
    click.option("--master", metavar="URL", help="Where Spark runs. [default: local[*]]"),
    click.option(
        "--conf",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_setting,
        help="A setting of Spark's; repeat.",
    ),
)
