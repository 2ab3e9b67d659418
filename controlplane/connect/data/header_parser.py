"""Parser for the strings of headers (`Values.parseString`): values whose types are guessed."""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from controlplane.connect.data import predefined
from controlplane.connect.data.header_schemas import CommonSchema, convert
from controlplane.connect.data.logical_types import DAY_MS, to_logical
from controlplane.connect.data.schema import Schema, SchemaAndValue, frozen
from controlplane.connect.data.schema_type import BITS, SchemaType
from controlplane.connect.errors import DataError
from controlplane.core.java.big_decimals import parse_decimal, round_to_float, scale_of
from controlplane.core.java.jackson_text import joined
from controlplane.core.java.java_library import fits, trim, utf16_units
from controlplane.core.java.simple_date_format import (
    DATE_PATTERN,
    TIME_PATTERN,
    TIMESTAMP_PATTERN,
    parse_date,
)

_TEMPORAL_SCHEMAS: Final[Mapping[int, tuple[Schema, str]]] = {
    len("HH:mm:ss.SSSZ"): (predefined.TIME, TIME_PATTERN),
    len("yyyy-MM-ddTHH:mm:ss.SSSZ"): (predefined.TIMESTAMP, TIMESTAMP_PATTERN),
    len("yyyy-MM-dd"): (predefined.DATE, DATE_PATTERN),
}
"""Schema and date pattern by the length of the text."""

_INTEGERS: Final = (predefined.INT8, predefined.INT16, predefined.INT32, predefined.INT64)
_BIGGER_THAN_LONG: Final = Decimal(10**19)
_DELIMITERS: Final = frozenset(':,{}[]"')
_BOOLEANS: Final = {"true": True, "false": False}
_DIGIT: Final = re.compile(r"\d")


def parse_header(text: str) -> SchemaAndValue:
    """The value that a header's string stands for, with its schema.

    `7` is an INT8, `1.5` a FLOAT32, `true` a BOOLEAN, `2024-01-31` a DATE, `[1,2]` an array. Maps,
    times and timestamps are recognised as well; `null` is null without a schema. Other text is a
    STRING, even a date that Python does not have. Arrays and maps get the schema that fits all of
    their elements, if there is one.

    Raises:
        DataError: the string is nested too deeply.
    """
    if not text:
        return SchemaAndValue(text, predefined.STRING)
    units = text if text.isascii() else "".join(map(chr, utf16_units(text)))
    try:
        return _HeaderParser(units).parse(embedded=False) or SchemaAndValue(None)
    except DataError:
        return SchemaAndValue(text, predefined.STRING)
    except RecursionError as error:
        raise DataError("The header is nested too deeply") from error


class _HeaderTokens:
    """The tokens of a string: delimiters, and the text between them (`Values.Parser`)."""

    def __init__(self, units: str) -> None:
        self.units = units
        self.at = 0
        self.previous = ""
        self._next: str | None = None

    @property
    def mark(self) -> int:
        """Position of the next token, in UTF-16 units."""
        return self.at - len(self._next or "")

    def rewind(self, position: int) -> None:
        """Continue at a position that `mark` has returned."""
        self.at, self._next, self.previous = position, None, ""

    def has_next(self) -> bool:
        """True if a token is left."""
        return self._next is not None or self.at < len(self.units)

    def next(self) -> str:
        """Take the next token: a delimiter, or the text up to one."""
        self.previous, self._next = self._next or self._read(), None
        return self.previous

    def next_four(self) -> str | None:
        """Take four tokens as one text. If fewer are left, take none and return None."""
        start = self.mark
        for _ in range(4):
            if not self.has_next():
                self.rewind(start)
                return None
            self.next()
        return self.units[start : self.at]

    def take(self, expected: str) -> bool:
        """Take the next token if it is this one, apart from white space at its ends.

        Tokens of white space before it are skipped.
        """
        if self._next is None:
            if not self.has_next():
                return False
            self._next = self._read()
        while not trim(self._next) and self.at < len(self.units):
            self._next = self._read()
        if trim(self._next) != expected:
            return False
        self._next = None
        return True

    def _read(self) -> str:
        """Read a delimiter, or the text up to the next delimiter without a backslash before it."""
        start, escaped = self.at, False
        while self.at < len(self.units):
            unit = self.units[self.at]
            if unit in _DELIMITERS and not escaped:
                if start == self.at:
                    self.at += 1
                break
            escaped = unit == "\\" and not escaped
            self.at += 1
        return self.units[start : self.at]


