"""Options for a compaction beside a running capture."""

import functools
from typing import Any, NamedTuple, cast

import click

from controlplane.terminal.option_names import Decorated
from replay.cli.options.durations import Duration, option_duration, retain_option

DEFAULT_EVERY_S = 86_400
"""Default interval of compactions: a day, in seconds.

A capture that looks every minute then adds at most 1,440 manifests between two merges.
"""

_NEVER = "never"
"""Word of `--compact-every` for no compaction."""


class BackgroundOptions(NamedTuple):
    """Interval and work of the compactions of a capture."""

    every_s: int
    retain_s: int | None = None


def background_options(command: Decorated) -> Decorated:
    """Add `--compact-every` and `--retain` to a command with `--once`; it gets `background`.

    `background` is None without a compaction: with `--once`, or with `--compact-every never`.
    """

    @functools.wraps(command)
    def with_background(
        *, once: bool, compact_every_s: int | None, retain_s: int | None, **rest: Any
    ) -> Any:
        if once and compact_every_s:
            raise click.UsageError("--compact-every is for a running capture: leave out --once")
        every_s = DEFAULT_EVERY_S if compact_every_s is None else compact_every_s
        if retain_s is not None and (once or not every_s):
            raise click.UsageError("--retain needs a running capture that compacts the archive")
        background = None if once or not every_s else BackgroundOptions(every_s, retain_s)
        return command(once=once, background=background, **rest)

    return cast("Decorated", _compact_every_option(retain_option(with_background)))


_compact_every_option = click.option(
    "--compact-every",
    "compact_every_s",
    metavar="DURATION",
    type=Duration(least_s=1, never=_NEVER),
    help="Compact the archive this often while the capture runs, as `compact-archive` does; "
    f"{_NEVER}: leave it as it is. [default: {option_duration(DEFAULT_EVERY_S)}]",
)
