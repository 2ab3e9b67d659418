"""Fast path for bodies: JSON that every parser reads the same way.

Each function returns the same value as its counterpart in `binding`, or raises `NotPlain`. Then
`binding` reads the body token by token, which is far slower and finds Jackson's error text.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

import msgspec

BYTES_MAX: Final = 1 << 24
NAME_MAX: Final = 10_000
"""Limits of the fast path: longer bodies and names may break a limit of Jackson's."""

_LONGS: Final = range(-(2**63), 2**63)


class NotPlain(Exception):
    """The body needs reading token by token."""


class LargeBody(bytes):
    """A body that takes too long to be read token by token in the serving process."""


class LargeBodyNotPlain(Exception):
    """A large body is not plain, and must be read in another process."""


PlainReader = Callable[[Any], Any]
"""Function from a decoded value to the value of a shape. Raises `NotPlain`."""


def read(body: bytes, plain: PlainReader) -> Any:
    """Return the value of a body. Raises `NotPlain`."""
    if len(body) > BYTES_MAX:
        raise NotPlain
    try:
        decoded = _DECODER.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise NotPlain from None
    result = plain(decoded)
    # If a field is repeated, `decoded` has only its last value, and `plain` has not checked the
    # others. The body then has more strings than `decoded`. Each string has two quotes.
    if _quotes(body) != 2 * _strings(decoded):
        raise NotPlain
    return result


def _quotes(body: bytes) -> int:
    """Number of quotes that delimit strings."""
    return (_ESCAPE.sub(b"", body) if b"\\" in body else body).count(b'"')


_ESCAPE = re.compile(rb"\\.", re.DOTALL)


def _strings(decoded: object) -> int:
    """Number of strings in a decoded value, names included."""
    count, waiting = 0, [decoded]
    for value in waiting:  # the loop also visits the values that it appends
        if isinstance(value, str):
            count += 1
        elif isinstance(value, dict):
            count += len(value)
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return count


def _fraction(_: str) -> NoReturn:
    raise NotPlain


_DECODER: Final = msgspec.json.Decoder[object](float_hook=_fraction)


def texts(value: Any) -> dict[str, str | None] | None:
    """Return a map of texts; numbers and booleans become their spelling."""
    if value is None:
        return None
    return {name: _text(member) for name, member in _named(value)}


def _text(value: Any) -> str | None:
    if value is None or type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is int and value and value in _LONGS:  # zero may have been spelled -0
        return str(value)
    raise NotPlain


def values(value: Any) -> dict[str, Any] | None:
    """Return a map of scalars: a partition, an offset."""
    if value is None:
        return None
    return {name: _scalar(member) for name, member in _named(value)}


def _scalar(value: Any) -> Any:
    if isinstance(value, dict | list) or (type(value) is int and value not in _LONGS):
        raise NotPlain
    return value


def _named(value: Any) -> Any:
    if type(value) is not dict or any(len(name) > NAME_MAX for name in value):
        raise NotPlain
    return value.items()


def bean(fields: Mapping[str, PlainReader]) -> PlainReader:
    """Return the reader of an object of known, optional fields; null becomes None."""

    def plain(value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        if type(value) is not dict or not value.keys() <= fields.keys():
            raise NotPlain
        return {name: fields[name](member) for name, member in value.items()}

    return plain


def list_of(plain_item: PlainReader) -> PlainReader:
    """Return the reader of a list, whose items `plain_item` reads; null becomes None."""

    def plain(value: Any) -> list[Any] | None:
        if value is None:
            return None
        if type(value) is not list:
            raise NotPlain
        return [plain_item(item) for item in value]

    return plain


def text(value: Any) -> str | None:
    """Return a text; other types are not plain."""
    if value is None or type(value) is str:
        return value
    raise NotPlain


offsets: PlainReader = list_of(bean({"partition": values, "offset": values}))
"""Reader of a list of offsets in Kafka's form."""
