"""Recorded histories: one JSON object a line, the first one about the recording.

A record has `topic`, `partition`, `offset`, `timestamp`, and `key` and `value` as text, or as
`key_base64` and `value_base64` where their bytes are no UTF-8; `headers` and `aborted` if need be.
"""

import binascii
import re
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from controlplane.core.entry import Entry, Headers
from controlplane.logs.dumps.dump import Line, Problem, Unreadable
from controlplane.logs.dumps.fields import Offset, Partition, Timestamp, Topic, parse, to_bytes

_SIGN = re.compile(rb'\s*\{\s*"(history"|topic"[^{]*"timestamp"\s*:)')
_ABOUT = re.compile(rb'\s*\{\s*"history"')


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    """A line. Unknown fields are refused: what they say of the record must not get lost."""

    topic: Topic
    partition: Partition
    offset: Offset
    timestamp: Timestamp
    key: str | None = None
    value: str | None = None
    key_base64: str | None = None
    value_base64: str | None = None
    headers: list[tuple[str, str | None]] = []
    aborted: bool = False


class HistoriesReader:
    """Reads a `.log.jsonl` file. `about` is its first line."""

    format: ClassVar[str] = "histories"
    is_exact: ClassVar[bool] = True

    def __init__(self) -> None:
        self.about: dict[str, Any] = {}
        self._records = 0
        self._last_line = 0

    @staticmethod
    def recognises(line: bytes) -> bool:
        """Whether this looks like a line of a history."""
        return bool(_SIGN.match(line))

    def entry(self, line: Line) -> Entry | None:
        """The record in a line; None for the first one, if it is about the recording."""
        self._last_line = line.number
        if line.number == 1 and _ABOUT.match(line.text):
            self.about = parse(line.text, dict[str, Any])
            return None
        record = parse(line.text, _Record)
        entry = Entry(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            _content("key", record.key, record.key_base64),
            _content("value", record.value, record.value_base64),
            _headers(record.headers),
            record.aborted,
        )
        self._records += 1
        return entry

    def doubts(self) -> Iterator[Problem]:
        """A file that was cut off between two lines is found out by the number it promises."""
        promised = self.about.get("records", self._records)
        if promised != self._records:
            reason = f"is the last: {self._records} of {promised!r} records were read"
            yield Problem(self._last_line, reason, taken=True)


def _content(name: str, text: str | None, base64: str | None) -> bytes | None:
    if base64 is None:
        return to_bytes(text)
    if text is not None:
        raise Unreadable(f"has a {name} and a {name}_base64")
    try:
        return binascii.a2b_base64(base64, strict_mode=True)
    except ValueError as error:
        raise Unreadable(f"has a {name}_base64 that is no base64 ({error})") from error


def _headers(headers: list[tuple[str, str | None]]) -> Headers:
    return tuple((name, to_bytes(value)) for name, value in headers)
