"""Entry point of `replay`: the subcommands, and one form of errors (one sentence, exit code 2)."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from controlplane.core.state import SharedTopic
from controlplane.garbage_collection import collect_rarely
from controlplane.private_files import BadFileMode
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.extras import install_command
from controlplane.terminal.program_group import CommandEntry, ProgramGroup
from replay.cli.optional_packages import EXTRAS, declared
from replay.errors import ReplayError

COMMANDS = {
    "capture": CommandEntry("replay.cli.commands.capture:capture", "Archive logs unchanged."),
    "verify": CommandEntry(
        "replay.cli.commands.verify:verify", "Verify an archive and list its gaps."
    ),
    "compact-archive": CommandEntry(
        "replay.cli.commands.compact_archive:compact_archive",
        "Merge small files; remove old records.",
    ),
    "state": CommandEntry(
        "replay.cli.commands.state:state", "Show the state of workers at any moment."
    ),
    "timeline": CommandEntry("replay.cli.commands.timeline:command", "List when each fact held."),
    "diff": CommandEntry(
        "replay.cli.commands.diff:command", "Compare moments, releases or clusters."
    ),
    "history": CommandEntry(
        "replay.cli.commands.history:history", "List and explain a connector's records."
    ),
    "compat": CommandEntry(
        "replay.cli.commands.compat:compat", "Predict the effects of a release change."
    ),
    "audit": CommandEntry(
        "replay.cli.commands.audit:audit", "Find problems in the logs of a fleet."
    ),
    "watch": CommandEntry(
        "replay.cli.commands.watch:watch", "Print changes and findings as they are archived."
    ),
    "lint": CommandEntry("replay.cli.commands.lint:lint", "Rehearse a compaction and a restart."),
    "report": CommandEntry(
        "replay.cli.commands.report:report", "Write an HTML page about a fleet."
    ),
    "completion": CommandEntry(
        "replay.cli.commands.completion:completion", "Print shell completion code."
    ),
}
"""Subcommands in the order of the help text."""

SECTIONS = {"Commands": COMMANDS}

MAX_FILES = 65_536
"""Greatest number of open files. All segments of a partition are open while it is read, except
small ones; the usual limit is 1,024."""


class ReplayGroup(ProgramGroup):
    """Group of all subcommands; it says which package a subcommand lacks."""

    program = "replay"
    sections = SECTIONS
    bad_input = (SharedTopic, ReplayError, BadFileMode)

    def imported(self, module: str, name: str) -> click.Command:
        """Import a subcommand; without its packages, return one that refuses to run."""
        return declared(module, name)

    def invoke_command(self, ctx: click.Context) -> Any:
        """Run the subcommand; a missing optional package refuses it."""
        with _missing_packages_refused():
            return super().invoke_command(ctx)


@contextmanager
def _missing_packages_refused() -> Iterator[None]:
    """Turn the lack of an optional package into a refusal that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise InputRefused(
            f"this needs {package}, which is not installed here: {install_command(EXTRAS[package])}"
        ) from None


@click.group(
    cls=ReplayGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="controlplane")
def main() -> None:
    """Fold, query and compare archives and logs of whole fleets, at any time and release.

    A LOG is kafka://host:port, an embedded log (a SQLite file, also sqlite:///path), or a file of
    records. Such a file is a history (.log.jsonl), or the output of kcat -J or
    kafka-console-consumer. An ARCHIVE is a folder that `capture` has made, or s3a://bucket/folder
    in an object store.
    """
    collect_rarely()
    _allow_many_files()


def _allow_many_files() -> None:
    """Raise the limit of open files, if the system allows it (`MAX_FILES`)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < files:
        with suppress(OSError, ValueError):  # macOS allows fewer than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
