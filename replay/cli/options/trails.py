"""Option for audit streams: requests with their authors."""

from collections.abc import Sequence
from pathlib import Path

import click

from controlplane.core.text.file_errors import unreadable
from controlplane.core.text.safe_text import count
from controlplane.terminal.log_options import not_empty
from controlplane.terminal.option_names import Decorated
from controlplane.terminal.output import note
from controlplane.terminal.shell_completion import complete_files
from replay.audit.trail.line_formats import TrailContent, read_trail
from replay.audit.trail.request_trail import TrailRequest
from replay.cli.inputs.log_input import LogInput
from replay.errors import ReplayError

PROBLEMS_SHOWN = 5
"""Unreadable lines that are printed; further ones are counted."""


class BadTrailFile(ReplayError):
    """The file or the cluster of a `--trail` cannot be used. The message gives the reason."""


def trail_option(command: Decorated) -> Decorated:
    """Add `--trail [NAME=]FILE`; the command gets `trails`."""
    return click.option(
        "--trail",
        "trails",
        metavar="[NAME=]FILE",
        shell_complete=complete_files,
        multiple=True,
        callback=not_empty,
        help="Audit stream of one cluster or of all. It has log lines of `controlplane serve`, "
        "JSON lines, CloudEvents, or an access log (common, combined). "
        "May be repeated.",
    )(command)


def requests_by_cluster(
    inputs: Sequence[LogInput], texts: Sequence[str]
) -> dict[str, list[TrailRequest]]:
    """Requests by cluster: `NAME=FILE` applies to one, `FILE` to all.

    Raises:
        BadTrailFile: an unreadable file, no audit stream, or an unknown cluster.
    """
    requests: dict[str, list[TrailRequest]] = {log.cluster: [] for log in inputs}
    for text in texts:
        name, equals, path = text.partition("=")
        one_cluster = bool(equals) and name in requests
        if equals and not one_cluster and not Path(text).exists():
            clusters = ", ".join(requests)
            raise BadTrailFile(f"--trail {text}: no cluster {name} is named (found: {clusters})")
        if one_cluster and not path:
            raise BadTrailFile(f"--trail {text} names no file: give {name}=FILE")
        for request in _requests(Path(path if one_cluster else text)):
            for cluster in [name] if one_cluster else requests:
                requests[cluster].append(request)
    return requests


def _requests(path: Path) -> list[TrailRequest]:
    """Read the requests of an audit stream; problems go to standard error."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            read = read_trail(lines)
    except OSError as error:
        raise BadTrailFile(unreadable(path, error)) from None
    if not read.lines:
        raise BadTrailFile(f"{path} is empty: name the file that has the requests in it")
    if len(read.problems) == read.lines:
        raise BadTrailFile(f"{path} is no audit stream: {read.problems[0]}")
    for problem in read.problems[:PROBLEMS_SHOWN]:
        note(f"{path}: {problem}")
    unlisted = len(read.problems) - PROBLEMS_SHOWN
    if unlisted > 0:
        note(f"{path}: … and {unlisted} more lines")
    note(f"{path}: {_counts(read)}")
    return read.requests


def _counts(read: TrailContent) -> str:
    """Number of lines and requests, as text."""
    requests = count(len(read.requests), "request")
    return (
        f"{count(read.lines, 'line')} read, {requests} that may have written something, "
        f"{count(len(read.problems), 'line')} not of an audit stream"
    )
