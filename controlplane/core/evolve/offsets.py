"""The fold of an offsets topic. Kafka: `KafkaOffsetBackingStore#consumedCallback`."""

from collections.abc import Iterable, Mapping

from controlplane.core.codec.offsets import Identity, decode_partition, identity
from controlplane.core.entry import Entry
from controlplane.core.evolve.outcome import ACCEPTED, Kind, Outcome, fate
from controlplane.core.profiles import Profile
from controlplane.core.records import Invalid
from controlplane.core.shared import CopyOnWrite
from controlplane.core.state import OffsetState

_OVERFLOWING_BYTES = 1000
"""A shorter key is not nested deeply enough to overflow a worker's stack."""


class OffsetFold:
    """Working state of one offsets topic: a dict of raw bytes, the last value of a key wins.

    Keys are parsed only when something is removed. A tombstone takes the *parsed* partition from
    the list of a connector's partitions, even if a record under another spelling of the same key
    is still there (`OffsetUtils#processPartitionKey`); such partitions are kept as hidden.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._values: CopyOnWrite[bytes | None, bytes | None] = CopyOnWrite()
        self._hidden: CopyOnWrite[Identity, bool] = CopyOnWrite()

    def publish(self) -> OffsetState:
        """The state now, for good."""
        return OffsetState(self._values.publish(), self._hidden.publish())

    def adopt(self, state: OffsetState) -> None:
        """Have what another fold has published."""
        self._values.take(dict(state.values))
        self._hidden.take(dict(state.hidden))

    def of(self, key: bytes | None) -> bytes | None:
        """The value of a raw key now; None: a tombstone, or none."""
        return self._values.items.get(key)

    def apply(self, entry: Entry) -> Outcome:
        """Fold one record."""
        parses = self.profile.offset_partitions
        subject = decode_partition(entry.key, self.profile) if parses else None
        outcome = ACCEPTED
        if isinstance(subject, Invalid):
            if subject.thrown is not None and not self.profile.tolerates_malformed:
                return fate(subject)  # before the store took anything
            if not subject.silent:
                outcome = Outcome(Kind.IGNORED, f"{subject.reason}; kept, but never listed")
        elif subject is not None:
            self._list(identity(subject), listed=entry.value is not None)
        self._store(entry.key, entry.value)
        return outcome

    def _list(self, subject: Identity, *, listed: bool) -> None:
        if listed:
            self._hidden.drop(subject)
        elif subject not in self._hidden.items:
            self._hidden.writable()[subject] = True

    def take(self, parts: Iterable[Mapping[bytes | None, bytes | None]]) -> frozenset[bytes | None]:
        """Take over the last values of each partition at once.

        Answers the contested keys: those for which the order between partitions, or between two
        spellings of one key, decides. They are left out; `apply` their records in order.
        """
        parts = list(parts)
        values: dict[bytes | None, bytes | None] = {}
        for part in parts:
            values.update(part)
        several = _in_several(parts) if len(values) < sum(map(len, parts)) else set()
        any_removed = None in values.values()
        removed = {key for key, value in values.items() if value is None} if any_removed else set()
        contested = set(several)
        if self.profile.offset_partitions:
            contested.update(key for key in self._suspects(values) if self._throws(key))
            torn = {key for key in several if any(part.get(key, b"") is None for part in parts)}
            if removed or torn or self._hidden.items:
                contested |= self._hide(values, removed, torn)
        gone = removed - contested if self.profile.offset_tombstone_removes else set()
        for key in contested | gone:
            del values[key]
        self._lay(values, gone)
        return frozenset(contested)

    def _lay(self, values: dict[bytes | None, bytes | None], gone: set[bytes | None]) -> None:
        """Have these values above those that are here, without the keys that are gone."""
        if not self._values.items:
            self._values.take(values)
            return
        self._values.writable().update(values)
        for key in gone:
            self._values.drop(key)

    def _suspects(self, keys: Iterable[bytes | None]) -> Iterable[bytes | None]:
        """Keys that may keep their record from being stored; short ones seldom do."""
        if self.profile.offset_key_loses_batch:
            return keys
        if self.profile.json_limits:
            return ()  # too deep is undecodable there, and an undecodable key is stored
        return [key for key in keys if key is not None and len(key) >= _OVERFLOWING_BYTES]

    def _throws(self, key: bytes | None) -> bool:
        subject = decode_partition(key, self.profile)
        return isinstance(subject, Invalid) and subject.thrown is not None

    def _hide(
        self, keys: Iterable[bytes | None], removed: set[bytes | None], torn: set[bytes | None]
    ) -> set[bytes | None]:
        """Hide what was removed and list the others, unless the order of records decides.

        That is so where one spelling of a key was removed and another was not, and for keys that
        are torn: removed in one partition of the topic and not in another. Answers those keys.
        """
        named = ((key, self._identity(key)) for key in keys)
        subjects = {key: subject for key, subject in named if subject is not None}
        dead = {subject for key, subject in subjects.items() if key in removed}
        alive = {subject for key, subject in subjects.items() if key not in removed}
        disputed = dead & alive | {subjects[key] for key in torn & subjects.keys()}
        for subject in self._hidden.items.keys() & (alive - disputed):
            self._hidden.drop(subject)
        self._hidden.writable().update(dict.fromkeys(dead - disputed, True))
        return {key for key, subject in subjects.items() if subject in disputed}

    def _identity(self, key: bytes | None) -> Identity | None:
        subject = decode_partition(key, self.profile)
        return None if isinstance(subject, Invalid) else identity(subject)

    def _store(self, key: bytes | None, value: bytes | None) -> None:
        if value is None and self.profile.offset_tombstone_removes:
            self._values.drop(key)
        else:
            self._values.writable()[key] = value


def _in_several(
    parts: Iterable[Mapping[bytes | None, bytes | None]],
) -> set[bytes | None]:
    """The keys that lie in more than one partition: a foreign writer used another partitioner."""
    seen: set[bytes | None] = set()
    twice: set[bytes | None] = set()
    for part in parts:
        twice |= seen & part.keys()
        seen |= part.keys()
    return twice
