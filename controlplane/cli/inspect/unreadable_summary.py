"""Records of a log that a worker cannot read, or ignores: where they lie, and why.

A fold that is loaded fast never looks at records that later ones replace. Here every record counts,
also one that no longer has a say; of source offsets the keys alone, and the values that are left.
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
"""Records that are named, with the reason; more are only counted."""


class UnreadableSummary(msgspec.Struct):
    """Numbers of records that a worker does not accept, and the first of them."""

    count: int = 0
    records: dict[Position, str] = {}

    def add(self, position: Position, reason: str) -> None:
        """Count one more; a reason may quote what the record says."""
        self.count += 1
        if len(self.records) < KEPT:
            self.records[position] = redacted_text(reason)


async def unreadable(batches: AsyncIterator[Batch], fold: Fold) -> UnreadableSummary:
    """Every record that the worker of a fresh fold does not take. The fold is used up by this.

    Within a partition batches must come in the order of their offsets.
    """
    found = UnreadableSummary()
    keys: dict[bytes | None, RecordFate] = {}
    async for batch in batches:
        outcomes = _each if batch.topic in _kept_whole(fold.topics) else _by_key
        for position, outcome in outcomes(batch, fold, keys):
            if outcome.kind is not FateKind.ACCEPTED:
                found.add(position, outcome.reason)
    return found


def _kept_whole(topics: Topics) -> tuple[str, ...]:
    return topics.config, topics.status, topics.commands


RecordFates = Iterator[tuple[Position, RecordFate]]


def _each(batch: Batch, fold: Fold, _: dict[bytes | None, RecordFate]) -> RecordFates:
    """Yield the fate of each record that the worker reads."""
    for entry in batch.entries():
        if not entry.aborted or fold.sees_aborted(entry.topic):
            yield entry.position, fold.apply(entry)


def _by_key(batch: Batch, fold: Fold, keys: dict[bytes | None, RecordFate]) -> RecordFates:
    """Yield the fates of source offsets: computed once per key, as they depend on it alone."""
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
    """Positions of the records of source offsets, in their order.

    A state does not know that of offsets. So their topics are read once more, which is seldom
    needed: what Connect writes can be read.
    """
    wanted = {(one.topic, one.key, one.value): one for one in offsets}
    topics = sorted({one.topic for one in wanted.values()} & source.stop.keys())
    places: dict[_Record, Position] = {}
    if topics:
        async for batch in source.batches(topics):
            places.update(one for one in _seen(batch, fold) if one[0] in wanted)
    return {places[record]: wanted[record] for record in sorted(places, key=places.__getitem__)}


_Record = tuple[str, bytes | None, bytes | None]
"""Topic, key, value."""


def _seen(batch: Batch, fold: Fold) -> Iterator[tuple[_Record, Position]]:
    """Each record that the worker sees, and where it lies."""
    unseen = () if fold.sees_aborted(batch.topic) else batch.aborted
    columns = zip(batch.offsets, batch.keys, batch.values, strict=True)
    for index, (offset, key, value) in enumerate(columns):
        if index not in unseen:
            yield (batch.topic, key, value), Position(batch.topic, batch.partition, offset)
