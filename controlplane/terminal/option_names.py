"""Names and help texts that options share, former names of options, misspelt commands.

Former names are parsed like the present one. Help texts and completion do not show them.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

import click

from controlplane.core.moments import check_form

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

TIME = "ISO 8601, UTC without a zone, or ms since 1970"
"""Forms of a time, for help texts."""

MOMENT = f"a time ({TIME}), a record (config@57), or a vector of end offsets"
"""Forms of a MOMENT, for help texts."""


def checked_moment(_ctx: click.Context, _param: click.Parameter, moment: str | None) -> str | None:
    """Refuse a MOMENT of another form, before a log is read: the callback of its options.

    Raises:
        UnknownMoment: it is too long, or neither a record, a time nor a vector.
    """
    if moment is not None:
        check_form(moment)
    return moment


ACCESS_HELP = {
    "where": "URL of a worker, or a log: sqlite:///state.db. [CONTROLPLANE_CLUSTER; default: "
    "http://localhost:8083]",
    "user": "Credentials for basic authentication; prompts for a missing password. "
    "[CONTROLPLANE_USER]",
    "token": "Bearer token for authentication. [CONTROLPLANE_TOKEN]",
    "ca_file": "Trust only the CA certificates in FILE (PEM). [CONTROLPLANE_CA_FILE]",
}
"""Help texts of the options about a cluster, by parameter. These options may also precede the
command."""


class NamedOption(click.Option):
    """Option with former names, which are parsed and never shown."""

    def __init__(
        self, param_decls: Sequence[str] | None = None, former: Sequence[str] = (), **given: Any
    ) -> None:
        super().__init__(param_decls, **given)
        self.former = tuple(former)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Let the parser also accept the former names."""
        super().add_to_parser(parser, ctx)
        if self.former:
            hidden = copy.copy(self)
            hidden.opts, hidden.former = [*self.former], ()
            hidden.add_to_parser(parser, ctx)


def all_names(option: click.Parameter) -> list[str]:
    """Names of an option that the parser takes, with the former ones."""
    return [*option.opts, *(option.former if isinstance(option, NamedOption) else ())]


def named_option(
    *names: str, former: Sequence[str] = (), **given: Any
) -> Callable[[Decorated], Decorated]:
    """Add an option as `click.option` does; `former` names are hidden aliases."""
    return click.option(*names, cls=NamedOption, former=former, **given)


ALIKE = 0.6
"""Similarity (`difflib`) from which a word counts as a misspelling; click's value."""


def did_you_mean(word: str, known: Iterable[str], cutoff: float = ALIKE) -> str:
    """Suggestion to append to a sentence about an unknown word, as click words it; may be empty."""
    close = plausible(word, get_close_matches(word, [*known], cutoff=cutoff))
    matches = sorted(map(repr, close))
    if len(matches) > 1:
        return f" (Did you mean one of: {', '.join(matches)}?)"
    return f" Did you mean {matches[0]}?" if matches else ""


LETTERS_PER_EDIT = 3
"""Letters of a misspelt word per wrong letter; a word of fewer letters may have one, too."""


def plausible(word: str, names: Iterable[str]) -> list[str]:
    """Names that a person may have meant by a word: it begins them, or few letters differ.

    `difflib` counts common letters, hyphens included, and finds `--to` similar to `--body`.
    """
    bare = word.lstrip("-")
    most = max(1, len(bare) // LETTERS_PER_EDIT)
    return [
        name
        for name in names
        if name.lstrip("-").startswith(bare) or _edits(bare, name.lstrip("-")) <= most
    ]


def _edits(word: str, other: str) -> int:
    """Edit distance: missing, surplus, wrong and swapped letters count one each."""
    before: list[int] = []
    row: list[int] = [*range(len(other) + 1)]
    for i, letter in enumerate(word, 1):
        two_before, before, row = before, row, [i]
        for j, beside in enumerate(other, 1):
            edits = min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != beside))
            if i > 1 < j and (letter, beside) == (other[j - 2], word[i - 2]):
                edits = min(edits, two_before[j - 2] + 1)
            row.append(edits)
    return row[-1]


def check_command(group: click.Group, ctx: click.Context, name: str) -> None:
    """Raise `UsageError` for a command that a group lacks, with the closest names.

    click suggests only commands that have been imported, so the names are searched here.
    """
    if not ctx.resilient_parsing and group.get_command(ctx, name) is None and name[:1] != "-":
        ctx.fail(f"No such command {name!r}.{did_you_mean(name, group.list_commands(ctx))}")
