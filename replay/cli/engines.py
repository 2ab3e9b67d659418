"""Who works: this process, several, or Spark. Nothing here needs what archives or Spark need."""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from replay.archive.hadoop import is_hadoops
from replay.engine.executors import Executor, InTurn, Processes
from replay.engine.where import LOCAL, Where
from replay.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Command = TypeVar("Command", bound=Callable[..., Any])

Conf = tuple[tuple[str, str], ...]

HERE, SPARK, AUTO = "local", "spark", "auto"


class Choice(NamedTuple):
    """Which engine was asked for."""

    engine: str
    master: str | None
    conf: Conf

    @property
    def where(self) -> Where:
        """Where Spark runs."""
        return Where(self.master or LOCAL, dict(self.conf))

    @property
    def is_spark(self) -> bool:
        """Whether it is Spark, whatever is to be done."""
        return self.engine == SPARK or (self.engine == AUTO and _of_spark(self.master, self.conf))

    @contextmanager
    def executor(self, jobs: int, progress: Progress) -> Iterator[Executor]:
        """Who carries out work that is no state: this process, so many more, or Spark's tasks."""
        if not self.is_spark:
            yield InTurn() if jobs == 1 else Processes(jobs)
            return
        from replay.engine.tasked import SparkTasks  # noqa: PLC0415 - see `started`

        with self.started(progress) as session:
            yield SparkTasks(session, progress)

    @contextmanager
    def started(self, progress: Progress) -> "Iterator[SparkSession]":
        """A session of Spark's. Who has not asked for one need not have installed it."""
        from replay.engine.session import session  # noqa: PLC0415

        progress.begin("Spark starts", 1)
        with session(self.where) as started:
            yield started


class Executing(NamedTuple):
    """Who carries out work on many clusters."""

    choice: Choice = Choice(AUTO, None, ())
    jobs: int = 1

    @property
    def named(self) -> tuple[str, str]:
        """The engine that it comes to, and how it goes about it."""
        if self.choice.is_spark:
            return SPARK, f"by tasks at {self.choice.where.master}"
        here = "this process" if self.jobs == 1 else f"{self.jobs} processes"
        return HERE, f"in {here}: no JVM is started"

    def by(self, progress: Progress) -> AbstractContextManager[Executor]:
        """Whoever it is, as long as it takes."""
        return self.choice.executor(self.jobs, progress)


def executing_options(command: Command) -> Command:
    """Add `--jobs` and the options of engines; the command gets `executing: Executing`."""

    @functools.wraps(command)
    def with_executing(engine: Choice, jobs: int, **arguments: Any) -> Any:
        if engine.is_spark and jobs > 1:
            raise click.UsageError("--jobs are processes of this machine: Spark has --master")
        return command(executing=Executing(engine, jobs), **arguments)

    return click.option(  # type: ignore[return-value]  # click changes the type
        "--jobs",
        type=click.IntRange(min=1),
        default=1,
        metavar="N",
        help="So much at a time, each in a process and with memory of its own. [default: 1]",
    )(engine_options(with_executing))


def engine_options(command: Command) -> Command:
    """Add `--engine`, `--master` and `--conf`; the command gets `engine: Choice`."""

    @functools.wraps(command)
    def with_engine(engine: str, master: str | None, conf: Conf, **arguments: Any) -> Any:
        if engine == HERE and _of_spark(master, conf):
            raise click.UsageError("--master and --conf are for Spark: give --engine spark, too")
        return command(engine=Choice(engine, master, conf), **arguments)

    for option in reversed(_OPTIONS):
        with_engine = option(with_engine)
    return with_engine  # type: ignore[return-value]  # click changes the type


def _of_spark(master: str | None, conf: Conf) -> bool:
    """Whether anything is told of Spark itself: object stores are for who starts none, too."""
    return bool(master) or not all(is_hadoops(name) for name, _ in conf)


def _setting(_: click.Context, __: click.Parameter, told: tuple[str, ...]) -> Any:
    """`key=value` in two."""
    pairs = [one.partition("=") for one in told]
    for (key, equals, _value), one in zip(pairs, told, strict=True):
        if not (key and equals):
            raise click.BadParameter(f"{one!r} is not KEY=VALUE")
    return tuple((key, value) for key, _, value in pairs)


conf_option = click.option(
    "--conf",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_setting,
    help="A setting of Spark's, or (spark.hadoop.fs.s3a.…) of where archives lie; repeat.",
)

_OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice([AUTO, HERE, SPARK]),
        default=AUTO,
        help="Who works it out; auto: Spark only for what is very large. [default: auto]",
    ),
    click.option("--master", metavar="URL", help="Where Spark runs. [default: local[*]]"),
    conf_option,
)
