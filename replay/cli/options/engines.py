"""Engine options: this process, several processes, or Spark. Works without optional packages."""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from controlplane.terminal.log_options import not_empty
from controlplane.terminal.number_options import WholeNumber
from controlplane.terminal.option_names import Decorated
from replay.archive.stores.hadoop_settings import is_hadoops
from replay.engine.executors import Executor, process_executor
from replay.engine.spark.location import LOCAL, SparkLocation
from replay.progress import ProgressListener

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SparkConf = tuple[tuple[str, str], ...]

HERE, SPARK, AUTO = "local", "spark", "auto"


class EngineChoice(NamedTuple):
    """Engine that the user named, and Spark's settings for it."""

    engine: str
    master: str | None
    conf: SparkConf

    @property
    def where(self) -> SparkLocation:
        """Location of Spark: `--master`, by default this machine, and `--conf`."""
        return SparkLocation(self.master or LOCAL, dict(self.conf))

    @property
    def is_spark(self) -> bool:
        """True if Spark is selected independently of the work."""
        return self.engine == SPARK or (self.engine == AUTO and _of_spark(self.master, self.conf))

    @contextmanager
    def session(self, progress: ProgressListener) -> "Iterator[SparkSession | None]":
        """Yield a Spark session, or None if this process is to do the work."""
        with self.started(progress) if self.is_spark else nullcontext() as session:
            yield session

    @contextmanager
    def executor(
        self, jobs: int, progress: ProgressListener, ahead: int | None = None
    ) -> Iterator[Executor]:
        """Yield the executor: this process, more processes, or Spark tasks."""
        if not self.is_spark:
            yield process_executor(jobs, ahead)
            return
        with self.in_spark(progress) as executor:
            yield executor

    @contextmanager
    def in_spark(self, progress: ProgressListener) -> Iterator[Executor]:
        """Yield the executor of Spark's tasks."""
        from replay.engine.spark.executor import SparkExecutor  # noqa: PLC0415 - see `started`

        with self.started(progress) as session:
            yield SparkExecutor(session, progress)

    @contextmanager
    def started(self, progress: ProgressListener) -> "Iterator[SparkSession]":
        """Yield a Spark session; pyspark is imported on demand."""
        from replay.engine.spark.session import session  # noqa: PLC0415

        progress.begin("Spark starts", 1)
        with session(self.where) as started:
            yield started


class ExecutorChoice(NamedTuple):
    """Requested executor of work on many clusters."""

    choice: EngineChoice = EngineChoice(AUTO, None, ())
    jobs: int | None = None
    """Number of processes that work, and the most that plan. None: one works, and several plan."""

    @property
    def is_parallel(self) -> bool:
        """True if several processes of this machine are to work."""
        return self.jobs not in {None, 1}

    @property
    def named(self) -> tuple[str, str]:
        """Name of the engine, and its way of working."""
        if self.choice.is_spark:
            return SPARK, f"in tasks at {self.choice.where.master}"
        processes = f"{self.jobs} processes at most" if self.is_parallel else "this process"
        return HERE, f"in {processes}: no JVM is started"

    def by(
        self, progress: ProgressListener, ahead: int | None = None
    ) -> AbstractContextManager[Executor]:
        """Return a context manager with the executor for `--jobs` and the engine.

        `ahead` is that of `replay.engine.executors.ProcessExecutor`.
        """
        return self.choice.executor(self.jobs or 1, progress, ahead)


def executing_options(command: Decorated) -> Decorated:
    """Add `--jobs` and the engine options; the command gets `executing: ExecutorChoice`."""

    @functools.wraps(command)
    def with_executing(engine: EngineChoice, jobs: int | None, **arguments: Any) -> Any:
        if engine.is_spark and jobs is not None and jobs > 1:
            raise click.UsageError("--jobs sets processes of this machine: with Spark use --master")
        return command(executing=ExecutorChoice(engine, jobs), **arguments)

    return click.option(  # type: ignore[return-value]  # click changes the type
        "--jobs",
        type=WholeNumber(min=1),
        metavar="N",
        help="Number of worker processes, each with its own memory. If given, it also limits the "
        "processes that plan a large fleet. With 2 or more, `--engine auto` does not start Spark. "
        "[default: 1]",
    )(engine_options(with_executing))


def engine_options(command: Decorated) -> Decorated:
    """Add `--engine`, `--master` and `--conf`; the command gets `engine: EngineChoice`."""

    @functools.wraps(command)
    def with_engine(engine: str, master: str | None, conf: SparkConf, **arguments: Any) -> Any:
        if engine == HERE and _of_spark(master, conf):
            raise click.UsageError("--master and --conf are for Spark: give --engine spark, too")
        return command(engine=EngineChoice(engine, master, conf), **arguments)

    for option in reversed(_OPTIONS):
        with_engine = option(with_engine)
    return with_engine  # type: ignore[return-value]  # click changes the type


def _of_spark(master: str | None, conf: SparkConf) -> bool:
    """True if a setting concerns Spark itself; object stores also work without Spark."""
    return bool(master) or not all(is_hadoops(name) for name, _ in conf)


def _setting(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> Any:
    pairs = [text.partition("=") for text in texts]
    for (key, equals, _value), text in zip(pairs, texts, strict=True):
        if not (key and equals):
            raise click.BadParameter(f"{text!r} is not KEY=VALUE")
    return tuple((key, value) for key, _, value in pairs)


def _conf_option(about: str) -> Callable[[Decorated], Decorated]:
    """Add `--conf KEY=VALUE`, which may be repeated; the command gets `conf`."""
    return click.option(
        "--conf",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_setting,
        help=f"{about} (spark.hadoop.fs.s3a.…). May be repeated.",
    )


store_conf_option = _conf_option("Setting of the object store")
"""`--conf` of a command that never starts Spark."""

_OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice([AUTO, HERE, SPARK]),
        default=AUTO,
        help="Engine; auto selects Spark if --master or a setting of Spark is given. `state` and "
        "`diff` also select Spark for very large states of several clusters. [default: auto]",
    ),
    click.option(
        "--master",
        metavar="URL",
        callback=not_empty,
        help="Master of Spark. [default: local[*]]",
    ),
    _conf_option("Setting of Spark, or of the object store"),
)
