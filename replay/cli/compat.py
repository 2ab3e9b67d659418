"""`replay compat`: what a change of release would do to every connector, and what to do first."""

from collections import Counter
from collections.abc import Sequence

import click
import msgspec

from controlplane.core.safe_text import count
from replay.cli.fleet import Done, Job, Way, fleet_options, for_each, worst
from replay.cli.logs import Asked, Log, logs_argument
from replay.cli.printing import output_option, print_json, read_profile, say, table
from replay.compat import Mode, Roll, assess, documents, roll, steps_of
from replay.compat.steps import When
from replay.compat.told import VERDICTS, ToldConnector, ToldRoll, told
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
@logs_argument
@click.option("--from", "start", metavar="RELEASE", required=True, help="What the workers are.")
@click.option("--to", "goal", metavar="RELEASE", required=True, help="What they are to be.")
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    help="rolling: one worker after the other. [default: all are stopped in between]",
)
@click.option("--transitive", is_flag=True, help="By way of every release line in between.")
@output_option("junit", about="Tables for people; for machines JSON, or XML as JUnit writes it.")
@fleet_options
@click.pass_context
def compat(  # noqa: PLR0913, PLR0917 - click gives one argument per option
    ctx: click.Context,
    asked: tuple[Asked, ...],
    start: str,
    goal: str,
    mode: str | None,
    output: str,
    way: Way,
    *,
    transitive: bool,
) -> None:
    """What becomes of every connector when the workers change their release.

    Exit code 0: compatible; 1: needs preparation, as the plan says; 2: unsafe, or bad input.
    """
    whole = roll(read_profile(start), read_profile(goal), Mode(mode) if mode else None)
    look = _Look(tuple(steps_of(whole)) if transitive else (whole,))
    done = for_each(asked, Job("assessing", look, Told), way)
    rolls = [one for each in done.results.values() for one in each.rolls]
    if output == "json":
        print_json(documents.document(rolls) | done.document)
    elif output == "junit":
        click.echo(documents.junit(rolls, done.failed), nl=False)
    else:
        _print(done)
    ctx.exit(worst([done.code, documents.worst(rolls)]))


class Told(msgspec.Struct, frozen=True):
    """What becomes of one cluster, at each step of the way."""

    rolls: tuple[ToldRoll, ...]


class _Look(msgspec.Struct, frozen=True):
    """An assessment of one cluster, and everything that decides about it."""

    way: tuple[Roll, ...]

    def __call__(self, log: Log) -> Told:
        entries = list(log.entries())
        rolls = (
            assess(
                entries,
                one,
                topics=log.topics,
                cluster=log.cluster,
                exactly_once=log.exactly_once,
            )
            for one in self.way
        )
        return Told(tuple(told(one, log.topics) for one in rolls))


# --- printing -------------------------------------------------------------------------------


def _print(done: Done[Told]) -> None:
    for one in done.results.values():
        for step in one.rolls:
            _print_roll(step)
        if len(one.rolls) > 1:
            verdict = documents.worst(one.rolls)
            say(f"all of the way: {verdict.words}", style=_STYLES[verdict])
    if len(done.results) > 1:
        _print_fleet(done)


def _print_fleet(done: Done[Told]) -> None:
    """A row for each cluster, and how many there are of each verdict."""
    verdicts = {name: documents.worst(one.rolls) for name, one in done.results.items()}
    heads = ("CLUSTER", "VERDICT", *(word.upper() for word in VERDICTS), "STEPS")
    rows = (
        (name, verdicts[name].words, *_numbers(one.rolls)) for name, one in done.results.items()
    )
    table(heads, rows)
    say()
    numbers = Counter(verdicts.values())
    told = (f"{numbers[one]} {one.words}" for one in sorted(numbers, reverse=True))
    say(f"{count(len(verdicts), 'cluster')}: {', '.join(told)}")


def _numbers(rolls: Sequence[ToldRoll]) -> tuple[str, ...]:
    """Of one cluster, how many connectors have each verdict, and how much is to be done."""
    worst_of: dict[str, int] = {}
    for connector in (connector for one in rolls for connector in one.connectors):
        name, verdict = connector.connector, VERDICTS[connector.verdict]
        if name is not None:
            worst_of[name] = max(verdict, worst_of.get(name, verdict))
    numbers = Counter(worst_of.values())
    return (
        *(str(numbers[one]) for one in VERDICTS.values()),
        str(sum(len(one.plan) for one in rolls)),
    )


def _print_roll(step: ToldRoll) -> None:
    say(f"{step.cluster}: {step}: {step.verdict}", style=_STYLES[VERDICTS[step.verdict]])
    named = [one for one in step.connectors if one.connector is not None]
    if named:
        heads = ("CONNECTOR", "VERDICT", f"AS {step.start}", f"AS {step.goal}")
        table(
            heads, ((called(one.connector), one.verdict, *map(_brief, one.views)) for one in named)
        )
    for one in step.connectors:
        _print_reasons(one)
    for remark in step.remarks:
        say(remark)
    _print_plan(step)
    say()


def _brief(view: View) -> str:
    """A connector in one cell."""
    if not view.configured:
        return "-"
    tasks = "? tasks" if view.tasks is None else count(view.tasks, "task")
    reports = f", then {view.will_report}" if view.will_report != view.reported else ""
    flaw = ", inconsistent" if view.inconsistent else ""
    return f"{view.target or 'runs'}, {tasks}{flaw}; shown {view.reported or 'nothing'}{reports}"


def _print_reasons(one: ToldConnector) -> None:
    lines = one.reasons
    if not lines:
        return
    say(called(one.connector), style="bold")
    for line in lines:
        say(f"  {line}")
    for written in one.writes:
        older, newer = written.views
        say(
            f"  asked to {written.request} it, {older.release} writes "
            f"{', '.join(written.records)}: "
            f"{older.target} for {older.release}, {newer.target} for {newer.release}"
        )


def _print_plan(step: ToldRoll) -> None:
    for when, heading in _STEPS.items():
        steps = [one for one in step.plan if one.when == when.value]
        if steps:
            say(heading, style="bold")
        for one in steps:
            say(f"  {one.command}")
            say(f"    # {one.why}")
