"""Entry point of `replay`: the subcommands, and one form of errors (one sentence, exit code 2)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import click

from controlplane.core.state import SharedTopic
from controlplane.private_files import BadFileMode
from controlplane.terminal.command_errors import (
    InputRefused,
    check_output,
    exit_codes_for_errors,
    refusing_bad_input,
)
from controlplane.terminal.extras import install_command
from controlplane.terminal.option_names import check_command
from replay.cli.optional_packages import EXTRAS, declared
from replay.errors import ReplayError


class Subcommand(NamedTuple):
    """Subcommand: its location, imported on demand, and its description."""

    place: str
    about: str


COMMANDS = {
    "capture": Subcommand("replay.cli.commands.capture:capture", "Archive logs unchanged."),
    "verify": Subcommand(
        "replay.cli.commands.verify:verify", "Verify an archive and list its gaps."
    ),
    "compact-archive": Subcommand(
        "replay.cli.commands.compact_archive:compact_archive",
        "Merge small files; remove old records.",
    ),
    "state": Subcommand(
        "replay.cli.commands.state:state", "Show the state of workers at any moment."
    ),
    "timeline": Subcommand("replay.cli.commands.timeline:command", "List when each fact held."),
    "diff": Subcommand(
        "replay.cli.commands.diff:command", "Compare moments, releases or clusters."
    ),
    "history": Subcommand(
        "replay.cli.commands.history:history", "List and explain a connector's records."
    ),
    "compat": Subcommand(
        "replay.cli.commands.compat:compat", "Predict the effects of a release change."
    ),
    "audit": Subcommand("replay.cli.commands.audit:audit", "Find problems in the logs of a fleet."),
    "watch": Subcommand(
        "replay.cli.commands.watch:watch", "Print changes and findings as they are archived."
    ),
    "lint": Subcommand("replay.cli.commands.lint:lint", "Rehearse a compaction and a restart."),
    "report": Subcommand("replay.cli.commands.report:report", "Write an HTML page about a fleet."),
    "completion": Subcommand(
        "replay.cli.commands.completion:completion", "Print shell completion code."
    ),
}
"""Subcommands in the order of the help text."""

PROGRAM = "replay"

_INPUT = (SharedTopic, ReplayError, BadFileMode)
"""Errors of the input, besides those of `controlplane`."""


class ReplayGroup(click.Group):
    """Group that imports a subcommand only when it is used."""

    def list_commands(self, _: click.Context) -> list[str]:
        """Names of the subcommands, in the order of the help text."""
        return list(COMMANDS)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        """Import one subcommand; None if the name is unknown."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name].place.split(":")
        return declared(module, name)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.about) for name, command in COMMANDS.items()])

    def make_context(self, *given: Any, **more: Any) -> click.Context:
        """Parse the arguments of the group."""
        with exit_codes_for_errors(PROGRAM):
            return super().make_context(*given, **more)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the subcommand; an unknown name is refused with suggestions."""
        check_command(self, ctx, args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a subcommand; an error ends it with one sentence and its exit code."""
        with (
            exit_codes_for_errors(PROGRAM),
            refusing_bad_input(*_INPUT),
            _missing_packages_refused(),
        ):
            check_output()
            return super().invoke(ctx)


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
    records: a history (.log.jsonl), or the output of kcat -J or kafka-console-consumer. An ARCHIVE
    is a folder that `capture` has made, or s3a://bucket/folder in an object store.
    """
