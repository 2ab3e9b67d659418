"""Records and positions as people are shown them: on one line, secrets hidden."""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from controlplane.core.diff import Aspect
from controlplane.core.entry import Entry, Position
from controlplane.core.history import Event
from controlplane.core.moments import position_text
from controlplane.core.redact import HIDDEN, redacted_text, redacted_value
from controlplane.core.safe_text import short
from controlplane.core.shown import TOMBSTONE, json_line
from controlplane.core.state import Topics

VALUE_CHARACTERS = 160
"""How much of a record's value is shown."""

DOCUMENT_CHARACTERS = 1 << 20
"""How much of it comes in JSON: all, unless somebody wrote more than Kafka takes by default."""

CHANGE_CHARACTERS = 1 << 14
"""Longest value of a change in JSON, longer ones are told by a digest: a page holds thousands."""

WORDS_CHARACTERS = 2_000
"""Longest description of a change in JSON."""

OFFSETS_IN_A_ROW = 10
"""A run of source offsets longer than this is shortened for people."""

_SESSION_KEY = b"session-key"


def place(position: Position, topics: Topics) -> str:
    """A position as `--as-of` takes it, made safe: `config@57`, `status@2:41`."""
    return short(position_text(position, topics))


def record(entry: Entry, topics: Topics) -> str:
    """A record on one line: position, key, value."""
    return f"{place(entry.position, topics)}  {key(entry)}  {value(entry)}"


def value(entry: Entry, characters: int = VALUE_CHARACTERS) -> str:
    """A record's value for people, at most so long. What is no JSON is shown as text."""
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
    """A record's key for people; a source partition may hold secrets, too."""
    return "(no key)" if entry.key is None else short(redacted_text(_text(entry.key)))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def document(entry: Entry) -> dict[str, Any]:
    """A record as JSON for people: where and when it was written, key and value as text."""
    return {
        **entry.position._asdict(),
        "timestamp": entry.timestamp,
        "key": None if entry.key is None else key(entry),
        "value": None if entry.value is None else value(entry, DOCUMENT_CHARACTERS),
    }


def reference(entry: Entry) -> dict[str, Any]:
    """A record as JSON for people, without its value: its place, its time and its key."""
    return {
        **entry.position._asdict(),
        "timestamp": entry.timestamp,
        "key": None if entry.key is None else key(entry),
    }


def of_event(event: Event, topics: Topics) -> dict[str, Any]:
    """A change of a connector as JSON for people: before and after, with the record, at `at`.

    A value of more than `CHANGE_CHARACTERS` is told by its digest. Of two task configs only the
    members that differ are told.
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
    """The value, or where it is long its size and digest; secrets are hidden in it already."""
    text = value if isinstance(value, str) else json_line(value)
    if len(text) <= CHANGE_CHARACTERS:
        return value
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return {"characters": len(text), "sha256": digest}


def shortened(found: Iterable[Event]) -> Iterator[Event]:
    """The events; of a long run of source offsets only the first few."""
    run, left_out = 0, 0
    for event in found:
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


def _left_out(last: Event, count: int) -> Event:
    note = f"… {count} more up to here; -o json has them"
    return Event(last.entry, None, "source offsets", note=note)
