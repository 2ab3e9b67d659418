"""Verbs with their resources, as in kcctl and kubectl: `VERB RESOURCE NAME…`.

Each verb has a default resource: `stop orders` is `stop connector orders`. The commands are made
here, with the options about the cluster, an event loop and a connected `Api`.
"""

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Concatenate

import click
from click.shell_completion import CompletionItem

from controlplane.client.http.api import Api
from controlplane.client.http.cluster_address import (
    CA_FILE,
    CLUSTER,
    DEFAULT_URL,
    TOKEN,
    USER,
    ClusterAccess,
    ClusterAddress,
)
from controlplane.client.http.connection import connected
from controlplane.client.http.request_errors import DECLINED, Declined, Unavailable
from controlplane.terminal.option_names import (
    ACCESS_HELP,
    MOMENT,
    all_names,
    did_you_mean,
    named_option,
)
from controlplane.terminal.output import note
from controlplane.terminal.shell_completion import complete_files
from controlplane.terminal.worker_options import FILE

ABOUT_LENGTH = 200
"""Maximum characters of a resource's summary in help texts; click's default would cut it."""

CommandBody = Callable[Concatenate[Api, ...], Awaitable[None]]
ClickDecorator = Callable[[Any], Any]
ArgumentReader = Callable[[dict[str, Any]], dict[str, Any]]
"""Arguments as the shell gives them → arguments of the command."""


ALIKE_RESOURCE = 0.75
"""Similarity (`difflib`) from which a connector's name counts as a misspelt resource."""

_WORD = "controlplane.client.commands.verbs.word"
"""Key in `Context.meta` of the first word after a verb, if it is no resource."""

_WORDS = "controlplane.client.commands.verbs.words"
"""Key in `Context.meta` of the words after a verb during completion, if none is a resource."""

_EXTRA = "unexpected extra argument"
"""Words of click's error about too many names."""


def _has_value(option: click.Parameter) -> bool:
    return isinstance(option, click.Option) and not option.is_flag and not option.count


def _takes_next_word(word: str, valued: Collection[str]) -> bool:
    """True if the word after an option is its value.

    One word may have several short options (`-yc URL`). The first with a value takes the rest.
    """
    if word in valued or word.startswith("--"):
        return word in valued
    short_options = [f"-{letter}" for letter in word[1:]]
    first = next((option for option in short_options if option in valued), None)
    return first is not None and short_options.index(first) == len(short_options) - 1


