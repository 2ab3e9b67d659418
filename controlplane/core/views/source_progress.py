"""Progress of sources: the record that last changed each offset."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from controlplane.core import views
from controlplane.core.entry import Entry
from controlplane.core.state import ClusterState
from controlplane.core.views import OffsetView, offset_order

OffsetKey = tuple[str, bytes | None]
"""An offsets topic and a raw key in it."""


class SourceProgress(NamedTuple):
    """Offset of a source partition, and the record that last changed it."""

    offset: OffsetView
    changed: Entry | None
    """None: the offset is null, or the log has lost the record."""


def source_progress(
    state: ClusterState, name: str, records: Iterable[Entry]
) -> list[SourceProgress]:
    """Return the offsets of a connector in the worker's order, each with its last change.

    `records` are those of the connector in the order of the fold. If compaction has removed the
    record of a change, the next record with the same offset counts as the change.
    """
    changes = last_changes(records)
    topics = views.offsets_topics(state, name)
    return [
        SourceProgress(view, _last_change(view, topics, changes))
        for view in offset_order.in_order(views.all_source_offsets(state, name))
    ]


def last_changes(records: Iterable[Entry]) -> dict[OffsetKey, Entry]:
    """Return, per topic and key, the last record whose value differs from the one before it.

    Aborted records do not count.
    """
    values: dict[OffsetKey, bytes | None] = {}
    changes: dict[OffsetKey, Entry] = {}
    for entry in records:
        key = entry.topic, entry.key
        if not entry.aborted and (key not in values or values[key] != entry.value):
            values[key], changes[key] = entry.value, entry
    return changes


def _last_change(
    view: OffsetView, topics: Iterable[str], changes: Mapping[OffsetKey, Entry]
) -> Entry | None:
    if view.offset is None:
        return None
    entries = (changes.get((topic, view.key)) for topic in topics)
    return next((entry for entry in entries if entry is not None and entry.value is not None), None)
