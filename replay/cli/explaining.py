"""`--explain`: what would be read and by whom. Nothing is read for it, and nothing started."""

from collections.abc import Sequence

import click

from replay.archive.cluster import Cluster
from replay.cli.asking import NONE
from replay.cli.engines import Executing
from replay.cli.printing import print_json, say, table
from replay.engine.explain import Explained, explained
from replay.engine.plan import Plan

explain_option = click.option(
    "--explain", "is_explained", is_flag=True, help="Tell what would be read, and read nothing."
)


def passed_over(cluster: Cluster, plan: Plan, tasks: int, executing: Executing) -> Explained:
    """What it comes to that every record of a plan is passed over, behind the one before."""
    return explained(cluster, plan, *executing.named, [1] * tasks)


def explain(plans: Sequence[Explained], output: str) -> None:
    """Tell of plans."""
    if output == "json":
        print_json([plan._asdict() for plan in plans])
        return
    heads = ("CLUSTER", "ENGINE", "SNAPSHOT", "FILES", "ROWS READ", "OF", "TASKS", "SHUFFLES")
    table(heads, [_cells(plan) for plan in plans])
    for plan in plans:
        kinds = ", ".join(f"{rows} of {kind}" for kind, rows in plan.rows_by_kind.items())
        say(f"{plan.cluster}: {plan.why}; rows {kinds or 'none'}")


def _cells(plan: Explained) -> tuple[str, ...]:
    numbers = (plan.files, plan.rows, plan.rows_archived, plan.tasks, plan.shuffles)
    return (plan.cluster, plan.backend, plan.snapshot or NONE, *map(str, numbers))
