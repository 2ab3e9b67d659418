"""Rows of the history of a connector, without secrets."""

from collections.abc import Iterable, Iterator

from controlplane.core.text import record_text
from controlplane.core.views.history_text import event_document
from replay.tables.cells import RowDocument
from replay.timeline.connector_history import EventEffect, HistoryReader
from replay.timeline.history_jobs import HistoryJob


def event_rows(effects: Iterable[EventEffect], reader: HistoryReader) -> Iterator[RowDocument]:
    """Rows, one per effect of a record; the first row of a record holds its value."""
    before = None
    for effect in effects:
        entry, row = effect.event.entry, event_document(effect.event, reader.topics)
        value = record_text.document(entry)["value"] if entry.position != before else None
        before = entry.position
        yield row | {"record": row["record"] | {"value": value}, "meaning": effect.meaning.value}


def history_rows(job: HistoryJob, effects: Iterable[EventEffect]) -> Iterator[RowDocument]:
    """Rows of `event_rows`, with the columns that all rows of the history share."""
    head = history_head(job.cluster.name, job.reader)
    return (head | row for row in event_rows(effects, job.reader))


def history_head(cluster: str, reader: HistoryReader) -> RowDocument:
    """Columns that all rows of a history share."""
    release, connector = reader.profile.release, reader.connector
    return {"cluster": cluster, "release": release, "connector": connector}
