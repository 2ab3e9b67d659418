"""Output of `--explain`: the rows to read and the engine; nothing is read or started."""

from collections.abc import Sequence

import click

from controlplane.terminal.output import print_json, say
from controlplane.terminal.tables import table
from replay.archive.archived_cluster import ArchivedCluster
from replay.cli.options.archives import NONE
from replay.cli.options.engines import ExecutorChoice
from replay.engine.plans.plan_summary import PlanSummary, explained
from replay.engine.plans.read_plan import ReadPlan

explain_option = click.option(
    "--explain", "is_explained", is_flag=True, help="Print the read plan, and read nothing."
)


def ordered_plan_summary(
    cluster: ArchivedCluster, plan: ReadPlan, tasks: int, executing: ExecutorChoice
) -> PlanSummary:
    """Summary of a plan whose records are read in order, without reduction."""
    return explained(cluster, plan, *executing.named, [1] * tasks)


def explain(plans: Sequence[PlanSummary], output: str) -> None:
    """Print summaries of plans: a table, or JSON if `output` is `json`."""
    if output == "json":
        print_json([plan._asdict() for plan in plans])
        return
    heads = ("CLUSTER", "ENGINE", "SNAPSHOT", "FILES", "ROWS READ", "OF", "TASKS", "SHUFFLES")
    table(heads, [_cells(plan) for plan in plans])
    for plan in plans:
        kinds = ", ".join(f"{rows} of {kind}" for kind, rows in plan.rows_by_kind.items())
        say(f"{plan.cluster}: {plan.why}; rows {kinds or 'none'}")


def _cells(plan: PlanSummary) -> tuple[str, ...]:
    numbers = (plan.files, plan.rows, plan.rows_archived, plan.tasks, plan.shuffles)
    return (plan.cluster, plan.backend, plan.snapshot or NONE, *map(str, numbers))
