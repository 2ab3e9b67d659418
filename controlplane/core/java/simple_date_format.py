"""Dates as `java.text.SimpleDateFormat` and `java.util.Date` read and write them, in UTC.

The patterns are those of Kafka Connect, abbreviated.

Reading is lenient, as Java's is by default: `2024-13-01` is the first of January 2025. Text after
the value is left unread. Days before 15 October 1582 are those of the Julian calendar.
"""

import re
import unicodedata
from datetime import date
from itertools import accumulate
from typing import Final

from controlplane.core.java.java_library import fits, narrow_int

DATE_PATTERN: Final = "y-M-d"
TIME_PATTERN: Final = "H:m:s.S'Z"
TIMESTAMP_PATTERN: Final = f"{DATE_PATTERN}'T{TIME_PATTERN}"
"""Patterns of Kafka Connect, abbreviated: one letter per field, a quote before a literal letter.

Connect's own pattern for a timestamp is `yyyy-MM-dd'T'HH:mm:ss.SSS'Z'`.
"""

_DAY_MS: Final = 86_400_000
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_CUTOVER_YEAR: Final = 1582
_CUTOVER: Final = date(1582, 10, 15).toordinal()
"""The first day of the Gregorian calendar, as a number of days from the year 1."""

_MONTHS: Final = [
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
]
_WEEKDAYS: Final = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
_CYCLE: Final = 400
"""Years after which the Gregorian calendar repeats."""
_CYCLE_DAYS: Final = 146_097
"""Days of such a cycle."""
_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30)
_DAYS_BEFORE: Final = tuple(accumulate(_LENGTHS, initial=0))
"""Days of a common year before each month."""

_FIELD_MS: Final = {"H": 3_600_000, "m": 60_000, "s": 1000, "S": 1}
_FIELD: Final = re.compile(r"[ \t]*(-?)(\d+)(?:E(-?)(\d+))?")
_LONG_BITS: Final = 64
_LONG_DIGITS: Final = 20
"""Every number with so many digits exceeds a `long`."""
_INT_MAX: Final = 2**31 - 1


def parse_date(text: str, pattern: str) -> int | None:
    """Milliseconds since 1970 of the date at the front of a text; None: no such date is there."""
    fields = {"y": 1970, "M": 1, "d": 1} | dict.fromkeys(_FIELD_MS, 0)
    at = 0
    symbols = iter(pattern)
    for symbol in symbols:
        if symbol in fields:
            number = _FIELD.match(text, at)
            if number is None:
                return None
            fields[symbol], at = _int_value(number), number.end()
            continue
        literal = next(symbols) if symbol == "'" else symbol
        if text[at : at + 1] != literal:
            return None
        at += 1
    time_ms = sum(fields[name] * unit for name, unit in _FIELD_MS.items())
    days, time_ms = divmod(time_ms, _DAY_MS)
    return (
        _day_number(fields["y"], fields["M"], fields["d"], days) - _EPOCH_DAY
    ) * _DAY_MS + time_ms


def _int_value(number: re.Match[str]) -> int:
    """`NumberFormat.parse(…).intValue()`: an integer wraps, a double stops at a limit of `int`."""
    sign, digits, power_sign, power = number.groups()
    size = int("".join(str(unicodedata.decimal(digit)) for digit in digits))
    if power:
        exponent = int("".join(str(unicodedata.decimal(digit)) for digit in power))
        # The exponent may be of any size, so powers of ten are computed only as far as necessary.
        if power_sign:
            size = size // 10**exponent if exponent < len(digits) else 0
        else:
            size *= 10 ** min(exponent, _LONG_DIGITS)
    value = -size if sign else size
    if not fits(value, _LONG_BITS):
        return _INT_MAX if value > 0 else -_INT_MAX - 1
    return narrow_int(value)


def _day_number(year: int, month: int, day: int, extra_days: int) -> int:
    """Number of a day, 1 for 1 January of the year 1, by the calendar in force at that time.

    Java: a lenient GregorianCalendar. Months and days may be of any size.
    """
    gregorian = _first_of_month(year, month, gregorian=True) + day - 1 + extra_days
    julian = _first_of_month(year, month, gregorian=False) + day - 1 + extra_days
    # A written year before the cutover is Julian, even if months and days lead beyond it.
    return julian if year < _CUTOVER_YEAR or gregorian < _CUTOVER else gregorian


def _first_of_month(year: int, month: int, *, gregorian: bool) -> int:
    years, month = divmod(month - 1, 12)
    year += years
    years_before = year - 1
    # The Julian year 1 began two days before the Gregorian one.
    leaps = years_before // 4 - (years_before // 100 - years_before // _CYCLE if gregorian else 2)
    is_leap = not year % 4 and (not gregorian or bool(year % 100) or not year % _CYCLE)
    return years_before * 365 + leaps + _DAYS_BEFORE[month] + (is_leap and month > 1) + 1


def format_date(milliseconds: int, pattern: str) -> str:
    """Format a time (ms since 1970) by a pattern: years in 4 digits, ms in 3, the rest in 2."""
    days, time_ms = divmod(milliseconds, _DAY_MS)
    year, month, day = _calendar_day(days + _EPOCH_DAY)
    seconds, millis = divmod(time_ms, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    fields = {"y": f"{year:04}", "M": f"{month:02}", "d": f"{day:02}", "H": f"{hour:02}"}
    fields |= {"m": f"{minute:02}", "s": f"{second:02}", "S": f"{millis:03}"}
    return "".join(fields.get(symbol, symbol) for symbol in pattern if symbol != "'")


def date_text(milliseconds: int) -> str:
    """`Date.toString` in UTC: `Thu Jan 01 00:00:00 UTC 1970`."""
    day_number = milliseconds // _DAY_MS + _EPOCH_DAY
    year, month, day = _calendar_day(day_number)
    time = format_date(milliseconds, "H:m:s")
    return f"{_WEEKDAYS[(day_number - 1) % 7]} {_MONTHS[month - 1]} {day:02} {time} UTC {year}"


def _calendar_day(day_number: int) -> tuple[int, int, int]:
    """Year within the era (AD or BC), month and day of a day's number (`_day_number`).

    The years 1 BC and AD 1 both give 1.
    """
    gregorian = day_number >= _CUTOVER
    # An estimate by Gregorian years, which the loops correct.
    year = day_number * _CYCLE // _CYCLE_DAYS + 1
    while _first_of_month(year, 1, gregorian=gregorian) > day_number:
        year -= 1
    while _first_of_month(year + 1, 1, gregorian=gregorian) <= day_number:
        year += 1
    month = 12
    while _first_of_month(year, month, gregorian=gregorian) > day_number:
        month -= 1
    day = day_number - _first_of_month(year, month, gregorian=gregorian) + 1
    return year if year > 0 else 1 - year, month, day
