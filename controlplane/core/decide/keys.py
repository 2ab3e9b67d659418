"""Under which keys a source partition is written: those that the log has, or those of Java.

Releases write the key of what they have read anew, in the order of Java's maps, and miss a record
whose key a connector has written in another order. We write the bytes of the log again, so that one
partition has one key (`Profile.writes_log_key`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from controlplane.core.codec.offsets import encode_partition, frozen
from controlplane.core.source_partitions import listed, spellings
from controlplane.core.state import ClusterState, OffsetState

Fields = Mapping[str, Any]


class _Logged(NamedTuple):
    """A partition, and the keys of it that have a value in a topic, the best one first."""

    partition: Fields | None
    keys: Sequence[bytes]


class LoggedKeys:
    """The keys of one connector in these topics, the first of which is its own."""

    def __init__(self, state: ClusterState, connector: str, topics: Sequence[str]) -> None:
        self._state = state
        self._connector = connector
        self._logged = {topic: self._logged_in(topic) for topic in topics}

    def partitions(self) -> list[Fields | None]:
        """Every partition that has a value in a topic, also what no worker lists."""
        known: dict[tuple[Any, ...], _Logged] = {}
        for logged in self._logged.values():
            known = {**logged, **known}
        return [one.partition for one in sorted(known.values(), key=lambda one: one.keys[0])]

    def of(self, topic: str, partition: Fields | None) -> Sequence[bytes]:
        """The keys under which a partition lies in a topic, the best one first, or would lie.

        One that the topic lacks is spelled as in the other one.
        """
        known = frozen(partition)
        if known in self._logged[topic]:
            return self._logged[topic][known].keys
        elsewhere = (logged[known].keys[:1] for logged in self._logged.values() if known in logged)
        return next(elsewhere, [encode_partition(self._connector, partition)])

    def place(self, topic: str, key: bytes) -> int | None:
        """The partition of the topic that has the key, if that is known.

        A foreign hand may have used another partitioner than Kafka's.
        """
        cause = self._state.causes.get((topic, key))
        return None if cause is None else cause.partition

    def _logged_in(self, topic: str) -> Mapping[tuple[Any, ...], _Logged]:
        found = spellings(self._state, topic, self._connector).items()
        logged = {
            known: _Logged(spelled[0].subject.partition, [one.key for one in spelled])
            for (_, known), spelled in found
        }
        nowhere = encode_partition(self._connector, None)  # can be written, and is never listed
        if nowhere in self._state.offsets.get(topic, OffsetState()).values:
            logged[frozen(None)] = _Logged(None, [nowhere])
        return logged


class JavaKeys:
    """The keys that a release writes, whatever those of the log are."""

    def __init__(self, state: ClusterState, connector: str, topics: Sequence[str]) -> None:
        self._state = state
        self._connector = connector
        self._topics = topics

    def partitions(self) -> list[Fields]:
        """Every partition that a worker lists. Which of them came first no snapshot tells."""
        found = listed(self._state, self._topics, self._connector).values()
        return [one.subject.partition for one in sorted(found, key=lambda one: one.key)]

    def of(self, _topic: str, partition: Fields | None) -> Sequence[bytes]:
        """One key: members in the order of a HashMap."""
        return [encode_partition(self._connector, partition)]

    def place(self, _topic: str, _key: bytes) -> None:
        """Where Kafka's partitioner puts it."""
        return
