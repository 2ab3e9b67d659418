"""A case for the oracle: a log, and its encoding for the Java harness."""

import struct
from collections.abc import Iterator
from itertools import cycle
from typing import NamedTuple

from controlplane.core.entry import Entry
from controlplane.core.state import Topics

TOPICS = Topics()
OWN = "offsets-of-a"
"""A connector's own offsets topic: another store of the same class reads it."""

STORES = {TOPICS.config: 0, TOPICS.offsets: 1, TOPICS.status: 2, OWN: 3}
"""The stores by the number that the harness knows them by (`Log.STORES`)."""

_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">ii")
_PLACE = struct.Struct(">bq")


class Case(NamedTuple):
    """Records of one topic or several, in the order in which they are read."""

    entries: tuple[Entry, ...]
    startup: int = 0
    """Number of entries read before the worker has started: no listener is called for them."""
    batch: tuple[int, ...] = ()
    """Sizes of the batches in which a worker reads the records, repeated in a cycle. All records
    are of one topic. A batch never crosses the end of start-up. In a batch, an earlier record can
    keep a later one from being read. Empty: the worker reads each record alone."""
    exactly_once: bool = False
    """The worker has exactly-once support enabled: configs and offsets are `read_committed`."""

    @property
    def visible_entries(self) -> tuple[Entry, ...]:
        """Entries that reach the stores: `read_committed` consumers drop aborted records.

        Consumers of connectors' own offsets topics are always `read_committed` (KIP-618).
        """
        return tuple(entry for entry in self.entries if not self.drops(entry))

    @property
    def batches(self) -> tuple[tuple[tuple[Entry, ...], ...], tuple[tuple[Entry, ...], ...]]:
        """Entries that reach the stores, in batches: at start-up, and later."""
        sizes = cycle(self.batch)
        early = self._replace(entries=self.entries[: self.startup]).visible_entries
        late = self._replace(entries=self.entries[self.startup :]).visible_entries
        return _cut(early, sizes), _cut(late, sizes)

    def drops(self, entry: Entry) -> bool:
        """True if the topic's consumer drops the record."""
        is_committed = self.exactly_once and entry.topic != TOPICS.status
        return entry.aborted and (is_committed or entry.topic == OWN)


def _cut(entries: tuple[Entry, ...], sizes: Iterator[int]) -> tuple[tuple[Entry, ...], ...]:
    batches = []
    while entries:
        size = next(sizes)
        batches.append(entries[:size])
        entries = entries[size:]
    return tuple(batches)


def packed(case: Case) -> bytes:
    """Encode a case for the harness."""
    startup = len(case._replace(entries=case.entries[: case.startup]).visible_entries)
    sizes = [len(batch) for part in case.batches for batch in part] if case.batch else []
    parts = [
        _HEAD.pack(len(case.visible_entries), startup),
        *map(_LENGTH.pack, (len(sizes), *sizes)),
    ]
    for entry in case.visible_entries:
        parts += (_PLACE.pack(STORES[entry.topic], entry.offset), _sized(entry.key))
        parts.append(_sized(entry.value))
    return b"".join(parts)


def framed(cases: list[Case]) -> bytes:
    """A chunk of cases, prefixed with its length."""
    body = b"".join(map(packed, cases))
    return _LENGTH.pack(len(body)) + body


def _sized(field: bytes | None) -> bytes:
    return _LENGTH.pack(-1) if field is None else _LENGTH.pack(len(field)) + field
