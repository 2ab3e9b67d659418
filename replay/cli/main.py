"""`replay`: the commands, and one way to fail: a sentence on standard error, exit code 2."""

import os
from typing import Any, NamedTuple

import click

from controlplane.core.file_sentences import inaccessible
from controlplane.core.moments import UnknownMoment
from controlplane.core.profiles import UnknownRelease
from controlplane.core.safe_text import safe
from controlplane.core.state import SharedTopic
from controlplane.extras import install_command
from controlplane.logs.log import LogError
from controlplane.option_names import check_command
from controlplane.private_files import BadFileMode
from replay.cli.codes import DEFECT, INTERRUPTED, REFUSED
from replay.cli.extras import EXTRAS, declared
from replay.cli.printing import print_nothing_more
from replay.errors import ReplayError


class Refused(click.ClickException):
    """What was asked cannot be done. The message says why, and what to do."""

    exit_code = REFUSED


class Command(NamedTuple):
    """A command: where it lies, so that only the one that runs is imported, and what it does."""

    place: str
    about: str


COMMANDS = {
    "capture": Command("replay.cli.capture:capture", "Archive what logs hold, as it is."),
    "verify": Command("replay.cli.verify:verify", "Is an archive still what it was?"),
    "state": Command("replay.cli.state:state", "What workers knew, at any point of an archive."),
    "timeline": Command("replay.cli.timeline:command", "From when until when each fact held."),
    "diff": Command("replay.cli.diff:command", "What differs between moments, releases, clusters."),
    "history": Command("replay.cli.history:history", "Every record of a connector, explained."),
    "compat": Command("replay.cli.compat:compat", "What a change of release would do."),
    "audit": Command("replay.cli.audit:audit", "What the logs of a fleet tell that nobody saw."),
    "lint": Command("replay.cli.lint:lint", "Compact now and restart: who is not what he was?"),
    "report": Command("replay.cli.report:report", "One page of HTML about a fleet."),
    "completion": Command("replay.cli.completion:completion", "Complete words in your shell."),
}
"""In the order in which they are listed."""

DEBUG = "CONTROLPLANE_DEBUG"
"""Environment variable: set, a defect comes with its traceback, as in `controlplane`."""

_INPUT = (LogError, UnknownRelease, UnknownMoment, SharedTopic, ReplayError, BadFileMode)
"""What is wrong with what we are given."""


class Commands(click.Group):
    """The commands of the table."""

    def list_commands(self, _: click.Context) -> list[str]:
        """Their names."""
        return list(COMMANDS)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        """One command, imported now."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name].place.split(":")
        return declared(module, name)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.about) for name, one in COMMANDS.items()])

    def make_context(self, *given: Any, **more: Any) -> click.Context:
        """Parse the words in front of the command; its reader may leave while help is printed."""
        try:
            return super().make_context(*given, **more)
        except BrokenPipeError:
            print_nothing_more()
            raise SystemExit(0) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one is refused with the names that may be meant."""
        check_command(self, ctx, args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. Nothing ends with a traceback unless `CONTROLPLANE_DEBUG` is set."""
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
            raise Refused(safe(str(error))) from None
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            raise SystemExit(INTERRUPTED) from None
        except BrokenPipeError:  # `| head`: whoever read has what they wanted
            print_nothing_more()
            raise SystemExit(0) from None
        except OSError as error:
            if error.filename is None:
                raise
            raise Refused(inaccessible(error)) from None
        except ModuleNotFoundError as missing:
            package = (missing.name or "").partition(".")[0]
            if package not in EXTRAS:
                raise
            raise Refused(
                f"this needs {package}, which is not installed here: "
                f"{install_command(EXTRAS[package])}"
            ) from None


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="controlplane")
def main() -> None:
    """The same fold as the service's, over fleets and years: what was, what would be.

    A LOG is kafka://host:port, an embedded log (a SQLite file, also sqlite:///path), or a file of
    records: a history (.log.jsonl), the output of kcat -J or of kafka-console-consumer. An ARCHIVE
    is a folder that `capture` has made, or such a place in an object store: s3a://bucket/folder.
    """
