"""Keys under which a source partition is written: those of the log, or Java's.

Releases serialise the parsed key again, in the order of Java's maps. So they miss a record whose
key has its fields in another order. `kip` reuses the bytes of the log, so that one partition has
one key (`Profile.writes_log_key`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from controlplane.core.codec.offsets import encode_partition, frozen
from controlplane.core.records import JsonObject
from controlplane.core.state import ClusterState, OffsetState
from controlplane.core.topics.source_partitions import listed, spellings


class _LoggedPartition(NamedTuple):
    """A partition and its keys that have a value in a topic, the best one first."""

    partition: JsonObject | None
    keys: Sequence[bytes]


class LoggedKeys:
    """Keys of one connector in these topics; its own topic comes first."""

    def __init__(self, state: ClusterState, connector: str, topics: Sequence[str]) -> None:
        self._state = state
        self._connector = connector
        self._logged = {topic: self._logged_in(topic) for topic in topics}

    def partitions(self) -> list[JsonObject | None]:
        """Every partition that has a value in a topic, including those that no worker lists."""
        known: dict[tuple[Any, ...], _LoggedPartition] = {}
        for logged in self._logged.values():
            known = {**logged, **known}
        return [one.partition for one in sorted(known.values(), key=lambda one: one.keys[0])]

    def of(self, topic: str, partition: JsonObject | None) -> Sequence[bytes]:
        """Keys of a partition in a topic, the best one first; never empty.

        A partition that the topic lacks gets the spelling of another topic, or Java's.
        """
        known = frozen(partition)
        if known in self._logged[topic]:
            return self._logged[topic][known].keys
        elsewhere = (logged[known].keys[:1] for logged in self._logged.values() if known in logged)
        return next(elsewhere, [encode_partition(self._connector, partition)])

    def place(self, topic: str, key: bytes) -> int | None:
        """Partition of the topic that holds the key, if known.

        A foreign writer may have used another partitioner than Kafka's.
        """
        cause = self._state.causes.get((topic, key))
        return None if cause is None else cause.partition

    def _logged_in(self, topic: str) -> Mapping[tuple[Any, ...], _LoggedPartition]:
        found = spellings(self._state, topic, self._connector).items()
        logged = {
            known: _LoggedPartition(spelled[0].subject.partition, [one.key for one in spelled])
            for (_, known), spelled in found
        }
        nowhere = encode_partition(
            self._connector, None
        )  # the null partition: writable, but never listed
        if nowhere in self._state.offsets.get(topic, OffsetState()).values:
            logged[frozen(None)] = _LoggedPartition(None, [nowhere])
        return logged


class JavaKeys:
    """Keys as a release writes them, whatever the log's spelling is."""

    def __init__(self, state: ClusterState, connector: str, topics: Sequence[str]) -> None:
        self._state = state
        self._connector = connector
        self._topics = topics

    def partitions(self) -> list[JsonObject]:
        """Every partition that a worker lists, ordered by key: a snapshot loses the log's order."""
        found = listed(self._state, self._topics, self._connector).values()
        return [one.subject.partition for one in sorted(found, key=lambda one: one.key)]

    def of(self, _topic: str, partition: JsonObject | None) -> Sequence[bytes]:
        """The single key, with fields in HashMap order."""
        return [encode_partition(self._connector, partition)]

    def place(self, _topic: str, _key: bytes) -> None:
        """None: Kafka's partitioner chooses the partition."""
        return
