"""Every command and option of both programs, for tests that walk all of them."""

from collections.abc import Iterator
from typing import NamedTuple

import click

from controlplane.cli.main import main as controlplane
from replay.cli.main import main as replay

PROGRAMS = {"controlplane": controlplane, "replay": replay}


class Called(NamedTuple):
    """A command, and the words that call it."""

    words: tuple[str, ...]
    command: click.Command
    context: click.Context

    @property
    def options(self) -> list[click.Option]:
        """Options of the command, without `--help`."""
        return [param for param in self.command.params if isinstance(param, click.Option)]


def every_command() -> Iterator[Called]:
    """The commands of both programs, including groups, each one after its group."""
    for name, program in PROGRAMS.items():
        yield from _walk(program, (name,), None)


def _walk(
    command: click.Command, words: tuple[str, ...], parent: click.Context | None
) -> Iterator[Called]:
    context = click.Context(command, parent=parent, info_name=words[-1])
    yield Called(words, command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _walk(inner, (*words, name), context)
