"""Records of a log that a worker cannot read, or ignores, with positions and reasons.

Bulk loading skips records that later ones replace, so all records are read once more here. The
keys of source offsets are all examined. Their values are examined only in the final state
(`views.unreadable_offsets`): a value that a later record replaces is left out.
"""

from collections.abc import AsyncIterator, Iterable, Iterator

import msgspec

from controlplane.cli.opened_log import InputLog
from controlplane.core.entry import Batch, Position
from controlplane.core.fold import FateKind, Fold, RecordFate
from controlplane.core.state import Topics
from controlplane.core.text.redaction import redacted_text
from controlplane.core.views import UnreadableOffset

KEPT = 1_000
"""Number of records that are kept with their reasons; more are only counted."""


class UnreadableSummary(msgspec.Struct):
    """Number of records that a worker does not accept, with the first of them."""

    count: int = 0
    records: dict[Position, str] = {}

    def add(self, position: Position, reason: str) -> None:
        """Count a record; its reason may quote the record, so secrets are hidden."""
        self.count += 1
        if len(self.records) < KEPT:
            self.records[position] = redacted_text(reason)


async def unreadable(batches: AsyncIterator[Batch], fold: Fold) -> UnreadableSummary:
    """Summarise the records that a fresh fold does not accept; the fold is changed.

    Batches of a partition must come in the order of their offsets.
    """
    summary = UnreadableSummary()
    keys: dict[bytes | None, RecordFate] = {}
    async for batch in batches:
        outcomes = _each if batch.topic in _topics_read_whole(fold.topics) else _by_key
        for position, outcome in outcomes(batch, fold, keys):
            if outcome.kind is not FateKind.ACCEPTED:
                summary.add(position, outcome.reason)
    return summary


def _topics_read_whole(topics: Topics) -> tuple[str, ...]:
    return topics.config, topics.status, topics.commands


RecordFates = Iterator[tuple[Position, RecordFate]]


def _each(batch: Batch, fold: Fold, _: dict[bytes | None, RecordFate]) -> RecordFates:
    """Yield the fate of each record that the worker reads."""
    for entry in batch.entries():
        if not entry.aborted or fold.sees_aborted(entry.topic):
            yield entry.position, fold.apply(entry)


def _by_key(batch: Batch, fold: Fold, keys: dict[bytes | None, RecordFate]) -> RecordFates:
    """Yield the fate of each source offset that is not accepted.

    The key alone decides, so `keys` caches the fates.
    """
    new = {key: index for index, key in enumerate(batch.keys) if key not in keys}
    if new:
        entries = list(batch.entries())
        keys.update((key, fold.offsets_of(batch.topic).apply(entries[i])) for key, i in new.items())
    bad = {key for key in set(batch.keys) if keys[key].kind is not FateKind.ACCEPTED}
    if not bad:
        return
    for index, (offset, key) in enumerate(zip(batch.offsets, batch.keys, strict=True)):
        unseen = index in batch.aborted and not fold.sees_aborted(batch.topic)
        if key in bad and not unseen:
            yield Position(batch.topic, batch.partition, offset), keys[key]


async def places_of(
    offsets: Iterable[UnreadableOffset], source: InputLog, fold: Fold
) -> dict[Position, UnreadableOffset]:
    """Unreadable source offsets by the positions of their records, in order.

    A state does not keep these positions, so the topics are read again. This is rare: Connect
    writes readable offsets.
    """
    offsets_by_record = {(offset.topic, offset.key, offset.value): offset for offset in offsets}
    topics = sorted({offset.topic for offset in offsets_by_record.values()} & source.stop.keys())
    places: dict[_RawRecord, Position] = {}
    if topics:
        async for batch in source.batches(topics):
            places |= {
                record: place
                for record, place in _visible(batch, fold)
                if record in offsets_by_record
            }
    return {
        places[record]: offsets_by_record[record]
        for record in sorted(places, key=places.__getitem__)
    }


_RawRecord = tuple[str, bytes | None, bytes | None]
"""Topic, key, value."""


def _visible(batch: Batch, fold: Fold) -> Iterator[tuple[_RawRecord, Position]]:
    """Yield each record that the worker sees, with its position."""
    unseen = () if fold.sees_aborted(batch.topic) else batch.aborted
    columns = zip(batch.offsets, batch.keys, batch.values, strict=True)
    for index, (offset, key, value) in enumerate(columns):
        if index not in unseen:
            yield (batch.topic, key, value), Position(batch.topic, batch.partition, offset)