class VerbGroup(click.Group):
    """A verb with its resources, or a resource with its actions."""

    def __init__(self, name: str, default_resource: str, about: str, part: str) -> None:
        """`part`: `resource` or `action`, for the help text."""
        super().__init__(name, no_args_is_help=False, help=about)
        self.default_resource = default_resource
        self.part = part

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the resource, or the default one, in front."""
        place = self._first_word(args, ctx.help_option_names)
        word = args[place] if place < len(args) else ""
        if word in ctx.help_option_names:
            args = [word]  # click would refuse options in front: the group itself has none of them
        elif word in self.commands:
            args = [word, *args[:place], *args[place + 1 :]]
        elif ctx.resilient_parsing:
            # Without a subcommand, click calls this group's `shell_complete`.
            ctx.meta[_WORDS], args = args, []
        else:
            args = [self.default_resource, *args]
            ctx.meta[_WORD] = word
        return super().parse_args(ctx, args)

    def _first_word(self, args: list[str], help_options: list[str]) -> int:
        """Index of the first word that is neither an option nor an option's value.

        A help option counts as a word.
        """
        options = [option for command in self.commands.values() for option in command.params]
        valued = {name for option in options if _has_value(option) for name in all_names(option)}
        place = 0
        while place < len(args) and args[place][:1] == "-" and args[place] not in help_options:
            place += 2 if _takes_next_word(args[place], valued) else 1
        return place

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; if it fails and the name resembles a resource, suggest the resource."""
        word = ctx.meta.get(_WORD, "")
        suggestion = did_you_mean(word, self.commands, ALIKE_RESOURCE)
        try:
            return super().invoke(ctx)
        except click.ClickException as failure:
            message = f"{failure.message.removesuffix('.')}.{suggestion}"
            if suggestion and isinstance(failure, Declined | Unavailable):
                raise type(failure)(message) from None
            if suggestion and _EXTRA in failure.message:
                raise click.UsageError(message, ctx) from None
            raise
        except SystemExit as ended:
            # A command for several connectors has printed its refusals (`act_on_each`).
            if suggestion and ended.code == DECLINED:
                note(suggestion.strip())
            raise

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Arguments in the usage line: an optional resource, then those of the default resource."""
        command = self.commands[self.default_resource]
        return [f"[{self.part.upper()}]", *command.collect_usage_pieces(ctx)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the default resource, then the resources."""
        command = self.commands[self.default_resource]
        command.format_options(click.Context(command, ctx, self.default_resource), formatter)
        with formatter.section(f"{self.part.capitalize()}s"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(ABOUT_LENGTH))
                    for name, command in self.commands.items()
                ]
            )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete resources, and the arguments or options of the default resource."""
        command = self.commands[self.default_resource]
        words = [*ctx.meta.get(_WORDS, ())]
        inner = command.make_context(
            self.default_resource, words, parent=ctx, resilient_parsing=True
        )
        first = [part for part in command.params if isinstance(part, click.Argument)][:1]
        items = [item for part in first for item in part.shell_complete(inner, incomplete)]
        if incomplete.startswith("-"):
            items = command.shell_complete(inner, incomplete)
        return [*super().shell_complete(ctx, incomplete), *items]

    def list_commands(self, _: click.Context) -> list[str]:
        """Return the resources in the order in which they were added."""
        return list(self.commands)


def verb(
    name: str,
    about: str,
    default: str,
    commands: Iterable[click.Command],
    *,
    part: str = "resource",
) -> VerbGroup:
    """Make a verb from its resources; `default` is the name of the default one.

    With `part="action"`, `name` is a resource, and `commands` are its actions.
    """
    group = VerbGroup(name, default, f"{about}\n\nThe default {part} is `{default}`.", part)
    for command in commands:
        group.add_command(command)
    return group


def copied_command(command: click.Command, name: str) -> click.Command:
    """Copy a command for another verb."""
    other = click.Command(name, callback=command.callback, params=command.params, help=command.help)
    other.short_help = command.short_help
    return other


def read_command(name: str, *options: ClickDecorator) -> Callable[[CommandBody], click.Command]:
    """Make a reading command of `async def (api, …)`, with `--as-of` and `--release`."""
    return functools.partial(_command, name, (*options, *_VIEW), ClusterAccess.READ)


def _as_given(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


def read_command_at_present(
    name: str,
    *options: ClickDecorator,
    need: ClusterAccess = ClusterAccess.READ,
    prepare: ArgumentReader = _as_given,
) -> Callable[[CommandBody], click.Command]:
    """Make a reading command of `async def (api, …)`, without `--as-of` and `--release`."""
    return functools.partial(_command, name, options, need, prepare=prepare)


def change_command(name: str, *options: ClickDecorator) -> Callable[[CommandBody], click.Command]:
    """Make a changing command of `async def (api, …)`."""
    return functools.partial(_command, name, options, ClusterAccess.WRITE)


def create_command(
    name: str, prepare: ArgumentReader, *options: ClickDecorator
) -> Callable[[CommandBody], click.Command]:
    """Make a command of `async def (api, …)` that creates connectors, and the log if need be.

    `prepare` reads the files that the arguments name, before a log is created.
    """
    return functools.partial(_command, name, options, ClusterAccess.CREATE, prepare=prepare)


def _command(
    name: str,
    options: tuple[ClickDecorator, ...],
    need: ClusterAccess,
    body: CommandBody,
    prepare: ArgumentReader = _as_given,
) -> click.Command:
    @functools.wraps(body)
    def command(**arguments: Any) -> None:
        address = ClusterAddress(**{name: arguments.pop(name) for name in ClusterAddress._fields})
        view_options = {field: arguments.pop(field, None) for field in _VIEW_FIELDS}
        view = {field: value for field, value in view_options.items() if value is not None}
        needed = _DRY_RUN_ACCESS.get(need, need) if arguments.get("dry_run") else need
        arguments = prepare(arguments)

        async def run() -> None:
            async with connected(address, needed, view) as api:
                await body(api, **arguments)

        asyncio.run(run())

    for option in reversed((*options, *_CLUSTER)):
        command = option(command)
    return click.command(name)(command)


_DRY_RUN_ACCESS = {
    ClusterAccess.WRITE: ClusterAccess.PLAN,
    ClusterAccess.CREATE: ClusterAccess.PLAN_CREATION,
}
"""Access that a dry run needs, by the access of the command itself."""

_VIEW_FIELDS = ("as_of", "profile")

_CLUSTER: tuple[ClickDecorator, ...] = (
    click.option(
        "-c",
        "--cluster",
        "where",
        default=lambda: os.environ.get(CLUSTER) or DEFAULT_URL,
        metavar="URL|LOG",
        shell_complete=complete_files,
        help=ACCESS_HELP["where"],
    ),
    click.option(
        "--user",
        envvar=USER,
        metavar="NAME[:PASSWORD]",
        help=ACCESS_HELP["user"],
    ),
    click.option(
        "--token",
        envvar=TOKEN,
        metavar="TOKEN|@FILE",
        help=ACCESS_HELP["token"],
    ),
    click.option(
        "--ca-file",
        type=FILE,
        envvar=CA_FILE,
        metavar="FILE",
        help=ACCESS_HELP["ca_file"],
    ),
)


def access_options(command: Any) -> Any:
    """Add `--user`, `--token` and `--ca-file`; the command gets `user`, `token`, `ca_file`."""
    for option in reversed(_CLUSTER[1:]):
        command = option(command)
    return command


_VIEW: tuple[ClickDecorator, ...] = (
    click.option(
        "--as-of",
        metavar="MOMENT",
        help=f"Show a past moment: {MOMENT}. Kafka's workers do not support it. [default: now]",
    ),
    named_option(
        "--release",
        "profile",
        former=("--profile",),
        metavar="RELEASE",
        help="Release to read as: 3.4, kip. Kafka's workers do not support it. "
        "[default: the server's]",
    ),
)
