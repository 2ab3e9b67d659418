"""Audit streams that were named on the command line: who asked for what."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from controlplane.shell_completion import complete_files
from replay.audit.trail.lines import read_trail
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
        help="Who asked for what: JSON lines, CloudEvents, or an access log (common, combined); of "
        "one cluster, or of all.",
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
    """The requests of an audit stream; lines that are none are told of."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            read = read_trail(lines)
    except OSError as error:
        raise BadTrail(f"{path} cannot be read ({error.strerror}): check the path") from None
    if read.problems and len(read.problems) == read.lines:
        raise BadTrail(f"{path} is no audit stream: {read.problems[0]}")
    for problem in read.problems[:PROBLEMS_SHOWN]:
        click.echo(f"{path}: {problem}", err=True)
    more = len(read.problems) - PROBLEMS_SHOWN
    if more > 0:
        click.echo(f"{path}: … and {more} more lines", err=True)
    return read.requests
