"""Last changes of a connector's offsets, found while its log is loaded."""

from collections.abc import Iterable

from controlplane.core import views
from controlplane.core.entry import Batch, Entry, TopicPartition
from controlplane.core.state import ClusterState, Topics
from controlplane.core.topics.source_partitions import plain_key_prefix
from controlplane.core.views import OffsetView, SourceOffsetsView
from controlplane.core.views.source_progress import (
    LastChanges,
    OffsetKey,
    SourceProgress,
    last_changes,
    note_changes,
    source_progress,
)
from controlplane.logs.log import ReadableLog
from controlplane.projection.past_states import read_offset_records


class OffsetObserver:
    """Collects the last changes of a connector's offsets during a load (`LoadObserver`).

    It recognises a key by its first bytes, as Connect spells it. It does not know the order between
    partitions (`core.order`). So it has no answer for a key in two partitions of a topic.
    """

    def __init__(self, connector: str, topics: Topics, *, exactly_once: bool) -> None:
        self._prefix = plain_key_prefix(connector)
        self._topics = topics
        self._exactly_once = exactly_once
        self._changes: dict[str, dict[TopicPartition, dict[OffsetKey, Entry]]] = {}
        """Changes by topic, then by partition; only of topics read from their first record."""

    def begin(self, topics: Iterable[str], resumed: Iterable[str]) -> None:
        """Collect changes in topics that are read whole; `resumed` ones start after a snapshot."""
        self._changes |= {topic: {} for topic in {*topics}.difference(resumed)}

    def look_at(self, batch: Batch) -> None:
        """Note the changes in the next batch of a partition."""
        partitions = self._changes.get(batch.topic)
        if partitions is not None:
            changes = partitions.setdefault((batch.topic, batch.partition), {})
            aborted = self._topics.sees_aborted(batch.topic, exactly_once=self._exactly_once)
            entries = batch.entries_under(self._prefix)
            note_changes(changes, (entry for entry in entries if aborted or not entry.aborted))

    def changes(self, topics: Iterable[str], offsets: Iterable[OffsetView]) -> LastChanges | None:
        """Return the last changes of offsets in these topics; None: the log must be searched."""
        topic_names = list(topics)
        if not self._changes.keys() >= {*topic_names} or not all(map(self._recognises, offsets)):
            return None
        parts = [part for topic in topic_names for part in self._changes[topic].values()]
        changes = {key: entry for part in parts for key, entry in part.items()}
        return changes if len(changes) == sum(map(len, parts)) else None

    def _recognises(self, offset: OffsetView) -> bool:
        """Return True if the records with the key of this offset were collected."""
        return offset.key == offset.raw and (offset.key or b"").startswith(self._prefix)


async def read_source_progress(
    log: ReadableLog,
    state: ClusterState,
    connector: str,
    offsets: SourceOffsetsView,
    observer: OffsetObserver,
) -> list[SourceProgress]:
    """Return a connector's offsets in a state, each with its last change.

    `observer` has seen the load of the state. The log is searched only if the observer lacks a
    change.

    Raises:
        LogError: the log cannot be read.
    """
    topics = views.offsets_topics(state, connector)
    read = [topic for topic in topics if topic in state.ends_by_topic]
    changes = observer.changes(read, offsets.shown) if offsets.shown else {}
    if changes is None:
        changes = last_changes(await read_offset_records(log, state, connector))
    return source_progress(offsets, topics, changes)
