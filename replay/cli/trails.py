"""Audit streams that were named on the command line: who asked for what."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from controlplane.core.file_sentences import unreadable
from controlplane.core.safe_text import count
from controlplane.shell_completion import complete_files
from replay.audit.trail.lines import Read, read_trail
from replay.audit.trail.trail import Request
from replay.cli.logs import Asked
from replay.errors import ReplayError

Command = TypeVar("Command", bound=Callable[..., Any])

PROBLEMS_SHOWN = 5
"""Lines of an audit stream that cannot be read and are named; the others are counted."""


class BadTrail(ReplayError):
    """A file that is no audit stream. The message says why."""


def trail_option(command: Command) -> Command:
    """Add `--trail [NAME=]FILE`; the command gets `trails`."""
    return click.option(
        "--trail",
        "trails",
        metavar="[NAME=]FILE",
        shell_complete=complete_files,
        multiple=True,
        help="Who asked for what, in one cluster or in all: log lines of `controlplane serve`, "
        "JSON lines, CloudEvents, or an access log (common, combined).",
    )(command)


def requests_by_cluster(asked: Sequence[Asked], told: Sequence[str]) -> dict[str, list[Request]]:
    """What is told of each cluster: `NAME=FILE` of one, `FILE` of all.

    Raises:
        BadTrail: a file cannot be read, or is none; or there is no such cluster.
    """
    requests: dict[str, list[Request]] = {one.cluster: [] for one in asked}
    for text in told:
        name, equals, path = text.partition("=")
        one_cluster = bool(equals) and name in requests
        if equals and not one_cluster and not Path(text).exists():
            there = ", ".join(requests)
            raise BadTrail(f"--trail {text}: no cluster {name} is asked about (found: {there})")
        for found in _requests(Path(path if one_cluster else text)):
            for cluster in [name] if one_cluster else requests:
                requests[cluster].append(found)
    return requests


def _requests(path: Path) -> list[Request]:
    """The requests of an audit stream; standard error gets what else is in it."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            read = read_trail(lines)
    except OSError as error:
        raise BadTrail(unreadable(path, error)) from None
    if not read.lines:
        raise BadTrail(f"{path} is empty: name the file that has the requests in it")
    if len(read.problems) == read.lines:
        raise BadTrail(f"{path} is no audit stream: {read.problems[0]}")
    for problem in read.problems[:PROBLEMS_SHOWN]:
        click.echo(f"{path}: {problem}", err=True)
    more = len(read.problems) - PROBLEMS_SHOWN
    if more > 0:
        click.echo(f"{path}: … and {more} more lines", err=True)
    click.echo(f"{path}: {_counts(read)}", err=True)
    return read.requests


def _counts(read: Read) -> str:
    """How many lines were read, and what they are."""
    asked = count(len(read.requests), "request")
    return (
        f"{count(read.lines, 'line')} read, {asked} that may have written something, "
        f"{count(len(read.problems), 'line')} not of an audit stream"
    )
