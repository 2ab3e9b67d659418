"""Choice of the engine for states: this process, several, or Spark for very large work."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from controlplane.terminal.output import note
from replay.cli.options.engines import AUTO, HERE, SPARK, EngineChoice, ExecutorChoice
from replay.engine.executors import ItemWork
from replay.engine.plans.plan_summary import PlanSummary, explained
from replay.engine.query import StateQuery
from replay.progress import ProgressListener

R = TypeVar("R")

WORTH_IT = 200_000_000
"""Number of rows at which `auto` selects Spark for several clusters. Below that, one process
finishes earlier."""


def plans(executing: ExecutorChoice, queries: Sequence[StateQuery]) -> list[PlanSummary]:
    """Summaries of plans; nothing is started."""
    name, why = executing.named if executing.is_parallel else _chosen(executing.choice, queries)
    return [
        explained(query.local.cluster, query.plan, name, why, _tasks(query, spark=name == SPARK))
        for query in queries
    ]


def answers_of_tasks(
    executing: ExecutorChoice,
    queries: Sequence[StateQuery],
    work: "ItemWork[str, R]",
    clusters: Callable[[], Sequence[str]],
    progress: ProgressListener,
) -> Iterator[Iterable[R]] | None:
    """Run the work on each cluster in Spark's tasks or several processes; None: neither is chosen.

    An automatic choice of Spark is announced.
    """
    if executing.is_parallel or _is_spark(executing.choice, queries):
        return _run(executing, work, clusters(), progress)
    return None


def _is_spark(choice: EngineChoice, queries: Sequence[StateQuery]) -> bool:
    name, why = _chosen(choice, queries)
    if name == SPARK and choice.engine == AUTO and not choice.is_spark:
        note(f"using Spark ({why})")
    return name == SPARK


def _run(
    executing: ExecutorChoice,
    work: "ItemWork[str, R]",
    clusters: Sequence[str],
    progress: ProgressListener,
) -> Iterator[Iterable[R]]:
    if not executing.is_parallel:
        with executing.choice.in_spark(progress) as executor:
            yield from executor.run(work, clusters)
        return
    progress.begin("folding", len(clusters))
    # An answer may be a whole state, so each process works on one, and none waits besides.
    with executing.by(progress, ahead=1) as executor:
        for results in executor.run(work, clusters):
            yield results
            progress.advance(1)


def _chosen(choice: EngineChoice, queries: Sequence[StateQuery]) -> tuple[str, str]:
    """Name of the chosen engine, and the reason in words."""
    if choice.is_spark:
        return SPARK, f"in tasks at {choice.where.master}"
    rows = sum(part.rows for query in queries for part in query.plan.busy)
    if choice.engine == AUTO and rows >= WORTH_IT and len(queries) > 1:
        at = choice.where.master
        return SPARK, f"in tasks at {at}, because {rows:,} rows must be read"
    return HERE, "in this process: no JVM is started"


def _tasks(query: StateQuery, *, spark: bool) -> list[int]:
    """Argument `slices` of `explained`: a 1 for each unit of work, which stands for "not sliced".

    In Spark the only unit is the whole cluster. In this process each partition with rows is a unit.
    With `--folder`, Spark divides the offsets of a very large cluster into slices
    (`fleet.spark.bucketed_states`). The summary does not show that.
    """
    return [1] if spark else [1 for _ in query.plan.busy]