class _HeaderParser:
    """Recursive parser of the values in a string (`Values.ValueParser`)."""

    def __init__(self, units: str) -> None:
        self._tokens = _HeaderTokens(units)

    def parse(self, *, embedded: bool) -> SchemaAndValue | None:
        """The next value; None for null, and at the end. `embedded`: within an array or map.

        Raises:
            DataError: the string has no value here.
        """
        tokens = self._tokens
        if not tokens.has_next():
            return None
        if embedded and tokens.take('"'):
            return self._quoted()
        if self._take_word("null", embedded=embedded):
            return None
        for word, truth in _BOOLEANS.items():
            if self._take_word(word, embedded=embedded):
                return SchemaAndValue(truth, predefined.BOOLEAN)
        start = tokens.mark
        try:
            if tokens.take("["):
                return self._array()
            if tokens.take("{"):
                return self._map()
        except DataError:
            # A malformed array or map is text.
            tokens.rewind(start)
        token = tokens.next()
        stripped = trim(token)
        if not stripped:
            return SchemaAndValue(joined(token), predefined.STRING)
        return self._scalar(stripped, embedded=embedded)

    def _take_word(self, word: str, *, embedded: bool) -> bool:
        """Take a word. A top-level word must be the whole string."""
        start = self._tokens.mark
        if self._tokens.take(word) and (embedded or not self._tokens.has_next()):
            return True
        self._tokens.rewind(start)
        return False

    def _scalar(self, token: str, *, embedded: bool) -> SchemaAndValue:
        """A date, a number, or the whole string as text.

        Raises:
            DataError: an embedded value is neither a date nor a number.
        """
        is_digit = _DIGIT.match(token) is not None
        if is_digit and (temporal := self._temporal_of_tokens(token)):
            return temporal
        if is_digit or token[0] in "+-":
            number = parse_decimal(token)
            if number is not None:
                return _number(number)
        if embedded:
            raise DataError("Failed to parse embedded value")
        return SchemaAndValue(joined(self._tokens.units), predefined.STRING)

    def _temporal_of_tokens(self, token: str) -> SchemaAndValue | None:
        """Parse a date, time or timestamp. A time with two colons is five tokens."""
        position = self._tokens.mark
        following = self._tokens.next_four()
        if following is not None and (temporal := _temporal(token + following)):
            return temporal
        self._tokens.rewind(position)
        return _temporal(token)

    def _quoted(self) -> SchemaAndValue:
        pieces: list[str] = []
        while self._tokens.has_next():
            if self._tokens.take('"'):
                break
            pieces.append(self._tokens.next())
        content = "".join(pieces)
        return _temporal(content) or SchemaAndValue(joined(content), predefined.STRING)

    def _array(self) -> SchemaAndValue:
        tokens = self._tokens
        elements: list[Any] = []
        common = CommonSchema()
        while tokens.has_next():
            if tokens.take("]"):
                if common.schema is not None:
                    member = common.schema
                    elements = [convert(member, element) for element in elements]
                return SchemaAndValue(elements, Schema(SchemaType.ARRAY, value=common.schema))
            if tokens.take(","):
                raise DataError("Unable to parse an empty array element")
            element = self.parse(embedded=True)
            common.merge(element)
            elements.append(element.value if element else None)
            position = tokens.mark
            # The loop takes the bracket again, and ends.
            if tokens.take("]"):
                tokens.rewind(position)
            elif not tokens.take(","):
                raise DataError("Array elements missing ',' delimiter")
        raise DataError("Array is missing terminating ']'")

    def _map(self) -> SchemaAndValue:
        tokens = self._tokens
        entries: _Entries = {}
        keys, values = CommonSchema(), CommonSchema()
        while tokens.has_next():
            if tokens.take("}"):
                return _map_of_schema(entries, keys.schema, values.schema)
            if tokens.take(","):
                raise DataError("Unable to parse a map entry with no key or value")
            key = self.parse(embedded=True)
            if key is None or key.value is None:
                raise DataError("Map entry may not have a null key")
            if not tokens.take(":"):
                raise DataError("Map entry is missing ':'")
            member = self.parse(embedded=True)
            entries[frozen(key.value)] = (hashable(key.value), member.value if member else None)
            tokens.take(",")
            keys.merge(key)
            values.merge(member)
        raise DataError("Map is missing terminating '}'")


