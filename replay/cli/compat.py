"""`replay compat`: what a change of release would do to every connector, and what to do first."""

from collections.abc import Sequence

import click

from controlplane.core.safe_text import count
from controlplane.core.state import Topics
from replay.cli.logs import Asked, log_argument, read_entries
from replay.cli.printing import output_option, print_json, read_profile, say, table
from replay.compat import Assessed, Assessment, Mode, assess, roll, steps_of
from replay.compat.documents import document, junit, reasons, record_text, worst
from replay.compat.steps import When
from replay.compat.views import View
from replay.findings import called

_STYLES = ("green", "yellow", "red")
"""By verdict."""

_STEPS = {
    When.BEFORE: "Before the first worker is changed:",
    When.DURING: "With each worker:",
    When.AFTER: "When all workers are changed:",
}


@click.command()
@log_argument
@click.option("--from", "start", metavar="RELEASE", required=True, help="What the workers are.")
@click.option("--to", "goal", metavar="RELEASE", required=True, help="What they are to be.")
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    help="rolling: one worker after the other. [default: all are stopped in between]",
)
@click.option("--transitive", is_flag=True, help="By way of every release line in between.")
@output_option("junit", about="Tables for people; for machines JSON, or XML as JUnit writes it.")
@click.pass_context
def compat(  # noqa: PLR0913, PLR0917 - click gives one argument per option
    ctx: click.Context,
    asked: Asked,
    start: str,
    goal: str,
    mode: str | None,
    output: str,
    *,
    transitive: bool,
) -> None:
    """What becomes of every connector when the workers change their release.

    Exit code 0: compatible; 1: needs preparation, as the plan says; 2: unsafe.
    """
    whole = roll(read_profile(start), read_profile(goal), Mode(mode) if mode else None)
    entries = read_entries(asked)
    assessments = [
        assess(
            entries,
            one,
            topics=asked.topics,
            cluster=asked.cluster,
            exactly_once=asked.exactly_once,
        )
        for one in (steps_of(whole) if transitive else [whole])
    ]
    if output == "json":
        print_json(document(assessments, asked.topics))
    elif output == "junit":
        click.echo(junit(assessments, asked.topics), nl=False)
    else:
        _print(assessments, asked.topics)
    ctx.exit(worst(assessments))


def _print(assessments: Sequence[Assessment], topics: Topics) -> None:
    for one in assessments:
        _print_roll(one, topics)
    if len(assessments) > 1:
        verdict = worst(assessments)
        say(f"all of the way: {verdict.words}", style=_STYLES[verdict])


def _print_roll(assessment: Assessment, topics: Topics) -> None:
    verdict, roll_ = assessment.verdict, assessment.roll
    say(f"{assessment.cluster}: {roll_}: {verdict.words}", style=_STYLES[verdict])
    named = [one for one in assessment.assessed if one.connector is not None]
    if named:
        heads = ("CONNECTOR", "VERDICT", f"AS {roll_.start.release}", f"AS {roll_.goal.release}")
        cells = (
            (called(one.connector), one.verdict.words, *map(_brief, one.views)) for one in named
        )
        table(heads, cells)
    for one in assessment.assessed:
        _print_reasons(one, topics)
    for remark in assessment.remarks:
        say(remark)
    _print_plan(assessment)
    say()


def _brief(view: View) -> str:
    """A connector in one cell."""
    if not view.configured:
        return "-"
    tasks = "? tasks" if view.tasks is None else count(view.tasks, "task")
    reports = f", then {view.will_report}" if view.will_report != view.reported else ""
    flaw = ", inconsistent" if view.inconsistent else ""
    return f"{view.target or 'runs'}, {tasks}{flaw}; shown {view.reported or 'nothing'}{reports}"


def _print_reasons(one: Assessed, topics: Topics) -> None:
    lines = reasons(one, topics)
    if not lines:
        return
    say(called(one.connector), style="bold")
    for line in lines:
        say(f"  {line}")
    for written in one.writes:
        older, newer = written.older, written.newer
        records = ", ".join(record_text(draft.key, draft.value) for draft in written.records)
        say(
            f"  asked to {written.request} it, {older.release} writes {records}: "
            f"{older.target} for {older.release}, {newer.target} for {newer.release}"
        )


def _print_plan(assessment: Assessment) -> None:
    plan = assessment.plan
    for when, heading in _STEPS.items():
        steps = [one for one in plan if one.when is when]
        if steps:
            say(heading, style="bold")
        for step in steps:
            say(f"  {step.command}")
            say(f"    # {step.why}")
