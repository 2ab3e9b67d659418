"""Fold of an offsets topic. Kafka: `KafkaOffsetBackingStore#consumedCallback`."""

from collections.abc import Iterable, Mapping

from controlplane.core.codec.canonical_offsets import are_canonical_keys, keys_to_decode
from controlplane.core.codec.offsets import PartitionIdentity, decode_partition, identity
from controlplane.core.copy_on_write import CopyOnWrite, plain_copy
from controlplane.core.entry import Entry
from controlplane.core.fold.record_fate import ACCEPTED, FateKind, RecordFate, fate
from controlplane.core.records import Invalid
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import OffsetState

_OVERFLOWING_BYTES = 1000
"""Length of a key below which its nesting cannot overflow a worker's stack."""


class OffsetFold:
    """Working state of one offsets topic: raw keys and the last value of each.

    A tombstone removes the parsed partition from the list of a connector's partitions
    (`OffsetUtils#processPartitionKey`). The partition stays unlisted even if another key, which
    spells the same partition differently, still has a value. So the values do not show which
    partitions are listed, and the fold notes each removed partition as hidden. `take` parses keys
    only if it must.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._values: CopyOnWrite[bytes | None, bytes | None] = CopyOnWrite()
        self._hidden: CopyOnWrite[PartitionIdentity, bool] = CopyOnWrite()
        self.published: OffsetState | None = None
        """Last published state; None: a record was folded since."""

    def publish(self) -> OffsetState:
        """An immutable snapshot of the state; tables are copied at their next write."""
        self.published = OffsetState(self._values.publish(), self._hidden.publish())
        return self.published

    def adopt(self, state: OffsetState) -> None:
        """Replace the state by one that another fold has published."""
        self.published = None
        self._values.take(plain_copy(state.values))
        self._hidden.take(dict(state.hidden))

    def of(self, key: bytes | None) -> bytes | None:
        """Current value of a raw key; None: a tombstone, or no record."""
        return self._values.items.get(key)

    def apply(self, entry: Entry) -> RecordFate:
        """Decode and fold one record."""
        self.published = None
        parses = self.profile.offset_partitions
        subject = decode_partition(entry.key, self.profile) if parses else None
        outcome = ACCEPTED
        if isinstance(subject, Invalid):
            if subject.thrown is not None and not self.profile.tolerates_malformed:
                return fate(subject)  # it throws before the record is stored
            if not subject.silent:
                outcome = RecordFate(FateKind.IGNORED, f"{subject.reason}; kept, but never listed")
        elif subject is not None:
            self._set_listed(identity(subject), listed=entry.value is not None)
        self._store(entry.key, entry.value)
        return outcome

    def _set_listed(self, subject: PartitionIdentity, *, listed: bool) -> None:
        if listed:
            self._hidden.drop(subject)
        elif subject not in self._hidden.items:
            self._hidden.writable()[subject] = True

    def take(self, parts: Iterable[Mapping[bytes | None, bytes | None]]) -> frozenset[bytes | None]:
        """Take over the last values of each partition at once; returns the contested keys.

        A key is contested in three cases:

        - It has records in several partitions of the topic: their order decides which value is the
          last.
        - Another key spells the same source partition, and only one of the two was removed. Their
          order decides if the source partition is listed.
        - Its records throw.

        Contested keys are left out: `apply` their records in order.
        """
        self.published = None
        parts = list(parts)
        values: dict[bytes | None, bytes | None] = {}
        for part in parts:
            values.update(part)
        repeated_keys = _keys_in_several(parts) if len(values) < sum(map(len, parts)) else set()
        any_removed = None in values.values()  # mostly False, and faster than building the set
        removed = {key for key, value in values.items() if value is None} if any_removed else set()
        contested = set(repeated_keys)
        if self.profile.offset_partitions:
            contested |= throwing_keys(values, self.profile)
            torn = {
                key for key in repeated_keys if any(part.get(key, b"") is None for part in parts)
            }
            if removed or torn or self._hidden.items:
                contested |= self._hide(values, removed, torn)
        dropped = removed - contested
        if dropped and not self.profile.offset_tombstone_removes:
            dropped = set()
        for key in contested | dropped:
            del values[key]
        self._merge_values(values, dropped)
        return frozenset(contested)

    def _merge_values(
        self, values: dict[bytes | None, bytes | None], dropped: set[bytes | None]
    ) -> None:
        """Merge values into the present ones and remove the keys in `dropped`."""
        if not self._values.items:
            self._values.take(values)
            return
        self._values.writable().update(values)
        for key in dropped:
            self._values.drop(key)

    def _hide(
        self, keys: Iterable[bytes | None], removed: set[bytes | None], torn: set[bytes | None]
    ) -> set[bytes | None]:
        """Hide removed partitions and list the others; returns the keys for which order decides.

        Order decides in two cases. Two keys spell the same source partition, and only one of them
        was removed. Or a key is torn: removed in one partition of the topic and not in another.
        """
        if not self._hidden.items and are_canonical_keys([key for key in keys if key is not None]):
            keys = removed  # no other key spells the partition of a removed one
        identified = ((key, self._identity(key)) for key in keys)
        subjects = {key: subject for key, subject in identified if subject is not None}
        removed_partitions = {subject for key, subject in subjects.items() if key in removed}
        kept_partitions = {subject for key, subject in subjects.items() if key not in removed}
        contested_partitions = removed_partitions & kept_partitions | {
            subjects[key] for key in torn & subjects.keys()
        }
        for subject in self._hidden.items.keys() & (kept_partitions - contested_partitions):
            self._hidden.drop(subject)
        self._hidden.writable().update(
            dict.fromkeys(removed_partitions - contested_partitions, True)
        )
        return {key for key, subject in subjects.items() if subject in contested_partitions}

    def _identity(self, key: bytes | None) -> PartitionIdentity | None:
        subject = decode_partition(key, self.profile)
        return None if isinstance(subject, Invalid) else identity(subject)

    def _store(self, key: bytes | None, value: bytes | None) -> None:
        if value is None and self.profile.offset_tombstone_removes:
            self._values.drop(key)
        else:
            self._values.writable()[key] = value


def _keys_in_several(
    parts: Iterable[Mapping[bytes | None, bytes | None]],
) -> set[bytes | None]:
    """Keys that are in several partitions.

    Causes are another partitioner than Kafka's, or partitions that were added.
    """
    keys_before: set[bytes | None] = set()
    twice: set[bytes | None] = set()
    for part in parts:
        twice |= keys_before & part.keys()
        keys_before |= part.keys()
    return twice


def throwing_keys(keys: Iterable[bytes | None], profile: Profile) -> set[bytes | None]:
    """Keys whose records throw instead of being stored."""
    return {key for key in _keys_that_may_throw(keys, profile) if _throws(key, profile)}


def _keys_that_may_throw(keys: Iterable[bytes | None], profile: Profile) -> Iterable[bytes]:
    if profile.offset_key_loses_batch:
        return keys_to_decode([key for key in keys if key is not None])
    # Old workers do not parse keys; to new ones, a key that is too deep is undecodable, and stored.
    if profile.json_limits or not profile.offset_partitions:
        return ()
    return [key for key in keys if key is not None and len(key) >= _OVERFLOWING_BYTES]


def _throws(key: bytes, profile: Profile) -> bool:
    subject = decode_partition(key, profile)
    return isinstance(subject, Invalid) and subject.thrown is not None
