"""`replay compat`: effects of a release change on every connector, and the preparation."""

from collections import Counter
from collections.abc import Sequence

import click

from controlplane.core.text.safe_text import count
from controlplane.terminal.command_errors import write
from controlplane.terminal.log_options import read_profile
from controlplane.terminal.output import print_json, say
from controlplane.terminal.tables import table
from replay.cli.execution.cluster_jobs import (
    ClusterJob,
    ClusterResults,
    JobOptions,
    fleet_options,
    run_for_each_cluster,
    worst,
)
from replay.cli.inputs.log_input import LogInput
from replay.cli.options.formats import output_option
from replay.cli.options.logs import logs_argument
from replay.compat import RolloutMode, check_predictable, report_formats, roll, steps_of
from replay.compat.assessment_report import VERDICTS, ReportedAssessment, ReportedConnector
from replay.compat.compat_task import CompatOutcome, CompatTask
from replay.compat.preparation import StepTime
from replay.compat.worker_views import ReleaseView
from replay.findings import called
from replay.releases import check_single

_STYLES = ("green", "yellow", "red")
"""Colour of each verdict."""

_STEPS = {
    StepTime.BEFORE: "Before the first worker is changed:",
    StepTime.DURING: "For each worker:",
    StepTime.AFTER: "When all workers are changed:",
}


@click.command()
@logs_argument
@click.option(
    "--from", "start", metavar="RELEASE", required=True, help="Present release of the workers."
)
@click.option(
    "--to", "goal", metavar="RELEASE", required=True, help="Future release of the workers."
)
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in RolloutMode]),
    help="rolling: replace workers one by one; upgrade, downgrade: all stop, then all start. "
    "[default: upgrade or downgrade, as --from and --to say]",
)
@click.option("--transitive", is_flag=True, help="Change through every release line in between.")
@output_option("junit", about="Print tables, JSON, or JUnit XML.")
@fleet_options
@click.pass_context
def compat(  # noqa: PLR0913, PLR0917 - click gives one argument per option
    ctx: click.Context,
    inputs: tuple[LogInput, ...],
    start: str,
    goal: str,
    mode: str | None,
    output: str,
    options: JobOptions,
    *,
    transitive: bool,
) -> None:
    """Predict the effects of a release change on every connector, and plan the preparation.

    Exit code 0: compatible; 1: needs preparation, see the plan; 2: unsafe, or bad input, or a
    cluster is unreadable.
    """
    check_single(start, goal)
    check_predictable(start, goal)
    whole = roll(read_profile(start), read_profile(goal), RolloutMode(mode) if mode else None)
    task = CompatTask(tuple(steps_of(whole)) if transitive else (whole,))
    cluster_results = run_for_each_cluster(
        inputs, ClusterJob("assessing", task, CompatOutcome), options
    )
    rolls = [step for each in cluster_results.results.values() for step in each.rolls]
    if output == "json":
        print_json(report_formats.document(rolls) | cluster_results.document)
    elif output == "junit":
        write(report_formats.junit(rolls, cluster_results.failed))
    else:
        _print(cluster_results)
    ctx.exit(worst([cluster_results.code, report_formats.worst(rolls)]))


# --- printing -------------------------------------------------------------------------------


def _print(cluster_results: ClusterResults[CompatOutcome]) -> None:
    for outcome in cluster_results.results.values():
        for step in outcome.rolls:
            _print_roll(step)
        if len(outcome.rolls) > 1:
            verdict = report_formats.worst(outcome.rolls)
            say(f"all steps: {verdict.words}", style=_STYLES[verdict])
    if len(cluster_results.results) > 1:
        _print_fleet(cluster_results)


def _print_fleet(cluster_results: ClusterResults[CompatOutcome]) -> None:
    """Print a row per cluster, and the number of clusters per verdict."""
    verdicts = {
        name: report_formats.worst(outcome.rolls)
        for name, outcome in cluster_results.results.items()
    }
    heads = ("CLUSTER", "VERDICT", *(word.upper() for word in VERDICTS), "STEPS")
    rows = (
        (name, verdicts[name].words, *_numbers(outcome.rolls))
        for name, outcome in cluster_results.results.items()
    )
    table(heads, rows)
    say()
    numbers = Counter(verdicts.values())
    parts = (f"{numbers[verdict]} {verdict.words}" for verdict in sorted(numbers, reverse=True))
    say(f"{count(len(verdicts), 'cluster')}: {', '.join(parts)}")


def _numbers(rolls: Sequence[ReportedAssessment]) -> tuple[str, ...]:
    """Number of connectors per verdict, and of steps, for one cluster."""
    worst_of: dict[str, int] = {}
    for connector in (connector for step in rolls for connector in step.connectors):
        name, verdict = connector.connector, VERDICTS[connector.verdict]
        if name is not None:
            worst_of[name] = max(verdict, worst_of.get(name, verdict))
    numbers = Counter(worst_of.values())
    return (
        *(str(numbers[level]) for level in VERDICTS.values()),
        str(sum(len(step.plan) for step in rolls)),
    )


def _print_roll(step: ReportedAssessment) -> None:
    say(f"{step.cluster}: {step}: {step.verdict}", style=_STYLES[VERDICTS[step.verdict]])
    named = [connector for connector in step.connectors if connector.connector is not None]
    if named:
        heads = ("CONNECTOR", "VERDICT", f"AS {step.start}", f"AS {step.goal}")
        table(
            heads,
            (
                (called(connector.connector), connector.verdict, *map(_brief, connector.views))
                for connector in named
            ),
        )
    for connector in step.connectors:
        _print_reasons(connector)
    for remark in step.remarks:
        say(remark)
    _print_plan(step)
    say()


def _brief(view: ReleaseView) -> str:
    """View of a connector as one cell."""
    if not view.configured:
        return "-"
    tasks = "? tasks" if view.tasks is None else count(view.tasks, "task")
    reports = f", then {view.will_report}" if view.will_report != view.reported else ""
    flaw = ", inconsistent" if view.inconsistent else ""
    return f"{view.target or 'runs'}, {tasks}{flaw}; shown {view.reported or 'nothing'}{reports}"


def _print_reasons(connector: ReportedConnector) -> None:
    lines = connector.reasons
    if not lines:
        return
    say(called(connector.connector), style="bold")
    for line in lines:
        say(f"  {line}")
    for written in connector.writes:
        older, newer = written.views
        say(
            f"  a {written.request} by {older.release} writes {', '.join(written.records)}: "
            f"{older.target} for {older.release}, {newer.target} for {newer.release}"
        )


def _print_plan(step: ReportedAssessment) -> None:
    for when, heading in _STEPS.items():
        steps = [preparation for preparation in step.plan if preparation.when == when.value]
        if steps:
            say(heading, style="bold")
        for preparation in steps:
            say(f"  {preparation.command}")
            say(f"    # {preparation.why}")
