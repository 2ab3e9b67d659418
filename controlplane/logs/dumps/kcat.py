"""Reader of the output of `kcat -C -J`: one JSON object per line.

The tool copies keys and payloads into its JSON byte by byte, even if they are not UTF-8. Its JSON
generator, yajl, does not validate by default. Such lines are not valid JSON, but no byte is lost.
Records that kcat decoded with `-s` have lost their bytes, so they are refused.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import msgspec

from controlplane.core.entry import Entry
from controlplane.logs.dumps.dump import DumpLine, DumpLineError, Problem
from controlplane.logs.dumps.fields import (
    OffsetField,
    PartitionField,
    TimestampField,
    TopicField,
    parse,
    to_bytes,
)

_KCAT_LINE = re.compile(rb'\s*\{\s*"topic".*"(payload|tstype|broker)"\s*:')

_UNKNOWN_TIME = -1

_HeaderList = list[str | None]
"""Names and values alternate."""

_HeaderMap = dict[str, _HeaderList]
"""Values by name; the order of different names is lost."""


class _KcatLine(msgspec.Struct):
    """Line of kcat. Unknown fields are ignored: 1.7 added `broker`, and others may follow."""

    topic: TopicField
    partition: PartitionField
    offset: OffsetField
    payload: str | None
    key: str | None = None
    ts: TimestampField = _UNKNOWN_TIME
    tstype: str = "unknown"
    headers: _HeaderList | _HeaderMap = []
    key_error: str | None = None
    payload_error: str | None = None
    key_schema_id: int | None = None
    value_schema_id: int | None = None


class KcatReader:
    """Reader of the output of `kcat -J`."""

    format: ClassVar[str] = "kcat"
    is_exact: ClassVar[bool] = False

    def __init__(self) -> None:
        self.about: dict[str, Any] = {}

    @staticmethod
    def recognises(line: bytes) -> bool:
        """Return True if a line has the form of kcat."""
        return bool(_KCAT_LINE.match(line))

    def entry(self, line: DumpLine) -> Entry:
        """Parse the record in a line; raise `DumpLineError` if it holds none."""
        record = parse(line.text, _KcatLine, raw=True)
        if _was_decoded(record):
            raise DumpLineError("was decoded by kcat, its bytes are lost: dump again without -s")
        return Entry(
            record.topic,
            record.partition,
            record.offset,
            _UNKNOWN_TIME if record.tstype == "unknown" else record.ts,
            to_bytes(record.key),
            to_bytes(record.payload),
            tuple(_headers(record.headers)),
        )

    def doubts(self) -> Iterable[Problem]:
        """Report nothing: the file does not contain its number of records."""
        return ()


def _was_decoded(record: _KcatLine) -> bool:
    traces = (record.key_error, record.payload_error, record.key_schema_id, record.value_schema_id)
    return any(trace is not None for trace in traces)


def _headers(headers: _HeaderList | _HeaderMap) -> Iterator[tuple[str, bytes | None]]:
    if isinstance(headers, dict):
        yield from ((name, to_bytes(v)) for name, values in headers.items() for v in values)
        return
    if len(headers) % 2:
        raise DumpLineError("has a header without a value")
    for name, value in zip(headers[::2], headers[1::2], strict=True):
        if name is None:
            raise DumpLineError("has a header without a name")
        yield name, to_bytes(value)
