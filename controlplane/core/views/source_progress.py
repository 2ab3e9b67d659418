"""Progress of sources: the record that last changed each offset."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from controlplane.core.entry import Entry
from controlplane.core.views import OffsetView, SourceOffsetsView, offset_order

OffsetKey = tuple[str, bytes | None]
"""An offsets topic and a raw key in it."""

LastChanges = Mapping[OffsetKey, Entry]
"""The record that last changed each key."""


class SourceProgress(NamedTuple):
    """Offset of a source partition, and the record that last changed it."""

    offset: OffsetView
    changed: Entry | None
    """None: the offset is null, or the log has lost the record."""


def source_progress(
    offsets: SourceOffsetsView, topics: Sequence[str], changes: LastChanges
) -> list[SourceProgress]:
    """Return the offsets of a connector in the worker's order, each with its last change.

    `topics` are the connector's offsets topics (`views.offsets_topics`), `changes` is the result of
    `last_changes` for its records. Compaction may have removed the record of a change. Then the
    next record of the same key, which repeats that source offset, counts as the change.
    """
    return [
        SourceProgress(view, _last_change(view, topics, changes))
        for view in offset_order.in_order(offsets)
    ]


def last_changes(records: Iterable[Entry]) -> dict[OffsetKey, Entry]:
    """Return, per topic and key, the last record whose value differs from the one before it.

    `records` are those that the worker sees, in the order of the fold.
    """
    changes: dict[OffsetKey, Entry] = {}
    note_changes(changes, records)
    return changes


def note_changes(changes: dict[OffsetKey, Entry], records: Iterable[Entry]) -> None:
    """Continue `last_changes` with the next records."""
    for entry in records:
        key = entry.topic, entry.key
        last = changes.get(key)
        if last is None or last.value != entry.value:
            changes[key] = entry


def _last_change(view: OffsetView, topics: Sequence[str], changes: LastChanges) -> Entry | None:
    if view.offset is None:
        return None
    entries = (changes.get((topic, view.key)) for topic in topics)
    return next((entry for entry in entries if entry is not None and entry.value is not None), None)
