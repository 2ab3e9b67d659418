"""Orders requested offsets as the maps of a worker do.

A worker copies the offsets from one `HashMap` to the next. It writes them in the order of the last
one. Partitions that are equal in Java become one: the first spelling stays, the last offset wins.
A profile that does not write in hash order keeps the order of the request.
"""

from collections.abc import Iterable

from controlplane.core.codec.offsets import encode_partition, frozen
from controlplane.core.java.java_library import byte_buffer_hash, hash_order, table_size
from controlplane.core.java.json_values import value_hash
from controlplane.core.plan import Offsets, PlannedOffset
from controlplane.core.releases.profiles import Profile


def as_map(pairs: Iterable[PlannedOffset], profile: Profile, *, as_longs: bool) -> Offsets:
    """Merge pairs of equal partitions, in the order of a `HashMap` by partition.

    `as_longs`: hash each integer as a Long, as after Connect's converter (`value_hash`).
    """
    by_partition: dict[tuple[object, ...], PlannedOffset] = {}
    for partition, offset in pairs:
        key = frozen(partition)
        first, _ = by_partition.get(key, (partition, offset))
        by_partition[key] = first, offset
    if _keeps_order(len(by_partition), profile):
        return tuple(by_partition.values())
    codes = {key: value_hash(pair[0], as_longs=as_longs) for key, pair in by_partition.items()}
    return tuple(by_partition[key] for key in hash_order(codes))


def ordered_for_flush(connector: str, offsets: Offsets, profile: Profile) -> Offsets:
    """Offsets in the order of a `HashMap` by key. Its initial capacity is the number of offsets.

    Kafka: `OffsetStorageWriter#doFlush`.
    """
    if _keeps_order(len(offsets), profile):
        return offsets
    order = hash_order(_hash_codes(connector, offsets), table_size(len(offsets)))
    return tuple(offsets[index] for index in order)


def ordered_part(connector: str, pairs: Iterable[PlannedOffset], profile: Profile) -> Offsets:
    """Removals or values alone, in the order of a `HashMap` by key with the default capacity.

    Kafka: `ConnectorOffsetBackingStore#set`.
    """
    offsets = tuple(pairs)
    if _keeps_order(len(offsets), profile):
        return offsets
    return tuple(offsets[index] for index in hash_order(_hash_codes(connector, offsets)))


def _keeps_order(offsets: int, profile: Profile) -> bool:
    """True if this number of offsets keeps its order; hash codes are slow to compute."""
    return offsets <= 1 or not profile.writes_offsets_in_hash_order


def _hash_codes(connector: str, offsets: Offsets) -> dict[int, int]:
    keys = (encode_partition(connector, partition) for partition, _ in offsets)
    return {index: byte_buffer_hash(key) for index, key in enumerate(keys)}
