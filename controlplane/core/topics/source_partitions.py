"""Finds a connector's source offsets: their topics and their keys.

One source partition may be in several topics. In one topic its key may have several spellings, with
fields in another order, white space or escapes. Java compares partitions; compaction compares
bytes.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import contains
from typing import NamedTuple

import msgspec

from controlplane.core.codec.offsets import (
    PartitionIdentity,
    decode_partition,
    encode_partition,
    identity,
)
from controlplane.core.commands import AnyCommand
from controlplane.core.records import Invalid, Properties, SourcePartition
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, OffsetState


class SpelledPartition(NamedTuple):
    """A source partition and one of its keys."""

    subject: SourcePartition
    key: bytes


OFFSETS_TOPIC = "offsets.storage.topic"
"""Config key that gives a connector an offsets topic of its own (KIP-618)."""


_REMOTE = "@"
"""Marks a topic on another cluster; no topic can have it in its name."""


def remote_name(topic: str) -> str:
    """Name in `ClusterState.offsets` of an offsets topic on the cluster of a source's producer."""
    return f"{_REMOTE}{topic}"


def is_remote(topic: str) -> bool:
    """True if a name in `ClusterState.offsets` means a topic on another cluster."""
    return topic.startswith(_REMOTE)


def cluster_name(topic: str) -> str:
    """Name that a topic has on its own cluster, given its name in `ClusterState.offsets`."""
    return topic.removeprefix(_REMOTE)


def topics_of(state: ClusterState, config: Properties) -> list[str]:
    """Offsets topics of a connector with this config: its own first, if any, then the worker's.

    A topic on another cluster takes the place of the own one if the state has its offsets
    (`remote_offsets.with_remote`).
    """
    configured = config.get(OFFSETS_TOPIC)
    own = configured if isinstance(configured, str) else state.topics.offsets
    first = remote_name(own) if remote_name(own) in state.offsets else own
    # The profile is read only if the connector has an offsets topic of its own. `profile_groups`
    # computes a result once for all releases that agree in the fields that were read. A field that
    # is not read does not separate them.
    if first == state.topics.offsets or not state.profile.own_offset_topics:
        return [state.topics.offsets]
    return [first, state.topics.offsets]


def own_offsets_topics(state: ClusterState, command: AnyCommand) -> set[str]:
    """Connectors' own offsets topics that a decision depends on, by present and requested config.

    A reader must follow them before the decision. A config reveals its topic to the reader only
    once it has been written.
    """
    present = state.config.connectors.get(getattr(command, "connector", ""))
    configs = (present, getattr(command, "config", None))
    topics = {topic for config in configs if config for topic in topics_of(state, config)}
    return topics - {state.topics.offsets}


def spellings(
    state: ClusterState, topic: str, connector: str
) -> dict[PartitionIdentity, list[SpelledPartition]]:
    """Keys with a value in a topic, by their source partition.

    The key that a worker would write comes first, the others follow in byte order. The order of
    writing is unknown here: the order of a snapshot depends on how the log was loaded.
    """
    partitions: dict[PartitionIdentity, list[SpelledPartition]] = {}
    for key in _keys_of(connector, state.offsets.get(topic, OffsetState())):
        subject = decode_partition(key, state.profile)
        if not isinstance(subject, Invalid) and subject.connector == connector:
            partitions.setdefault(identity(subject), []).append(SpelledPartition(subject, key))
    for spelled in partitions.values():
        if len(spelled) > 1:
            written = encode_partition(connector, spelled[0].subject.partition)
            spelled.sort(key=lambda spelling: (spelling.key != written, spelling.key))
    return partitions


def listed(
    state: ClusterState, topics: Sequence[str], connector: str
) -> Mapping[PartitionIdentity, SpelledPartition]:
    """Partitions that a worker lists, once each, with a key of the first topic that has it.

    A partition is not listed if its last record was a tombstone
    (`OffsetUtils#processPartitionKey`). This holds even if another key, which spells the same
    partition differently, still has a value.
    """
    partitions: dict[PartitionIdentity, SpelledPartition] = {}
    for topic in topics:
        hidden = state.offsets.get(topic, OffsetState()).hidden
        for partition_key, spelled in spellings(state, topic, connector).items():
            if partition_key not in partitions and partition_key not in hidden:
                partitions[partition_key] = spelled[0]
    return partitions


def narrowed(state: ClusterState, connector: str, key: bytes | None) -> ClusterState:
    """The state with the offsets of one source partition only, given its raw key."""
    subject = decode_partition(key, state.profile)
    keys = [key]
    if not isinstance(subject, Invalid):
        keys.append(encode_partition(connector, subject.partition))
    offsets = {
        topic: msgspec.structs.replace(
            part, values={key: part.values[key] for key in keys if key in part.values}
        )
        for topic, part in state.offsets.items()
    }
    return msgspec.structs.replace(state, offsets=offsets)


class OffsetsByConnector:
    """Divides the offsets of a state by connector; each key is parsed at most once.

    Listing the partitions of every connector by `listed` would parse each key once per connector.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._values = {
            topic: _by_name(part, state.profile) for topic, part in state.offsets.items()
        }

    @property
    def names(self) -> list[str]:
        """Names of connectors in the keys.

        A plain key (`_is_plain`) counts even if a worker cannot decode it. Other keys count only if
        a worker can.
        """
        return sorted({name for by_name in self._values.values() for name in by_name})

    def state_of(self, name: str) -> ClusterState:
        """Return the state with the offsets of one connector only."""
        offsets = {
            topic: msgspec.structs.replace(part, values=self._values[topic].get(name, {}))
            for topic, part in self._state.offsets.items()
        }
        return msgspec.structs.replace(self._state, offsets=offsets)


def _by_name(
    offsets: OffsetState, profile: Profile
) -> Mapping[str, dict[bytes | None, bytes | None]]:
    """Offsets by connector. Keys whose text does not show their connector are parsed."""
    by_name: dict[str, dict[bytes | None, bytes | None]] = defaultdict(dict)
    for key, value in offsets.values.items():
        if key is not None and _is_plain(key):
            name = key[2 : key.find(b'"', 2)].decode("ascii")
        else:
            subject = decode_partition(key, profile)
            if isinstance(subject, Invalid):
                continue
            name = subject.connector
        by_name[name][key] = value
    return by_name


def _is_plain(key: bytes) -> bool:
    """True if a key begins with `["` and is ASCII without escapes: its bytes show the name."""
    return key[:2] == b'["' and b"\\" not in key and key.isascii()


def plain_key_prefix(connector: str) -> bytes:
    """The first bytes of a connector's keys in Connect's spelling, if its name needs no escapes."""
    return b'["' + connector.encode("utf-8", "surrogatepass") + b'"'


def _keys_of(name: str, offsets: OffsetState) -> list[bytes]:
    """Keys that may belong to a connector; the others are excluded without parsing.

    The name in a plain key (`_is_plain`) is compared as bytes.
    """
    prefix = plain_key_prefix(name)
    keys = [key for key in offsets.values if key is not None]
    if _are_plain(keys):
        return [key for key in keys if key.startswith(prefix)]
    return [key for key in keys if key.startswith(prefix) or not _is_plain(key)]


def _are_plain(keys: Sequence[bytes]) -> bool:
    """True if all keys are plain (`_is_plain`). One call per key would take three times as long."""
    return (
        all(map(bytes.startswith, keys, repeat(b'["')))
        and not any(map(contains, keys, repeat(b"\\")))
        and all(map(bytes.isascii, keys))
    )
