"""Columns of the console consumer's output: detection of the columns, and parsing of lines."""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from controlplane.logs.dumps.dump import DumpLineError

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
"""Columns with a recognisable form, in the order in which the tool prints them."""

_LABEL = re.compile(
    rb"(?:(?:CreateTime|LogAppendTime):-?\d+|NO_TIMESTAMP|Partition:\d+|Offset:\d+)"
    rb'(?P<separator>\t|[^\w\[{"]+)'
)
_NUMBER = re.compile(rb"-?\d{1,18}")
_HEADERS = re.compile(rb"NO_HEADERS|[^:,\[{]+:.*", re.DOTALL)


class ConsoleRow(NamedTuple):
    """Cells of a line. For a missing column, a number is None, and `headers` is `NO_HEADERS`."""

    timestamp: int | None
    partition: int | None
    offset: int | None
    headers: bytes
    key: bytes
    value: bytes


class ColumnLayout(NamedTuple):
    """Columns that every line of a file has."""

    names: tuple[str, ...]
    """Names in order, including `key` and `value`; used in messages."""
    separator: bytes
    labelled: re.Pattern[bytes]
    has_headers: bool
    partition_is_last: bool
    has_carriage_return: bool
    """True if another program has converted line breaks to CR LF."""
    null: bytes

    def row(self, text: bytes) -> ConsoleRow:
        """Split a line into cells.

        Raises:
            DumpLineError: the line has other columns.
        """
        match = self.labelled.match(text)
        if not match:
            raise DumpLineError(f"does not begin with the columns {', '.join(self.names)}")
        groups = match.groupdict()
        rest = text[match.end() :].removesuffix(b"\r" if self.has_carriage_return else b"")
        headers, rest = self._split_first(rest) if self.has_headers else (NO_HEADERS, rest)
        if self.partition_is_last:
            rest, _, groups["partition"] = rest.rpartition(self.separator)
        key, value = self._key_and_value(rest)
        return ConsoleRow(
            _number(groups.get("timestamp")),
            _number(groups.get("partition")),
            _number(groups.get("offset")),
            headers,
            key,
            value,
        )

    def _split_first(self, text: bytes) -> tuple[bytes, bytes]:
        first, separator, rest = text.partition(self.separator)
        if not separator:
            raise DumpLineError(f"lacks some of the columns {', '.join(self.names)}")
        return first, rest

    def _key_and_value(self, text: bytes) -> tuple[bytes, bytes]:
        """Split key and value. Connect's keys contain no tab, but may contain another separator."""
        if self.separator == TAB:
            return self._split_first(text)
        tombstone = self.separator + self.null
        if text.endswith(tombstone):
            return text.removesuffix(tombstone), self.null
        start = _json_end(text)
        at = text.find(self.separator + b"{", start)
        at = at if at >= 0 else text.find(self.separator, start)
        if at < 0:
            raise DumpLineError(f"lacks some of the columns {', '.join(self.names)}")
        return text[:at], text[at + len(self.separator) :]


def is_labelled(line: bytes) -> bool:
    """Return True if a line begins with a column that only the console consumer prints."""
    return bool(_LABEL.match(line))


def layout_of(line: bytes, null: bytes) -> ColumnLayout:
    """Detect the columns of a file from its first record."""
    label = _LABEL.match(line)
    separator = label["separator"] if label else TAB
    names, labelled = _labelled_columns(line, separator)
    match = labelled.match(line)
    cells = line[match.end() if match else 0 :].rstrip(b"\r").split(separator)
    partition_is_last = _partition_is_last(names, cells)
    has_headers = len(cells) > 2 and not partition_is_last and bool(_HEADERS.fullmatch(cells[0]))
    return ColumnLayout(
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


def _labelled_columns(line: bytes, separator: bytes) -> tuple[list[str], re.Pattern[bytes]]:
    """Return the labelled columns at the start of a line, and a pattern that matches just these."""
    names: list[str] = []
    pattern = b""
    for name, column in _LABELLED.items():
        longer = pattern + column + re.escape(separator)
        if re.match(longer, line):
            names.append(name)
            pattern = longer
    return names, re.compile(pattern)


def _partition_is_last(names: Sequence[str], cells: Sequence[bytes]) -> bool:
    """Return True for the output of 2.4 to 2.6: a number after the value, and no newer columns."""
    is_old = not {"partition", "offset"} & set(names) and cells[0] != NO_HEADERS
    return is_old and len(cells) > 2 and cells[-1].isdigit()


def _json_end(text: bytes) -> int:
    """Return the end of a key that is a JSON array; 0 for other keys."""
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
    if not _NUMBER.fullmatch(digits):
        raise DumpLineError(f"has {digits[:20]!r} where a number should be")
    return int(digits)
