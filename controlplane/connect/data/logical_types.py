"""Logical types: Python's dates, times and decimals, and the raw values that Connect stores.

Connect counts days or milliseconds. A part of a millisecond is cut off.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from controlplane.connect.data.schema import Schema
from controlplane.connect.data.schema_type import (
    DATE_NAME,
    DECIMAL_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
)
from controlplane.connect.errors import DataError
from controlplane.core.java.big_decimals import decimal_of, scale_of, unscaled
from controlplane.core.java.java_library import parse_int

DAY_MS: Final = 86_400_000
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND: Final = dt.timedelta(milliseconds=1)
_EPOCH_DAY: Final = _EPOCH.toordinal()
_FIRST_DAY: Final = 1 - _EPOCH_DAY
_LAST_DAY: Final = dt.date.max.toordinal() - _EPOCH_DAY
"""Range of days since 1970 that a Python date can have."""


def epoch_ms(value: dt.date | dt.time) -> int:
    """Milliseconds since 1970 of a date, a moment or a time of day (`Date.getTime`)."""
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return (moment - _EPOCH) // _MILLISECOND
    if isinstance(value, dt.date):
        return (value.toordinal() - _EPOCH_DAY) * DAY_MS
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1000 + value.microsecond // 1000


def moment_of(milliseconds: int) -> dt.datetime:
    """The moment in UTC at a number of milliseconds since 1970.

    Raises:
        DataError: the moment is before the year 1 or after 9999.
    """
    if not _FIRST_DAY <= milliseconds // DAY_MS <= _LAST_DAY:
        raise DataError(f"Python has no datetime for {milliseconds} ms since 1970")
    return _EPOCH + milliseconds * _MILLISECOND


def from_logical(schema: Schema, value: Any) -> Any:
    """The number or bytes that Connect stores for a value of a logical type.

    Raises:
        DataError: the value does not fit; the message is Kafka's.
    """
    return _TO_RAW[schema.name or ""](schema, value)


def to_logical(schema: Schema, raw: Any) -> Any:
    """The value of a logical type; `raw` is the number or the bytes that Connect stores.

    Raises:
        DataError: Connect or Python has no such value.
    """
    return _FROM_RAW[schema.name or ""](schema, raw)


def _from_date(_schema: Schema, value: dt.date) -> int:
    days, rest = divmod(epoch_ms(value), DAY_MS)
    if rest:
        raise DataError(
            "Kafka Connect Date type should not have any time fields set to non-zero values."
        )
    return days


def _from_time(_schema: Schema, value: dt.time) -> int:
    return epoch_ms(value)


def _from_timestamp(_schema: Schema, value: dt.datetime) -> int:
    return epoch_ms(value)


def _from_decimal(schema: Schema, value: Decimal) -> bytes:
    scale, value_scale = _scale(schema), scale_of(value)
    if value_scale != scale:
        raise DataError(
            "Decimal value has mismatching scale for given Decimal schema. "
            f"Schema has scale {scale}, value has scale {value_scale}."
        )
    number = unscaled(value)
    # The fewest bytes with room for the sign, as returned by `BigInteger.toByteArray`.
    width = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(width, signed=True)


def _to_date(_schema: Schema, days: int) -> dt.date:
    if not _FIRST_DAY <= days <= _LAST_DAY:
        raise DataError(f"Python has no date for {days} days since 1970")
    return dt.date.fromordinal(days + _EPOCH_DAY)


def _to_time(_schema: Schema, milliseconds: int) -> dt.time:
    if not 0 <= milliseconds <= DAY_MS:
        raise DataError(
            "Time values must use number of milliseconds greater than 0 and less than 86400000"
        )
    if milliseconds == DAY_MS:
        raise DataError("Python has no time 24:00")
    return (_EPOCH + milliseconds * _MILLISECOND).time()


def _to_timestamp(_schema: Schema, milliseconds: int) -> dt.datetime:
    return moment_of(milliseconds)


def _to_decimal(schema: Schema, content: bytes) -> Decimal:
    return decimal_of(int.from_bytes(content, signed=True), _scale(schema))


def _scale(schema: Schema) -> int:
    text = (schema.parameters or {}).get("scale")
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    scale = parse_int(text)
    if scale is None:
        raise DataError("Invalid scale parameter found in Decimal schema: ")
    return scale


_TO_RAW: Final[Mapping[str, Callable[[Schema, Any], Any]]] = {
    DATE_NAME: _from_date,
    TIME_NAME: _from_time,
    TIMESTAMP_NAME: _from_timestamp,
    DECIMAL_NAME: _from_decimal,
}
_FROM_RAW: Final[Mapping[str, Callable[[Schema, Any], Any]]] = {
    DATE_NAME: _to_date,
    TIME_NAME: _to_time,
    TIMESTAMP_NAME: _to_timestamp,
    DECIMAL_NAME: _to_decimal,
}
