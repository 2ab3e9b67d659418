"""Text of records and positions: on one line, with secrets hidden."""

from typing import Any

import msgspec

from controlplane.core.entry import Entry, Position, TopicPartition
from controlplane.core.moments import position_text
from controlplane.core.state import Topics
from controlplane.core.text.redaction import HIDDEN, redacted_text, redacted_value
from controlplane.core.text.safe_text import bytes_text, cut, safe, short
from controlplane.core.text.value_text import TOMBSTONE, json_line

VALUE_CHARACTERS = 160
"""Limit of characters for a record's value on a line."""

DOCUMENT_CHARACTERS = 1 << 20
"""Limit of characters for a record's value in JSON. Kafka's default limit of a record is as
many bytes."""

_SESSION_KEY = b"session-key"
"""Key of the record with the workers' shared secret (KIP-507). Its value is hidden as a whole."""


def place(position: Position, topics: Topics) -> str:
    """A position as `--as-of` takes it, made safe: `config@57`, `status@2:41`."""
    return short(position_text(position, topics))


class PlaceFormatter:
    """`place` for many positions of one cluster: the text before an offset is cached."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._starts: dict[TopicPartition, str] = {}

    def __call__(self, position: Position) -> str:
        """A position as `place` formats it."""
        topic, partition, offset = position
        if (topic, partition) not in self._starts:
            first = position_text(Position(topic, partition, 0), self._topics)
            self._starts[topic, partition] = safe(first.removesuffix("0"))
        return cut(f"{self._starts[topic, partition]}{offset}")


def record(entry: Entry, topics: Topics) -> str:
    """A record on one line: position, key, value."""
    return f"{place(entry.position, topics)}  {key(entry)}  {value(entry)}"


def value(entry: Entry, characters: int = VALUE_CHARACTERS) -> str:
    """A record's value on one line, redacted and cut to `characters`.

    Bytes that are not JSON are shown as text.
    """
    if entry.value is None:
        return TOMBSTONE
    if entry.key == _SESSION_KEY:
        return HIDDEN
    try:
        decoded = msgspec.json.decode(entry.value)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return short(redacted_text(bytes_text(entry.value)), characters)
    return short(json_line(redacted_value("", decoded)), characters)


def key(entry: Entry) -> str:
    """A record's key as redacted text; `(no key)`: the key is null."""
    return "(no key)" if entry.key is None else short(redacted_text(bytes_text(entry.key)))


def document(entry: Entry) -> dict[str, Any]:
    """A record as JSON: position, time, key and value as text."""
    return {
        **entry.position._asdict(),
        "timestamp": entry.timestamp,
        "key": None if entry.key is None else key(entry),
        "value": None if entry.value is None else value(entry, DOCUMENT_CHARACTERS),
    }


def reference(entry: Entry) -> dict[str, Any]:
    """A record as JSON without its value: position, time, key."""
    return {
        **entry.position._asdict(),
        "timestamp": entry.timestamp,
        "key": None if entry.key is None else key(entry),
    }
