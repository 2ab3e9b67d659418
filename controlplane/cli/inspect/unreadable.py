"""Records of a log that a worker cannot read, or ignores: where they lie, and why.

A fold that is loaded fast never looks at records that later ones replace. Here every record counts,
also one that no longer has a say.
"""

from collections.abc import AsyncIterator, Iterator

import msgspec

from controlplane.core.entry import Batch, Position
from controlplane.core.evolve import Fold, Kind, Outcome
from controlplane.core.redact import redacted_text
from controlplane.core.state import Topics

KEPT = 1_000
"""Records that are named, with the reason; more are only counted."""


class Unreadable(msgspec.Struct):
    """How many records are not taken, and the first of them."""

    count: int = 0
    records: dict[Position, str] = {}

    def add(self, position: Position, reason: str) -> None:
        """Count one more; a reason may quote what the record says."""
        self.count += 1
        if len(self.records) < KEPT:
            self.records[position] = redacted_text(reason)


async def unreadable(batches: AsyncIterator[Batch], fold: Fold) -> Unreadable:
    """Every record that the worker of a fresh fold does not take. The fold is used up by this.

    Within a partition batches must come in the order of their offsets.
    """
    found = Unreadable()
    keys: dict[bytes | None, Outcome] = {}
    async for batch in batches:
        outcomes = _each if batch.topic in _kept_whole(fold.topics) else _by_key
        for position, outcome in outcomes(batch, fold, keys):
            if outcome.kind is not Kind.ACCEPTED:
                found.add(position, outcome.reason)
    return found


def _kept_whole(topics: Topics) -> tuple[str, ...]:
    return topics.config, topics.status, topics.commands


Outcomes = Iterator[tuple[Position, Outcome]]


def _each(batch: Batch, fold: Fold, _: dict[bytes | None, Outcome]) -> Outcomes:
    """What comes of each record that the worker sees."""
    for entry in batch.entries():
        if not entry.aborted or fold.sees_aborted(entry.topic):
            yield entry.position, fold.apply(entry)


def _by_key(batch: Batch, fold: Fold, keys: dict[bytes | None, Outcome]) -> Outcomes:
    """What comes of source offsets: it depends on the key alone, and few keys make many records."""
    new = {key: index for index, key in enumerate(batch.keys) if key not in keys}
    if new:
        entries = list(batch.entries())
        keys.update((key, fold.offsets_of(batch.topic).apply(entries[i])) for key, i in new.items())
    bad = {key for key in set(batch.keys) if keys[key].kind is not Kind.ACCEPTED}
    if not bad:
        return
    for index, (offset, key) in enumerate(zip(batch.offsets, batch.keys, strict=True)):
        unseen = index in batch.aborted and not fold.sees_aborted(batch.topic)
        if key in bad and not unseen:
            yield Position(batch.topic, batch.partition, offset), keys[key]
