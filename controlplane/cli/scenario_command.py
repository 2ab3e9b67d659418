"""The commands `scenario run`: play scenario files, show what differs, rewrite."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from controlplane.core.text.safe_text import count, safe
from controlplane.scenario.folds import Folds, UnknownFold, with_registered
from controlplane.scenario.run import Played, difference, play_all, read, rewrite
from controlplane.scenario.scenario_file import BadScenario, Scenario
from controlplane.scenario.worktree import NotClean, check_clean
from controlplane.terminal.command_errors import FOUND, InputRefused
from controlplane.terminal.output import note, print_json, say

SUFFIX = ".scenario"

SPARK = "spark"
"""The fold that comes with replay (`controlplane[spark]`)."""

ADVICE = "if every change is wanted, `controlplane scenario run --rewrite`, then read `git diff`"

_STYLES = {"-": "red", "+": "green"}
_INDENT = 4


class ScenarioResult(NamedTuple):
    """Result of one scenario file."""

    path: Path
    scenario: Scenario
    played: Sequence[Played]

    @property
    def different(self) -> list[Played]:
        """The steps that print something else than is written."""
        return [one for one in self.played if not one.as_written]


@click.group
def scenario() -> None:
    """Play scenarios: small stories about a log and those who read it."""


@scenario.command("run")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
@click.option("--rewrite", "rewriting", is_flag=True, help="Write what is printed into the files.")
@click.option("--via", multiple=True, metavar="NAME", help="Compare with this installed fold, too.")
@click.option("--spark", is_flag=True, help="Compare with Spark's answers: --via spark.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Print the differences for people, or every step as JSON for machines.",
)
def run_files(
    paths: Sequence[Path], rewriting: bool, via: Sequence[str], spark: bool, output: str
) -> None:
    """Play scenario files, or all below a folder, and show where they print something else.

    Exit code 1: there are differences.
    """
    try:
        folds = with_registered((*via, *((SPARK,) if spark else ())))
        results = _run(list(_files(paths)), folds, rewriting=rewriting)
    except (BadScenario, NotClean, UnknownFold) as error:
        raise InputRefused(str(error)) from None
    if output == "json":
        print_json([_document(result) for result in results])
    else:
        _print(results, rewriting=rewriting)
    if not rewriting and any(result.different for result in results):
        raise SystemExit(FOUND)


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            found = sorted(path.rglob(f"*{SUFFIX}"))
            if not found:
                raise BadScenario(f"{path}: no *{SUFFIX} file in this folder")
            yield from found
        else:
            yield path


def _run(files: Sequence[Path], folds: Folds, *, rewriting: bool) -> list[ScenarioResult]:
    """Play all; nothing is written before everything has been played."""
    if rewriting:
        check_clean(files)
    scenarios = [(path, read(path)) for path in files]
    for path, one in scenarios:
        if not one.steps:
            raise BadScenario(f"{path}: no step in it, so nothing is shown: add `cluster w1@3.9`")
    everything = play_all([one for _, one in scenarios], folds)
    results = [
        ScenarioResult(path, one, played)
        for (path, one), played in zip(scenarios, everything, strict=True)
    ]
    if rewriting:
        for result in results:
            if rewrite(*result):
                note(f"rewritten: {result.path}")
    return results


def _print(results: Sequence[ScenarioResult], *, rewriting: bool) -> None:
    different = [one for result in results for one in result.different]
    if different and not rewriting:
        for result in results:
            for one in result.different:
                _print_difference(result.scenario, one)
        say(ADVICE)
    steps = count(sum(len(result.played) for result in results), "step")
    verdict = f"{len(different)} {_verb(len(different), rewriting=rewriting)}"
    say(
        f"{count(len(results), 'scenario')}, {steps}: {verdict if different else 'all as written'}",
        style="red" if different and not rewriting else "green",
    )


def _verb(different: int, *, rewriting: bool) -> str:
    if rewriting:
        return "rewritten"
    return "differs" if different == 1 else "differ"


def _print_difference(parsed: Scenario, played: Played) -> None:
    head, *lines = difference(parsed, played)
    say(safe(head), style="bold")
    for line in lines:
        say(safe(line), style=_STYLES.get(line[_INDENT], ""))
    say()


def _document(result: ScenarioResult) -> dict[str, Any]:
    steps = [
        {
            "line": one.step.line,
            "step": one.step.text,
            "as_written": one.as_written,
            "folds_agree": one.agreed,
            "expected": one.step.expected,
            "printed": one.printed,
        }
        for one in result.played
    ]
    return {"file": result.scenario.name, "title": result.scenario.title, "steps": steps}
