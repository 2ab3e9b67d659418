"""Names on the command line: one name per meaning, former names of options, misspelt commands.

Former names are parsed like the present one. Help texts and completion do not show them.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class NamedOption(click.Option):
    """An option with former names, which are parsed and never shown."""

    def __init__(
        self, param_decls: Sequence[str] | None = None, former: Sequence[str] = (), **given: Any
    ) -> None:
        super().__init__(param_decls, **given)
        self.former = tuple(former)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Let the parser take the former names, too."""
        super().add_to_parser(parser, ctx)
        if self.former:
            hidden = copy.copy(self)
            hidden.opts, hidden.former = [*self.former], ()
            hidden.add_to_parser(parser, ctx)


def named_option(
    *names: str, former: Sequence[str] = (), **given: Any
) -> Callable[[Decorated], Decorated]:
    """Add an option as `click.option` does; `former` names are hidden aliases."""
    return click.option(*names, cls=NamedOption, former=former, **given)


ALIKE = 0.6
"""Similarity (`difflib`) from which a word is taken for a misspelling; click's value."""


def did_you_mean(word: str, known: Iterable[str], cutoff: float = ALIKE) -> str:
    """The question behind a sentence about an unknown word, as click words it; may be empty."""
    meant = sorted(map(repr, get_close_matches(word, [*known], cutoff=cutoff)))
    if len(meant) > 1:
        return f" (Did you mean one of: {', '.join(meant)}?)"
    return f" Did you mean {meant[0]}?" if meant else ""


def check_command(group: click.Group, ctx: click.Context, name: str) -> None:
    """Raise `UsageError` for a command that a group lacks, with the names that may be meant.

    click knows only commands that have been imported.
    """
    if not ctx.resilient_parsing and group.get_command(ctx, name) is None and name[:1] != "-":
        ctx.fail(f"No such command {name!r}.{did_you_mean(name, group.list_commands(ctx))}")
