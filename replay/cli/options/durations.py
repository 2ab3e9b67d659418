"""Durations as options take them: a number and a unit, such as `90d`."""

import re
from typing import Any

import click

from controlplane.core.text.safe_text import safe

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
"""Units, in seconds."""

_FORM = re.compile(r"(\d{1,9})([smhd])", re.ASCII)


class Duration(click.ParamType[int]):
    """Number of seconds, minutes, hours or days; the command gets seconds.

    `least_s` is the shortest accepted duration. `never` is a word for 0 seconds, which is accepted
    even if `least_s` is greater.
    """

    name = "duration"

    def __init__(self, least_s: int = 0, never: str | None = None) -> None:
        self._least_s = least_s
        self._never = never

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read a duration. Raises `BadParameter` for any other text."""
        if isinstance(value, int):
            return value
        if value == self._never:
            return 0
        match = _FORM.fullmatch(str(value))
        if match is None:
            self.fail(
                f"{safe(str(value))[:60]!r} is no duration: write a number and s, m, h or d, "
                "such as 90d",
                param,
                ctx,
            )
        seconds = int(match[1]) * SECONDS[match[2]]
        if seconds < self._least_s:
            self.fail(f"{value} is too short: the least is {self._least_s}s", param, ctx)
        return seconds


def option_duration(seconds: int) -> str:
    """Write a duration as an option takes it, in the greatest unit that divides it."""
    units = (unit for unit in reversed(SECONDS) if seconds % SECONDS[unit] == 0)
    unit = next(units)
    return f"{seconds // SECONDS[unit]}{unit}"


retain_option = click.option(
    "--retain",
    "retain_s",
    metavar="DURATION",
    type=Duration(),
    help="Remove each record that a later record replaced at least this long ago, such as 90d. "
    "[default: no record is removed]",
)
