"""Where a connector's source offsets lie, and under which keys.

One source partition may lie in several topics, and in one topic under several spellings of its key:
members in another order, white space, escapes. Java compares partitions, compaction compares bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from controlplane.core.codec.offsets import Identity, decode_partition, encode_partition, identity
from controlplane.core.profiles import Profile
from controlplane.core.records import Invalid, Properties, SourcePartition
from controlplane.core.state import ClusterState, OffsetState


class Spelled(NamedTuple):
    """A source partition and the bytes of a key that means it."""

    subject: SourcePartition
    key: bytes


OFFSETS_TOPIC = "offsets.storage.topic"
"""The key of a connector's config by which it has a topic of its own (KIP-618)."""


def topics_of(state: ClusterState, config: Properties) -> list[str]:
    """Where a connector with this config has its offsets: its own topic first, if it has one."""
    if not state.profile.own_offset_topics:
        return [state.topics.offsets]
    own = config.get(OFFSETS_TOPIC)
    if not isinstance(own, str) or own == state.topics.offsets:
        return [state.topics.offsets]
    return [own, state.topics.offsets]


def spellings(state: ClusterState, topic: str, connector: str) -> dict[Identity, list[Spelled]]:
    """The keys that have a value in a topic, by the partition that they mean; the best one first.

    The best is the one that a worker would write, then the least: which of them came first no
    snapshot tells, as it depends on how the log was loaded.
    """
    found: dict[Identity, list[Spelled]] = {}
    for key in _keys_of(connector, state.offsets.get(topic, OffsetState())):
        subject = decode_partition(key, state.profile)
        if not isinstance(subject, Invalid) and subject.connector == connector:
            found.setdefault(identity(subject), []).append(Spelled(subject, key))
    for spelled in found.values():
        if len(spelled) > 1:
            written = encode_partition(connector, spelled[0].subject.partition)
            spelled.sort(key=lambda one: (one.key != written, one.key))
    return found


def listed(
    state: ClusterState, topics: Sequence[str], connector: str
) -> Mapping[Identity, Spelled]:
    """The partitions that a worker lists, once each, with a key of the first topic that has it.

    A partition whose last record was a tombstone is not listed, even where another spelling of its
    key still has a value (`OffsetUtils#processPartitionKey`).
    """
    found: dict[Identity, Spelled] = {}
    for topic in topics:
        hidden = state.offsets.get(topic, OffsetState()).hidden
        for known, spelled in spellings(state, topic, connector).items():
            if known not in found and known not in hidden:
                found[known] = spelled[0]
    return found


def narrowed(state: ClusterState, connector: str, key: bytes | None) -> ClusterState:
    """The state with the offsets of one source partition only: that of a raw key."""
    subject = decode_partition(key, state.profile)
    keys = [key]
    if not isinstance(subject, Invalid):
        keys.append(encode_partition(connector, subject.partition))
    offsets = {
        topic: msgspec.structs.replace(
            known, values={one: known.values[one] for one in keys if one in known.values}
        )
        for topic, known in state.offsets.items()
    }
    return msgspec.structs.replace(state, offsets=offsets)


def apart(state: ClusterState) -> Callable[[str], ClusterState]:
    """A function from a connector's name to the state with that connector's offsets only.

    Each key is looked at once. A caller that lists the partitions of every connector would look
    at each key once for each connector.
    """
    parts = {topic: _by_name(known, state.profile) for topic, known in state.offsets.items()}

    def of_one(name: str) -> ClusterState:
        """The state as far as one connector is concerned."""
        offsets = {
            topic: msgspec.structs.replace(known, values=parts[topic].get(name, {}))
            for topic, known in state.offsets.items()
        }
        return msgspec.structs.replace(state, offsets=offsets)

    return of_one


def _by_name(topic: OffsetState, profile: Profile) -> dict[str, dict[bytes | None, bytes | None]]:
    """The values of each connector. A key that does not mean what it says is parsed."""
    found: dict[str, dict[bytes | None, bytes | None]] = {}
    for key, value in topic.values.items():
        if key is not None and _is_plain(key):
            name = key[2 : key.find(b'"', 2)].decode("ascii")
        else:
            subject = decode_partition(key, profile)
            if isinstance(subject, Invalid):
                continue
            name = subject.connector
        found.setdefault(name, {})[key] = value
    return found


def _is_plain(key: bytes) -> bool:
    """Whether a key begins with a quoted name in plain ASCII without escapes."""
    return key[:2] == b'["' and b"\\" not in key and key.isascii()


def _keys_of(name: str, topic: OffsetState) -> list[bytes]:
    """The keys that may be a connector's; the others are told apart without parsing them.

    A key that begins with a quoted name, in plain ASCII without escapes, means what it says.
    """
    prefix = b'["' + name.encode("utf-8", "surrogatepass") + b'"'
    size = len(prefix)
    return [
        key
        for key in topic.values
        if key is not None and (key[:size] == prefix or not _is_plain(key))
    ]
