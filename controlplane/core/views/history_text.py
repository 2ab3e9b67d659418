"""Text of a connector's history: changes as JSON, and long runs of offsets shortened."""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from controlplane.core.state import Aspect, Topics
from controlplane.core.text import record_text
from controlplane.core.text.safe_text import short
from controlplane.core.text.value_text import differing_names, json_line
from controlplane.core.views.history import HistoryEvent

CHANGE_CHARACTERS = 1 << 14
"""Limit of characters for a value in JSON; a longer one becomes a digest.

A page may show thousands of values.
"""

WORDS_CHARACTERS = 2_000
"""Limit of characters for the description of a change in JSON."""

OFFSETS_IN_A_ROW = 10
"""Limit of successive source offsets that are shown in full."""


def event_document(event: HistoryEvent, topics: Topics) -> dict[str, Any]:
    """A change of a connector as JSON: before, after, and the record `at` which it happened.

    A value of more than `CHANGE_CHARACTERS` becomes a digest. Two task configs are reduced to the
    members that differ.
    """
    before, after = event.values
    if event.aspect is Aspect.TASK_CONFIG and before and after:
        # A member whose secret has changed differs, too, although both are hidden.
        names = differing_names(event.before, event.after)
        before, after = (_only(members, names) for members in (before, after))
    return {
        "at": record_text.place(event.entry.position, topics),
        "record": record_text.reference(event.entry),
        "what": event.what,
        "words": short(event.words, WORDS_CHARACTERS),
        "before": _digested(before),
        "after": _digested(after),
    }


def _only(members: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: members[name] for name in names if name in members}


def _digested(value: Any) -> Any:
    """The value, or its size and digest if it is long. A digest of hidden secrets reveals none."""
    text = value if isinstance(value, str) else json_line(value)
    if len(text) <= CHANGE_CHARACTERS:
        return value
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return {"characters": len(text), "sha256": digest}


def shortened(events: Iterable[HistoryEvent]) -> Iterator[HistoryEvent]:
    """The events. In a long run of source offsets, one note replaces all but the first few."""
    run, left_out = 0, 0
    for event in events:
        run = run + 1 if event.aspect is Aspect.SOURCE_OFFSET else 0
        if run > OFFSETS_IN_A_ROW:
            left_out, last = left_out + 1, event
            continue
        if left_out:
            yield _omission_event(last, left_out)
            left_out = 0
        yield event
    if left_out:
        yield _omission_event(last, left_out)


def _omission_event(last: HistoryEvent, count: int) -> HistoryEvent:
    note = f"… {count} more up to here; -o json has them"
    return HistoryEvent(last.entry, None, "source offsets", note=note)
