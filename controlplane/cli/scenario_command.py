"""The command `scenario run`: play scenario files, show differences, rewrite."""

import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from controlplane.core.text.safe_text import count, safe
from controlplane.scenario.folds import Folds, UnknownFold, with_registered
from controlplane.scenario.run import StepResult, difference, play_all, read, rewrite
from controlplane.scenario.scenario_file import BadScenario, Scenario
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.exit_codes import FOUND
from controlplane.terminal.output import note, print_json, say

SUFFIX = ".scenario"

SPARK = "spark"
"""Name of the Spark fold, which the package `replay` registers (`controlplane[spark]`)."""

ADVICE = (
    "if every change is wanted, run `controlplane scenario run --rewrite`, then read `git diff`"
)

_STYLES = {"-": "red", "+": "green"}
_INDENT = 4
"""Index of the mark (`-`, `+` or a space) in a line of a difference."""


class ScenarioResult(NamedTuple):
    """Steps of one scenario file, as written and as played."""

    path: Path
    scenario: Scenario
    played: Sequence[StepResult]

    @property
    def different(self) -> list[StepResult]:
        """Steps whose output differs from the file."""
        return [step for step in self.played if not step.as_written]


@click.group
def scenario() -> None:
    """Play scenarios: files with the steps of workers on a log, and the expected output."""


@scenario.command("run")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
@click.option("--rewrite", "rewriting", is_flag=True, help="Write the output into the files.")
@click.option(
    "--via",
    multiple=True,
    metavar="NAME",
    help="Compute each view with another fold, too, and print the differences. A fold computes a "
    "worker's state from a log. NAME: name under which an installed package registers the fold, "
    "for example spark. May be repeated.",
)
@click.option("--spark", is_flag=True, help="Compute each view with Spark, too, like --via spark.")
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
    """Play scenario files, or all files of a folder, and show where the output differs.

    Exit code 1: there are differences.
    """
    try:
        folds = with_registered((*via, *((SPARK,) if spark else ())))
        results = _run(list(_files(paths)), folds, rewriting=rewriting)
    except (BadScenario, _NotClean, UnknownFold) as error:
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
            files = sorted(path.rglob(f"*{SUFFIX}"))
            if not files:
                raise BadScenario(f"{path}: this folder has no *{SUFFIX} file: name another")
            yield from files
        else:
            yield path


def _run(files: Sequence[Path], folds: Folds, *, rewriting: bool) -> list[ScenarioResult]:
    """Play all files; with `rewriting`, files are written after all have been played."""
    if rewriting:
        _check_clean(files)
    scenarios = [(path, read(path)) for path in files]
    for path, parsed in scenarios:
        if not parsed.steps:
            raise BadScenario(f"{path}: the file has no step: begin with `cluster w1@3.9`")
    outputs = play_all([parsed for _, parsed in scenarios], folds)
    results = [
        ScenarioResult(path, parsed, played)
        for (path, parsed), played in zip(scenarios, outputs, strict=True)
    ]
    if rewriting:
        for result in results:
            if rewrite(*result):
                note(f"rewritten: {result.path}")
    return results


def _print(results: Sequence[ScenarioResult], *, rewriting: bool) -> None:
    different = [step for result in results for step in result.different]
    if different and not rewriting:
        for result in results:
            for step in result.different:
                _print_difference(result.scenario, step)
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


def _print_difference(parsed: Scenario, played: StepResult) -> None:
    head, *lines = difference(parsed, played)
    say(safe(head), style="bold")
    for line in lines:
        say(safe(line), style=_STYLES.get(line[_INDENT], ""))
    say()


def _document(result: ScenarioResult) -> dict[str, Any]:
    steps = [
        {
            "line": played.step.line,
            "step": played.step.text,
            "as_written": played.as_written,
            "folds_agree": played.agreed,
            "expected": played.step.expected,
            "printed": played.printed,
        }
        for played in result.played
    ]
    return {"file": result.scenario.name, "title": result.scenario.title, "steps": steps}


# --- git ------------------------------------------------------------------------------------------


class _NotClean(ValueError):
    """Rewriting would mix with changes that git has not seen. The message says what to do."""


def _check_clean(paths: Iterable[Path]) -> None:
    """Check that files are as git has them, committed or staged. Nothing is checked outside of git.

    Raises:
        _NotClean: a file is changed or new.
    """
    dirty = [path for path in paths if _dirty(Path(os.path.realpath(path)))]
    if dirty:
        suffix = f" and {len(dirty) - 1} more" if len(dirty) > 1 else ""
        raise _NotClean(
            f"{dirty[0]}{suffix}: changed and not yet in git: commit, or `git add`, first. "
            "Otherwise `git diff` could not show what rewriting changes"
        )


def _dirty(path: Path) -> bool:
    """True if the file differs from git's index, or is not in it."""
    answer = _git(path, "status", "--porcelain=v1", "--ignored", "--", path.name)
    return answer is not None and answer[1:2] not in ("", " ")


def _git(path: Path, *arguments: str) -> str | None:
    """Output of git in the folder of a file; None: no git, or no work tree."""
    try:
        answer = subprocess.run(  # noqa: S603 - a list, no shell; the path is one argument
            ["git", "--literal-pathspecs", *arguments],  # noqa: S607 - the user's git, wherever it is
            cwd=path.parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return answer.stdout if answer.returncode == 0 else None
