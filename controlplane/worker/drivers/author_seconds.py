"""Seconds that an author's code passes, as a plain number."""

from math import isnan
from typing import Any

from controlplane.connect.errors import ConnectError


def plain_seconds(caller: str, seconds: Any) -> float:
    """Return seconds as a plain float; an author's subclass may override methods.

    `caller`: the function of the API that got them, for the message.

    Raises:
        ConnectError: they are too large, or no number.
    """
    if not isinstance(seconds, int | float):
        raise ConnectError(f"{caller} needs seconds, not {seconds!r}")
    try:
        plain = float(seconds)
    except OverflowError:
        raise ConnectError(f"{caller} needs seconds, not a number above 10^308") from None
    if isnan(plain):
        raise ConnectError(f"{caller} needs seconds, not {plain!r}")
    return plain
