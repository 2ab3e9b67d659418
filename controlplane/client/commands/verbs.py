"""Verbs and what they are about, as kcctl and kubectl have it: `VERB RESOURCE NAME…`.

Where nothing else can be meant the resource may be left out: `stop orders` is `stop connector
orders`. Every verb's last part is a command made here: options about the cluster, an event loop,
and somebody to speak to.
"""

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Concatenate

import click
from click.shell_completion import CompletionItem

from controlplane.client.http.api import Api
from controlplane.client.http.cluster_address import (
    CA_FILE,
    CLUSTER,
    TOKEN,
    USER,
    USUAL,
    ClusterAccess,
    ClusterAddress,
)
from controlplane.client.http.connection import connected
from controlplane.client.http.request_errors import DECLINED, Declined, Unavailable
from controlplane.terminal.option_names import did_you_mean, named_option
from controlplane.terminal.output import note
from controlplane.terminal.shell_completion import complete_files
from controlplane.terminal.worker_options import FILE

ABOUT_LENGTH = 200
"""Characters of the first sentence about a resource: help texts are wrapped, not cut."""

CommandBody = Callable[Concatenate[Api, ...], Awaitable[None]]
ClickDecorator = Callable[[Any], Any]
ArgumentReader = Callable[[dict[str, Any]], dict[str, Any]]
"""Arguments as the shell gives them → arguments of the command."""


ALIKE_RESOURCE = 0.75
"""Similarity (`difflib`) from which a connector's name is taken for a misspelt resource."""

_WORD = "controlplane.client.commands.verbs.word"
"""The first word behind a verb, where it is no resource."""

_WORDS = "controlplane.client.commands.verbs.words"
"""The words behind a verb while the shell completes, where none of them is a resource."""

_EXTRA = "unexpected extra argument"
"""Words of click about too many names."""


def _has_value(option: click.Parameter) -> bool:
    return isinstance(option, click.Option) and not option.is_flag and not option.count


