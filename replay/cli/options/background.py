"""Options for a compaction beside a running capture."""

import functools
from typing import Any, NamedTuple, cast

import click

from controlplane.terminal.option_names import Decorated
from replay.cli.options.durations import Duration, retain_option


class BackgroundOptions(NamedTuple):
    """Interval and work of the compactions of a capture."""

    every_s: int
    retain_s: int | None = None


def background_options(command: Decorated) -> Decorated:
    """Add `--compact-every` and `--retain` to a command with `--once`; it gets `background`.

    `background` is None without a compaction.
    """

    @functools.wraps(command)
    def with_background(
        *, once: bool, compact_every_s: int | None, retain_s: int | None, **rest: Any
    ) -> Any:
        if once and compact_every_s is not None:
            raise click.UsageError("--compact-every is for a running capture: leave out --once")
        if retain_s is not None and compact_every_s is None:
            raise click.UsageError("--retain belongs to --compact-every DURATION: give both")
        background = None
        if compact_every_s is not None:
            background = BackgroundOptions(compact_every_s, retain_s)
        return command(once=once, background=background, **rest)

    return cast("Decorated", _compact_every_option(retain_option(with_background)))


_compact_every_option = click.option(
    "--compact-every",
    "compact_every_s",
    metavar="DURATION",
    type=Duration(least_s=1),
    help="Also compact the archive this often, such as 24h, as `compact-archive` does. "
    "[default: never]",
)
