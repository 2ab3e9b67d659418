"""Entry point of `replay`: the subcommands, and one form of errors (one sentence, exit code 2)."""

import os
from typing import Any, NamedTuple

import click

from controlplane.core.moments import UnknownMoment
from controlplane.core.releases.profiles import UnknownRelease
from controlplane.core.state import SharedTopic
from controlplane.core.text.file_errors import inaccessible
from controlplane.core.text.safe_text import safe
from controlplane.logs.log import LogError
from controlplane.private_files import BadFileMode
from controlplane.terminal.extras import install_command
from controlplane.terminal.option_names import check_command
from replay.cli.exit_codes import DEFECT, INTERRUPTED, REFUSED
from replay.cli.optional_packages import EXTRAS, declared
from replay.cli.output.printer import print_nothing_more
from replay.errors import ReplayError


class ReplayRefused(click.ClickException):
    """A refused command. The message gives the reason and a remedy."""

    exit_code = REFUSED


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

DEBUG = "CONTROLPLANE_DEBUG"
"""Environment variable that adds tracebacks to defects, as in `controlplane`."""

_INPUT = (LogError, UnknownRelease, UnknownMoment, SharedTopic, ReplayError, BadFileMode)
"""Errors of the input."""


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
        """Parse the group's arguments; a reader of the help may close the pipe."""
        try:
            return super().make_context(*given, **more)
        except BrokenPipeError:
            print_nothing_more()
            raise SystemExit(0) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the subcommand; an unknown name is refused with suggestions."""
        check_command(self, ctx, args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a subcommand. Tracebacks appear only with `CONTROLPLANE_DEBUG`."""
        try:
            return self._invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if os.environ.get(DEBUG):
                raise
            click.echo(
                f"Error: a defect of replay ({type(error).__name__}: {error}): please report it, "
                f"with the command and what it prints with {DEBUG}=1",
                err=True,
            )
            raise SystemExit(DEFECT) from None

    def _invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except _INPUT as error:
            raise ReplayRefused(safe(str(error))) from None
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            raise SystemExit(INTERRUPTED) from None
        except BrokenPipeError:  # `| head`: the reader has seen enough
            print_nothing_more()
            raise SystemExit(0) from None
        except OSError as error:
            if error.filename is None:
                raise
            raise ReplayRefused(inaccessible(error)) from None
        except ModuleNotFoundError as missing:
            package = (missing.name or "").partition(".")[0]
            if package not in EXTRAS:
                raise
            raise ReplayRefused(
                f"this needs {package}, which is not installed here: "
                f"{install_command(EXTRAS[package])}"
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
