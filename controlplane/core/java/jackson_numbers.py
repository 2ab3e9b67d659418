"""Values of number tokens: Jackson's and BigDecimal's arithmetic, release by release."""

from decimal import Decimal
from typing import Final, NamedTuple

from controlplane.core.java.big_decimals import without_negative_zero
from controlplane.core.java.java_library import fits, wrap_long
from controlplane.core.java.json_errors import Undecodable
from controlplane.core.releases.profiles import HugeExponent, Profile

MAX_DIGITS: Final = 1000
"""Limit of Jackson 2.15 (StreamReadConstraints): digits of a number token with its exponent."""

TOO_MANY_DIGITS: Final = f"a number of more than {MAX_DIGITS} digits"

_MAX_EXPONENT_DIGITS: Final = 10
_INT_BITS: Final = 32
"""Limits of java.math.BigDecimal: digits of an exponent, bits of exponent and scale."""

_LONG_TOKEN: Final = 500
"""Minimum characters of a token that Jackson parses to a BigDecimal by FastDoubleParser."""

_LOOPING_NUMBER: Final = "2.2250738585072012e-308"
_LOOPING_DOUBLE: Final = 5e-324
"""Number on which old JDKs loop forever, and the double that Jackson returns for it."""

_DIGITS_AT_ONCE: Final = 4000
"""Most digits that are converted at a time: CPython refuses more than 4300 (quadratic time)."""


def integer(token: str) -> int:
    """Value of an integral token, wrapped to 64 bits."""
    digits = token.removeprefix("-")
    number = 0
    for start in range(0, len(digits), _DIGITS_AT_ONCE):
        part = digits[start : start + _DIGITS_AT_ONCE]
        number = wrap_long(number * 10 ** len(part) + int(part))
    return wrap_long(-number) if token[0] == "-" else number


def _fits_decimal(token: str, *, of_long_tokens: bool) -> bool:
    """True if BigDecimal can hold the exponent of a token.

    `of_long_tokens`: a token of `_LONG_TOKEN` or more characters is read by FastDoubleParser, which
    checks only the scale.
    """
    mantissa, _, exponent = token.lower().partition("e")
    digits = exponent.lstrip("+-").lstrip("0") or "0"
    if len(digits) > _MAX_EXPONENT_DIGITS:
        return False
    power = -int(digits) if exponent.startswith("-") else int(digits)
    scale = len(mantissa.partition(".")[2]) - power
    if of_long_tokens and len(token) >= _LONG_TOKEN:
        return fits(scale, _INT_BITS) and fits(-scale, _INT_BITS)
    return fits(scale, _INT_BITS) and fits(power, _INT_BITS)


def big_decimal(token: str) -> Decimal:
    """Decimal of a token with a fraction or exponent, as current releases read it.

    Raises:
        Undecodable: it has too many digits, or its exponent is too large.
    """
    if len(token) > MAX_DIGITS < sum(map(str.isdigit, token)):
        raise Undecodable(TOO_MANY_DIGITS)
    if not _fits_decimal(token, of_long_tokens=True):
        raise Undecodable("an exponent beyond 2**31")
    return without_negative_zero(Decimal(token))


_INFINITIES: Final = (float("inf"), float("-inf"))
_SURVIVORS: Final[dict[HugeExponent, tuple[float, ...]]] = {
    "infinity_or_zero": (*_INFINITIES, 0.0),
    "infinity_only": _INFINITIES,
    "undecodable": (),
}
"""Doubles that are accepted for a number whose exponent is too large for BigDecimal."""


class NumberRules(NamedTuple):
    """The behaviours of a profile that affect numbers, small enough for a cache key."""

    limited: bool
    """True if the limits of Jackson 2.15 hold."""
    as_double: bool
    """True if a token becomes a double directly, without a BigDecimal in between."""
    huge_exponent: HugeExponent


def number_rules(profile: Profile) -> NumberRules:
    """The rules by which a release's Jackson reads numbers."""
    return NumberRules(profile.json_limits, profile.json_negative_zero, profile.json_huge_exponent)


def floating(token: str, rules: NumberRules) -> float:
    """Double of a token with a fraction or exponent, as a release's Jackson reads it.

    Raises:
        Undecodable: it has too many digits, or its exponent is too large.
    """
    if rules.limited and len(token) > MAX_DIGITS < sum(map(str.isdigit, token)):
        raise Undecodable(TOO_MANY_DIGITS)
    if token == _LOOPING_NUMBER and rules.as_double:
        return _LOOPING_DOUBLE
    number = float(token)
    if number == 0 or number in _INFINITIES:
        return _zero_or_infinite(token, number, rules)
    return number


def _zero_or_infinite(token: str, number: float, rules: NumberRules) -> float:
    """Double of a token that is zero or infinite, perhaps through its exponent alone."""
    survivors = _SURVIVORS[rules.huge_exponent]
    # Only releases that refuse such numbers ("undecodable") read long tokens by FastDoubleParser.
    has_decimal = _fits_decimal(token, of_long_tokens=not survivors)
    if not has_decimal and number not in survivors:
        raise Undecodable("an exponent beyond 2**31")
    is_zero = not token.lower().partition("e")[0].strip("-0.")
    # A BigDecimal has no negative zero.
    return 0.0 if is_zero and has_decimal and not rules.as_double else number
