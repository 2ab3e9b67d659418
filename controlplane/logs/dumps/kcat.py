"""What `kcat -C -J` prints: one JSON object a line.

kcat copies keys and payloads into its JSON byte by byte, also where they are no UTF-8, so that such
lines are no JSON in the strict sense, but nothing is lost (its JSON generator, yajl, only checks
when told to). Decoding with `-s` does lose the bytes: such records are refused.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import msgspec

from controlplane.core.entry import Entry
from controlplane.logs.dumps.dump import Line, Problem, Unreadable
from controlplane.logs.dumps.fields import Offset, Partition, Timestamp, Topic, parse, to_bytes

_SIGN = re.compile(rb'\s*\{\s*"topic".*"(payload|tstype|broker)"\s*:')

_UNKNOWN_TIME = -1

_Listed = list[str | None]
"""Names and values by turns."""

_Mapped = dict[str, _Listed]
"""Name to values; the order among different names is lost."""


class _Record(msgspec.Struct):
    """A line. Later kcats may add fields about transport (`broker` came in 1.7): not refused."""

    topic: Topic
    partition: Partition
    offset: Offset
    payload: str | None
    key: str | None = None
    ts: Timestamp = _UNKNOWN_TIME
    tstype: str = "unknown"
    headers: _Listed | _Mapped = []
    key_error: str | None = None
    payload_error: str | None = None
    key_schema_id: int | None = None
    value_schema_id: int | None = None


class KcatReader:
    """Reads the output of `kcat -J`."""

    format: ClassVar[str] = "kcat"
    is_exact: ClassVar[bool] = False

    def __init__(self) -> None:
        self.about: dict[str, Any] = {}

    @staticmethod
    def recognises(line: bytes) -> bool:
        """Whether this looks like a line of kcat's."""
        return bool(_SIGN.match(line))

    def entry(self, line: Line) -> Entry:
        """The record in a line."""
        record = parse(line.text, _Record, raw=True)
        if _was_decoded(record):
            raise Unreadable("was decoded by kcat, its bytes are lost: dump again without -s")
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
        """None: the file does not say what should be in it."""
        return ()


def _was_decoded(record: _Record) -> bool:
    traces = (record.key_error, record.payload_error, record.key_schema_id, record.value_schema_id)
    return any(trace is not None for trace in traces)


def _headers(headers: _Listed | _Mapped) -> Iterator[tuple[str, bytes | None]]:
    if isinstance(headers, dict):
        yield from ((name, to_bytes(v)) for name, values in headers.items() for v in values)
        return
    if len(headers) % 2:
        raise Unreadable("has a header without a value")
    for name, value in zip(headers[::2], headers[1::2], strict=True):
        if name is None:
            raise Unreadable("has a header without a name")
        yield name, to_bytes(value)
