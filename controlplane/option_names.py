"""Names of command-line options: one name per meaning, and former names that still work.

Former names are parsed like the present one. Help texts and completion do not show them.
"""

import copy
from collections.abc import Callable, Sequence
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