def hashable(key: Any) -> Any:
    """A map's key as a key of a Python dict: a list becomes a tuple.

    Raises:
        DataError: the key is a map, which Python does not allow.
    """
    if isinstance(key, list):
        return tuple(map(hashable, key))
    if isinstance(key, dict):
        raise DataError("A map cannot be the key of a map in Python")
    return key


_Entries = dict[Any, tuple[Any, Any]]
"""Pairs (key, value) of a map. The dict finds each pair by the `frozen` form of its key.

Without this form, a Python dict would take the keys 1, 1.0 and True as one key. In Java, these keys
are not equal.
"""


def _map_of_schema(entries: _Entries, keys: Schema | None, values: Schema | None) -> SchemaAndValue:
    """A map whose keys and values are converted to their common schemas, if there are any.

    Raises:
        DataError: Python takes two different keys as one, such as 1 and True.
    """
    # As in Kafka, values are converted only if the keys have a common schema, too.
    values = values if keys else None
    as_key: Callable[[Any], Any] = (lambda key: convert(keys, key)) if keys else (lambda key: key)
    as_value: Callable[[Any], Any] = (
        (lambda value: convert(values, value)) if values else (lambda value: value)
    )
    pairs = [(hashable(as_key(key)), as_value(value)) for key, value in entries.values()]
    aligned = dict(pairs)
    if len(aligned) < len({frozen(key) for key, _ in pairs}):
        raise DataError("Different keys of the map are equal in Python")
    return SchemaAndValue(aligned, Schema(SchemaType.MAP, key=keys, value=values))


def _number(number: Decimal) -> SchemaAndValue:
    """A number with the smallest type that Kafka chooses for it (`Values.parseAsNumber`)."""
    integer = _integer_value(number)
    if integer is not None:
        for schema in _INTEGERS:
            if fits(integer, BITS[schema.type]):
                return SchemaAndValue(integer, schema)
    scale = scale_of(number)
    if scale:
        infinities = (float("inf"), float("-inf"))
        if (small := round_to_float(number)) not in infinities:
            return SchemaAndValue(small, predefined.FLOAT32)
        if (large := float(number)) not in infinities:
            return SchemaAndValue(large, predefined.FLOAT64)
    return SchemaAndValue(number, Schema.decimal(scale))


def _integer_value(number: Decimal) -> int | None:
    """The number as an int; None: it has a fraction or exceeds 10**19."""
    size = number.copy_abs()
    if size > _BIGGER_THAN_LONG or 0 < size < 1:
        return None
    if not number:
        return 0
    return int(number) if number == number.to_integral_value() else None


def _temporal(text: str) -> SchemaAndValue | None:
    """A date, a time or a timestamp, depending on the length; None: none of them.

    Raises:
        DataError: Python does not have this day or time.
    """
    unescaped = text.replace("\\:", ":")
    if len(unescaped) not in _TEMPORAL_SCHEMAS:
        return None
    schema, pattern = _TEMPORAL_SCHEMAS[len(unescaped)]
    milliseconds = parse_date(unescaped, pattern)
    if milliseconds is None:
        return None
    raw = milliseconds // DAY_MS if schema is predefined.DATE else milliseconds
    return SchemaAndValue(to_logical(schema, raw), schema)
