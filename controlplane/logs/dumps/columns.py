"""The columns of the console consumer's output: which there are, and how to take a line apart."""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from controlplane.logs.dumps.dump import Unreadable

TAB = b"\t"
NO_HEADERS = b"NO_HEADERS"

_TIME = rb"(?:(?:CreateTime|LogAppendTime):(?P<timestamp>-?\d{1,18})|NO_TIMESTAMP)"
_LABELLED = {
    "timestamp": _TIME,
    "partition": rb"Partition:(?P<partition>\d{1,9})",
    "offset": rb"Offset:(?P<offset>\d{1,18})",
    "delivery": rb"Delivery:[\w-]+",
    "epoch": rb"Epoch:[\w-]+",
}
"""Columns that can be told by their look, in the order in which they are printed."""

_LABEL = re.compile(
    rb"(?:(?:CreateTime|LogAppendTime):-?\d+|NO_TIMESTAMP|Partition:\d+|Offset:\d+)"
    rb'(?P<separator>\t|[^\w\[{"]+)'
)
_HEADERS = re.compile(rb"NO_HEADERS|[^:,\[{]+:.*", re.DOTALL)


class Row(NamedTuple):
    """A line taken apart; what was not printed is None."""

    timestamp: int | None
    partition: int | None
    offset: int | None
    headers: bytes
    key: bytes
    value: bytes


class Layout(NamedTuple):
    """Which columns every line of one file has."""

    names: tuple[str, ...]
    """In order, `key` and `value` among them; for people."""
    separator: bytes
    labelled: re.Pattern[bytes]
    has_headers: bool
    partition_is_last: bool
    has_carriage_return: bool
    """Some program has changed line breaks to those of Windows."""
    null: bytes

    def row(self, text: bytes) -> Row:
        """Take a line apart.

        Raises:
            Unreadable: it has other columns.
        """
        match = self.labelled.match(text)
        if not match:
            raise Unreadable(f"does not begin with the columns {', '.join(self.names)}")
        found = match.groupdict()
        rest = text[match.end() :].removesuffix(b"\r" if self.has_carriage_return else b"")
        headers, rest = self._first(rest) if self.has_headers else (NO_HEADERS, rest)
        if self.partition_is_last:
            rest, _, found["partition"] = rest.rpartition(self.separator)
        key, value = self._key_and_value(rest)
        return Row(
            _number(found.get("timestamp")),
            _number(found.get("partition")),
            _number(found.get("offset")),
            headers,
            key,
            value,
        )

    def _first(self, text: bytes) -> tuple[bytes, bytes]:
        first, separator, rest = text.partition(self.separator)
        if not separator:
            raise Unreadable(f"lacks some of the columns {', '.join(self.names)}")
        return first, rest

    def _key_and_value(self, text: bytes) -> tuple[bytes, bytes]:
        """Connect's keys hold no tab; another separator may occur in a key, too."""
        if self.separator == TAB:
            return self._first(text)
        tombstone = self.separator + self.null
        if text.endswith(tombstone):
            return text.removesuffix(tombstone), self.null
        start = _json_end(text)
        at = text.find(self.separator + b"{", start)
        at = at if at >= 0 else text.find(self.separator, start)
        if at < 0:
            raise Unreadable(f"lacks some of the columns {', '.join(self.names)}")
        return text[:at], text[at + len(self.separator) :]


def is_labelled(line: bytes) -> bool:
    """Whether a line begins with a column that only the console consumer prints."""
    return bool(_LABEL.match(line))


def layout_of(line: bytes, null: bytes) -> Layout:
    """The columns of a file, as its first record shows them."""
    label = _LABEL.match(line)
    separator = label["separator"] if label else TAB
    names, labelled = _labelled(line, separator)
    match = labelled.match(line)
    cells = line[match.end() if match else 0 :].rstrip(b"\r").split(separator)
    partition_is_last = _partition_is_last(names, cells)
    has_headers = len(cells) > 2 and not partition_is_last and bool(_HEADERS.fullmatch(cells[0]))
    return Layout(
        (
            *names,
            *(["headers"] if has_headers else []),
            *("key", "value"),
            *(["partition"] if partition_is_last else []),
        ),
        separator,
        labelled,
        has_headers,
        partition_is_last,
        line.endswith(b"\r"),
        null,
    )


def _labelled(line: bytes, separator: bytes) -> tuple[list[str], re.Pattern[bytes]]:
    """The labelled columns that this line begins with, and a pattern for exactly those."""
    names: list[str] = []
    pattern = b""
    for name, column in _LABELLED.items():
        longer = pattern + column + re.escape(separator)
        if re.match(longer, line):
            names.append(name)
            pattern = longer
    return names, re.compile(pattern)


def _partition_is_last(names: Sequence[str], cells: Sequence[bytes]) -> bool:
    """Whether this is the form of 2.4 to 2.6: a bare number behind the value, no new columns."""
    is_old = not {"partition", "offset"} & set(names) and cells[0] != NO_HEADERS
    return is_old and len(cells) > 2 and cells[-1].isdigit()


def _json_end(text: bytes) -> int:
    """Where a key that is a JSON array ends; 0 for other keys."""
    if not text.startswith(b"["):
        return 0
    readable = text.decode("utf-8", "surrogateescape")
    try:
        _, end = json.JSONDecoder().raw_decode(readable)
    except (ValueError, RecursionError):
        return 0
    return len(readable[:end].encode("utf-8", "surrogateescape"))


def _number(digits: bytes | None) -> int | None:
    if digits is None:
        return None
    try:
        return int(digits)
    except ValueError as error:
        raise Unreadable(f"has {digits[:20]!r} where a number should be") from error