class VerbGroup(click.Group):
    """A verb with its resources; `usual` is meant where none is named."""

    def __init__(self, name: str, usual: str, about: str) -> None:
        super().__init__(name, no_args_is_help=False, help=about)
        self.usual = usual

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the resource first, the usual one where none is named."""
        place = self._first_word(args, ctx.help_option_names)
        word = args[place] if place < len(args) else ""
        if word in ctx.help_option_names:
            args = [word]
        elif word in self.commands:
            args = [word, *args[:place], *args[place + 1 :]]
        elif ctx.resilient_parsing:
            ctx.meta[_WORDS], args = args, []
        else:
            args = [self.usual, *args]
            ctx.meta[_WORD] = word
        return super().parse_args(ctx, args)

    def _first_word(self, args: list[str], help_options: list[str]) -> int:
        """Index of the first word that is no option and no value of one, or that asks for help."""
        options = [one for command in self.commands.values() for one in command.params]
        valued = {name for one in options if _has_value(one) for name in one.opts}
        place = 0
        while place < len(args) and args[place][:1] == "-" and args[place] not in help_options:
            place += 2 if args[place] in valued else 1
        return place

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; say so where a resource may be misspelt, and was taken for a name."""
        word = ctx.meta.get(_WORD, "")
        meant = did_you_mean(word, self.commands, ALIKE_RESOURCE)
        try:
            return super().invoke(ctx)
        except click.ClickException as failure:
            said = f"{failure.message.removesuffix('.')}.{meant}"
            if meant and isinstance(failure, Declined | Unavailable):
                raise type(failure)(said) from None
            if meant and _EXTRA in failure.message:
                raise click.UsageError(said, ctx) from None
            raise
        except SystemExit as ended:
            if meant and ended.code == DECLINED:
                note(meant.strip())
            raise

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The words of the usual resource, whose name may be left out."""
        return ["[RESOURCE]", *self.commands[self.usual].collect_usage_pieces(ctx)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options of the usual resource, then the resources."""
        usual = self.commands[self.usual]
        usual.format_options(click.Context(usual, ctx, self.usual), formatter)
        with formatter.section("Resources"):
            formatter.write_dl(
                [
                    (name, one.get_short_help_str(ABOUT_LENGTH))
                    for name, one in self.commands.items()
                ]
            )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Resources, and what could follow where the usual one is left out."""
        usual = self.commands[self.usual]
        words = [*ctx.meta.get(_WORDS, ())]
        inner = usual.make_context(self.usual, words, parent=ctx, resilient_parsing=True)
        names = [one for one in usual.params if isinstance(one, click.Argument)][:1]
        items = [item for one in names for item in one.shell_complete(inner, incomplete)]
        if incomplete.startswith("-"):
            items = usual.shell_complete(inner, incomplete)
        return [*super().shell_complete(ctx, incomplete), *items]

    def list_commands(self, _: click.Context) -> list[str]:
        """Resources, in the order in which they were added."""
        return list(self.commands)


def verb(name: str, about: str, usual: str, commands: Iterable[click.Command]) -> VerbGroup:
    """A verb; the resource in `usual` may be left out."""
    made = VerbGroup(name, usual, f"{about}\n\nWithout a resource, {usual} is meant.")
    for command in commands:
        made.add_command(command)
    return made


def again(command: click.Command, name: str) -> click.Command:
    """The same command under another verb."""
    other = click.Command(name, callback=command.callback, params=command.params, help=command.help)
    other.short_help = command.short_help
    return other


def asks(name: str, *options: ClickDecorator) -> Callable[[CommandBody], click.Command]:
    """Make a command of `async def (api, …)` that asks: about now, or how it was, or others see."""
    return functools.partial(_command, name, (*options, *_VIEW), ClusterAccess.READ)


def _as_given(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


def asks_now(
    name: str,
    *options: ClickDecorator,
    need: ClusterAccess = ClusterAccess.READ,
    prepare: ArgumentReader = _as_given,
) -> Callable[[CommandBody], click.Command]:
    """Make a command of `async def (api, …)` that asks, and says itself about when."""
    return functools.partial(_command, name, options, need, prepare=prepare)


def changes(name: str, *options: ClickDecorator) -> Callable[[CommandBody], click.Command]:
    """Make a command of `async def (api, …)` that changes something, or only plans to."""
    return functools.partial(_command, name, options, ClusterAccess.WRITE)


def creates(
    name: str, prepare: ArgumentReader, *options: ClickDecorator
) -> Callable[[CommandBody], click.Command]:
    """Make a command of `async def (api, …)` that creates connectors, and a log for them.

    `prepare` reads the files that the arguments name, before a log is made.
    """
    return functools.partial(_command, name, options, ClusterAccess.CREATE, prepare=prepare)


def _command(
    name: str,
    options: tuple[ClickDecorator, ...],
    need: ClusterAccess,
    talk: CommandBody,
    prepare: ArgumentReader = _as_given,
) -> click.Command:
    @functools.wraps(talk)
    def called(**arguments: Any) -> None:
        told = ClusterAddress(**{field: arguments.pop(field) for field in ClusterAddress._fields})
        asked = {field: arguments.pop(field, None) for field in _VIEW_FIELDS}
        view = {field: value for field, value in asked.items() if value is not None}
        needed = ClusterAccess.PLAN if arguments.get("dry_run") else need
        arguments = prepare(arguments)

        async def talked() -> None:
            async with connected(told, needed, view) as api:
                await talk(api, **arguments)

        asyncio.run(talked())

    for option in reversed((*options, *_CLUSTER)):
        called = option(called)
    return click.command(name)(called)


_VIEW_FIELDS = ("as_of", "profile")

_CLUSTER: tuple[ClickDecorator, ...] = (
    click.option(
        "-c",
        "--cluster",
        "where",
        default=lambda: os.environ.get(CLUSTER) or USUAL,
        metavar="URL|LOG",
        shell_complete=complete_files,
        help=f"URL of a worker, or a log: sqlite:///state.db. [{CLUSTER}; default: {USUAL}]",
    ),
    click.option(
        "--user",
        envvar=USER,
        metavar="NAME[:PASSWORD]",
        help=f"Credentials for basic authentication; prompts for a missing password. [{USER}]",
    ),
    click.option(
        "--token",
        envvar=TOKEN,
        metavar="TOKEN|@FILE",
        help=f"Bearer token for authentication. [{TOKEN}]",
    ),
    click.option(
        "--ca-file",
        type=FILE,
        envvar=CA_FILE,
        metavar="FILE",
        help=f"Trust the CA certificates in FILE (PEM) as well as the system's. [{CA_FILE}]",
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
        help="Show a moment of the past: config@57, a time, a vector of end offsets. Ours only.",
    ),
    named_option(
        "--release",
        "profile",
        former=("--profile",),
        metavar="RELEASE",
        help="Show the view of a worker of this release. Ours only.",
    ),
)
