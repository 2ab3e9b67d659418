"""Reader of recorded histories: one JSON object per line; the first describes the recording.

A record has `topic`, `partition`, `offset`, `timestamp`, and `key` and `value` as text. Bytes that
are not UTF-8 are in `key_base64` and `value_base64`. `headers` and `aborted` are optional.
"""

import binascii
import re
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from controlplane.core.entry import Entry, Headers
from controlplane.logs.dumps.dump import DumpLine, DumpLineError, Problem
from controlplane.logs.dumps.fields import (
    OffsetField,
    PartitionField,
    TimestampField,
    TopicField,
    parse,
    to_bytes,
)

_HISTORY_LINE = re.compile(rb'\s*\{\s*"(history"|topic"[^{]*"timestamp"\s*:)')
_DESCRIPTION = re.compile(rb'\s*\{\s*"history"')


class _HistoryLine(msgspec.Struct, forbid_unknown_fields=True):
    """Line of a history. Unknown fields are refused, because they may be a part of the record."""

    topic: TopicField
    partition: PartitionField
    offset: OffsetField
    timestamp: TimestampField
    key: str | None = None
    value: str | None = None
    key_base64: str | None = None
    value_base64: str | None = None
    headers: list[tuple[str, str | None]] = []
    aborted: bool = False


class HistoriesReader:
    """Reader of a `.log.jsonl` file. `about`: the description in its first line, or {}."""

    format: ClassVar[str] = "histories"
    is_exact: ClassVar[bool] = True

    def __init__(self) -> None:
        self.about: dict[str, Any] = {}
        self._records = 0
        self._last_line = 0

    @staticmethod
    def recognises(line: bytes) -> bool:
        """Return True if a line has the form of a history."""
        return bool(_HISTORY_LINE.match(line))

    def entry(self, line: DumpLine) -> Entry | None:
        """Parse the record in a line; None for a first line that describes the recording."""
        self._last_line = line.number
        if line.number == 1 and _DESCRIPTION.match(line.text):
            self.about = parse(line.text, dict[str, Any])
            return None
        record = parse(line.text, _HistoryLine)
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
        """Report a file cut off between lines: the first line has the number of records."""
        promised = self.about.get("records", self._records)
        if promised != self._records:
            reason = f"is the last: {self._records} of {promised!r} records were read"
            yield Problem(self._last_line, reason, taken=True)


def _content(name: str, text: str | None, base64: str | None) -> bytes | None:
    if base64 is None:
        return to_bytes(text)
    if text is not None:
        raise DumpLineError(f"has a {name} and a {name}_base64")
    try:
        return binascii.a2b_base64(base64, strict_mode=True)
    except ValueError as error:
        raise DumpLineError(f"has a {name}_base64 that is no base64 ({error})") from error


def _headers(headers: list[tuple[str, str | None]]) -> Headers:
    return tuple((name, to_bytes(value)) for name, value in headers)
