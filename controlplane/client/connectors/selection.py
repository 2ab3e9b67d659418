"""Selection of connectors: by name, by regular expression, by state, or all of them."""

import asyncio
import functools
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import click
from click.shell_completion import CompletionItem

from controlplane.client.connectors.connector_summary import UNKNOWN, summaries
from controlplane.client.http.api import Api
from controlplane.client.http.cluster_address import ClusterAddress
from controlplane.client.http.connection import connected
from controlplane.client.http.request_errors import Declined
from controlplane.core.moments import quoted
from controlplane.core.records import State
from controlplane.terminal.log_options import not_empty
from controlplane.terminal.option_names import Decorated


class Selection:
    """Connectors selected by names or patterns, and by states; without any, all connectors."""

    def __init__(
        self, names: tuple[str, ...], states: tuple[str, ...], *, pattern: bool = False
    ) -> None:
        self.names = names
        self.states = {state.upper() for state in states}
        self._patterns = [_compiled(name) for name in names] if pattern and names else None

    @property
    def needs_lookup(self) -> bool:
        """True if the names are known only after asking the cluster."""
        return self._patterns is not None or bool(self.states) or not self.names

    async def of(self, api: Api) -> list[str]:
        """Names of the selected connectors, in order; empty if none is in a given state.

        Raises:
            Declined: a name does not exist, or no connector matches the patterns.
        """
        if not self.needs_lookup:
            return list(dict.fromkeys(self.names))
        matching = [name for name in sorted(await api.get("/connectors")) if self._matches(name)]
        missing = self._missing(matching)
        if missing:
            names = " or ".join(missing)
            raise Declined(
                f"no connector of {api.name} matches {names}: `controlplane get` lists all"
            )
        if not self.states:
            return matching
        by_name = {connector.name: connector for connector in await summaries(api)}
        return [name for name in matching if name in by_name and by_name[name].states & self.states]

    def _missing(self, matching: list[str]) -> list[str]:
        """Names that do not exist; all patterns if none of them matches."""
        if self._patterns is None:
            return [name for name in self.names if name not in matching]
        return [] if matching else list(self.names)

    def _matches(self, name: str) -> bool:
        if self._patterns is None:
            return not self.names or name in self.names
        return any(pattern.fullmatch(name) for pattern in self._patterns)


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise click.UsageError(f"{quoted(text)} is no regular expression ({error})") from None


def selection_or_all(command: Decorated) -> Decorated:
    """Add names, `-e` and `--state`; the command gets `selection`.

    Without any of them, all connectors are selected.
    """
    return _selecting(command, _OPTIONS)


def explicit_selection(command: Decorated) -> Decorated:
    """Add names, `-e`, `--state` and `--all` to a changing command: there is no default."""
    return _selecting(command, (*_OPTIONS, _ALL))


def _selecting(command: Decorated, options: tuple[Callable[[Any], Any], ...]) -> Decorated:
    @functools.wraps(command)
    def with_selection(
        names: tuple[str, ...],
        states: tuple[str, ...],
        *,
        pattern: bool,
        everything: bool | None = None,
        **arguments: Any,
    ) -> Any:
        if everything is False and not (names or states):
            raise click.UsageError("no connector is selected: give a NAME, --state or --all")
        if everything and names and not pattern:
            raise click.UsageError(
                "names and --all exclude each other: leave out one of them, or add -e for patterns"
            )
        return command(selection=Selection(names, states, pattern=pattern), **arguments)

    for option in reversed(options):
        with_selection = option(with_selection)
    return with_selection  # type: ignore[return-value]  # click's decorators change the type


def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete names of connectors for the shell; empty after any error."""
    options = {field: ctx.params.get(field) for field in ClusterAddress._fields}
    given_options = {field: value for field, value in options.items() if value is not None}
    cluster = ClusterAddress(**given_options)
    if cluster.user is not None and ":" not in cluster.user:
        return []  # the prompt for the password would take what the user types at the shell
    with suppress(Exception):  # a completing shell has no place for an error message
        names = asyncio.run(_names(cluster))
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return []


async def _names(cluster: ClusterAddress) -> list[str]:
    async with connected(cluster) as api:
        return sorted(await api.get("/connectors"))


def name_argument(command: Decorated) -> Decorated:
    """Add the name of one connector; the command gets `name`."""
    return click.argument("name", callback=not_empty, shell_complete=complete)(command)


class _StateChoice(click.Choice[str]):
    """State of a connector, in upper or lower case; `-`: no worker has reported one."""

    def __init__(self) -> None:
        super().__init__([*_STATES, UNKNOWN], case_sensitive=False)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Error that lists the states that a worker reports."""
        del ctx
        return (
            f"{quoted(str(value))} is no state: give {', '.join(_STATES[:-1])} or {_STATES[-1]}, "
            f"or {UNKNOWN} for connectors without a reported state"
        )


_STATES = tuple(state.value for state in State)

_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.argument(
        "names", metavar="[NAME]...", nargs=-1, callback=not_empty, shell_complete=complete
    ),
    click.option(
        "-e", "--reg-exp", "pattern", is_flag=True, help="Treat each NAME as a regular expression."
    ),
    click.option(
        "--state",
        "states",
        type=_StateChoice(),
        metavar="STATE",
        multiple=True,
        help="Select connectors in this state (FAILED), or with a task in it. May be repeated.",
    ),
)

_ALL = click.option("--all", "everything", is_flag=True, help="Select all connectors.")
