"""Numbers as options: an error names the valid range."""

import math
from typing import Any

import click

from controlplane.core.moments import quoted


def _valid_range(number: click.IntRange | click.FloatRange) -> str:
    """Valid range in words: `from 0 to 65535`, `from 1 on`, `above 0`."""
    if number.max is not None:
        return f"from {number.min} to {number.max}"
    return f"above {number.min:g}" if number.min_open else f"from {number.min:g} on"


class WholeNumber(click.IntRange):
    """Whole number in a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the number, as click does."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{quoted(str(value))} is no whole number {_valid_range(self)}", param, ctx)


class Number(click.FloatRange):
    """Number in a range, with decimals."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the number, as click does; refuse infinity and NaN."""
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"{quoted(str(value))} is no number {_valid_range(self)}", param, ctx)
        return number
