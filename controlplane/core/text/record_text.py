"""Text of records and positions: on one line, with secrets hidden."""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from controlplane.core.entry import Entry, Position
from controlplane.core.moments import position_text
from controlplane.core.state import Aspect, Topics
from controlplane.core.text.redaction import HIDDEN, redacted_text, redacted_value
from controlplane.core.text.safe_text import short
from controlplane.core.text.value_text import TOMBSTONE, json_line
from controlplane.core.views.history import HistoryEvent

VALUE_CHARACTERS = 160
"""Characters of a record's value on a line."""

DOCUMENT_CHARACTERS = 1 << 20
"""Characters of a record's value in JSON: all, unless it exceeds Kafka's default limit."""

CHANGE_CHARACTERS = 1 << 14
"""Longest value of a change in JSON. Longer ones become a digest, as a page holds thousands."""

WORDS_CHARACTERS = 2_000
"""Longest description of a change in JSON."""

OFFSETS_IN_A_ROW = 10
"""Longest run of source offsets that is shown in full."""

_SESSION_KEY = b"session-key"


def place(position: Position, topics: Topics) -> str:
    """A position as `--as-of` takes it, made safe: `config@57`, `status@2:41`."""
    return short(position_text(position, topics))


def record(entry: Entry, topics: Topics) -> str:
    """A record on one line: position, key, value."""
    return f"{place(entry.position, topics)}  {key(entry)}  {value(entry)}"


def value(entry: Entry, characters: int = VALUE_CHARACTERS) -> str:
    """A record's value, shortened. Bytes that are no JSON are shown as text."""
    if entry.value is None:
        return TOMBSTONE
    if entry.key == _SESSION_KEY:
        return HIDDEN
    try:
        decoded = msgspec.json.decode(entry.value)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return short(redacted_text(_text(entry.value)), characters)
    return short(json_line(redacted_value("", decoded)), characters)


def key(entry: Entry) -> str:
    """A record's key; source partitions are redacted."""
    return "(no key)" if entry.key is None else short(redacted_text(_text(entry.key)))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


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


def of_event(event: HistoryEvent, topics: Topics) -> dict[str, Any]:
    """A change of a connector as JSON: before, after, and the record `at` which it happened.

    A value of more than `CHANGE_CHARACTERS` becomes a digest. Two task configs are reduced to the
    members that differ.
    """
    before, after = event.values
    if event.aspect is Aspect.TASK_CONFIG and before and after:
        before, after = _differing(before, after), _differing(after, before)
    return {
        "at": place(event.entry.position, topics),
        "record": reference(event.entry),
        "what": event.what,
        "words": short(event.words, WORDS_CHARACTERS),
        "before": _digested(before),
        "after": _digested(after),
    }


def _differing(values: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if others.get(name) != value}


def _digested(value: Any) -> Any:
    """The value, or its size and digest if it is long; its secrets are already hidden."""
    text = value if isinstance(value, str) else json_line(value)
    if len(text) <= CHANGE_CHARACTERS:
        return value
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return {"characters": len(text), "sha256": digest}


def shortened(events: Iterable[HistoryEvent]) -> Iterator[HistoryEvent]:
    """The events, with all but the first few of a long run of source offsets left out."""
    run, left_out = 0, 0
    for event in events:
        run = run + 1 if event.aspect is Aspect.SOURCE_OFFSET else 0
        if run > OFFSETS_IN_A_ROW:
            left_out, last = left_out + 1, event
            continue
        if left_out:
            yield _left_out(last, left_out)
            left_out = 0
        yield event
    if left_out:
        yield _left_out(last, left_out)


def _left_out(last: HistoryEvent, count: int) -> HistoryEvent:
    note = f"… {count} more up to here; -o json has them"
    return HistoryEvent(last.entry, None, "source offsets", note=note)
