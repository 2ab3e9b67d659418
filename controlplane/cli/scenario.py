"""`controlplane scenario run FILE…`: play scenario files and show what differs."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec

from controlplane.scenario.folds import Folds, UnknownFold, with_registered
from controlplane.scenario.parse import BadScenario, Scenario
from controlplane.scenario.run import Played, play, read, report, rewrite
from controlplane.scenario.worktree import NotClean, check_clean

DIFFERENT, BAD_INPUT = 1, 2
"""Exit codes beside 0."""

SUFFIX = ".scenario"

ADVICE = "if every change is wanted, `controlplane scenario run --rewrite`, then read `git diff`"


@click.group()
def scenario() -> None:
    """Play scenarios: small stories about a log and its readers (see scenarios/README.md)."""


@scenario.command("run")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
@click.option("--rewrite", "rewriting", is_flag=True, help="Write what is printed into the files.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@click.option(
    "--via", multiple=True, metavar="NAME", help="Also fold with this installed fold and compare."
)
def run_files(paths: Sequence[Path], rewriting: bool, output: str, via: Sequence[str]) -> None:
    """Play scenario files, or all below a folder, and show where they print something else.

    Exits with 0 if all print what they expect, 1 if not, 2 if a file is no scenario.
    """
    try:
        files = list(_files(paths))
        if rewriting:
            check_clean(files)
        folds = with_registered(via)
        results = [_play(path, folds) for path in files]
        if rewriting:
            _rewrite(files, results)
    except (BadScenario, NotClean, UnknownFold) as error:
        _fail(str(error))
    if output == "json":
        click.echo(msgspec.json.encode([_as_json(*result) for result in results]))
    else:
        _print(results, rewriting=rewriting)
    sys.exit(0 if rewriting or not _different(results) else DIFFERENT)


Result = tuple[Scenario, list[Played]]


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            found = sorted(path.rglob(f"*{SUFFIX}"))
            if not found:
                raise BadScenario(f"{path}: no *{SUFFIX} file in this folder")
            yield from found
        else:
            yield path


def _play(path: Path, folds: Folds) -> Result:
    parsed = read(path)
    return parsed, asyncio.run(play(parsed, folds))


def _rewrite(files: Sequence[Path], results: Sequence[Result]) -> None:
    for path, (parsed, played) in zip(files, results, strict=True):
        if rewrite(path, parsed, played):
            click.echo(f"rewritten: {path}", err=True)


def _different(results: Sequence[Result]) -> int:
    return sum(not one.as_written for _, played in results for one in played)


def _print(results: Sequence[Result], *, rewriting: bool) -> None:
    steps = sum(len(played) for _, played in results)
    different = _different(results)
    verdict = "rewritten" if rewriting else "differ"
    if different and not rewriting:
        for text in filter(None, (report(*result, advice="") for result in results)):
            click.echo(f"{text}\n")
        click.echo(ADVICE)
    count = f"{different} {verdict}" if different else "all as written"
    click.echo(
        f"{_counted(len(results), 'scenario')}, {_counted(steps, 'step')}: {count}", err=True
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _as_json(parsed: Scenario, played: Sequence[Played]) -> dict[str, Any]:
    steps = [
        {
            "line": one.step.line,
            "step": one.step.text,
            "as_written": one.as_written,
            "expected": one.step.expected,
            "printed": one.printed,
        }
        for one in played
    ]
    return {"file": parsed.name, "title": parsed.title, "steps": steps}


def _fail(reason: str) -> NoReturn:
    click.echo(f"controlplane: {reason}", err=True)
    sys.exit(BAD_INPUT)
