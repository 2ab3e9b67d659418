"""Group of a program's commands: each is imported on use, and all have one form of error."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import click

from controlplane.terminal.command_errors import (
    check_output,
    exit_codes_for_errors,
    refusing_bad_input,
)
from controlplane.terminal.option_names import check_command


class CommandEntry(NamedTuple):
    """Import path of a command (`module:name`), and its summary in the list of commands."""

    place: str
    about: str


class ProgramGroup(click.Group):
    """Group of all commands of a program; an error is one sentence with an exit code."""

    program: ClassVar[str]
    sections: ClassVar[Mapping[str, Mapping[str, CommandEntry]]]
    """Section title of the help text → command name → entry, in the order of the help text."""
    bad_input: ClassVar[tuple[type[Exception], ...]] = ()
    """Errors of the input, besides those that all programs have."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help text."""
        names = [name for commands in self.sections.values() for name in commands]
        return [*names, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command and return it; None if the name is unknown."""
        for commands in self.sections.values():
            if cmd_name in commands:
                module, _, name = commands[cmd_name].place.partition(":")
                return self.imported(module, name)
        return super().get_command(ctx, cmd_name)

    def imported(self, module: str, name: str) -> click.Command:
        """Import a command."""
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        for section, commands in self.sections.items():
            with formatter.section(section):
                formatter.write_dl([(name, entry.about) for name, entry in commands.items()])

    def make_context(self, *given: Any, **more: Any) -> click.Context:
        """Parse the words in front of the command, or print the help; errors get exit codes."""
        with exit_codes_for_errors(self.program):
            return super().make_context(*given, **more)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown name is refused with suggestions."""
        check_command(self, ctx, args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error ends it with one sentence and its exit code."""
        with exit_codes_for_errors(self.program), refusing_bad_input(*self.bad_input):
            check_output()
            return self.invoke_command(ctx)

    def invoke_command(self, ctx: click.Context) -> Any:
        """Run the command; its errors pass through."""
        return super().invoke(ctx)
