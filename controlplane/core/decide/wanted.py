"""The offsets of a request as the maps that a worker makes of them, on their way to the log.

A worker puts them from one `HashMap` into the next, and writes them as the last one iterates. What
is equal as Java compares it collapses: the first spelling of a partition stays, the last offset
counts. Under a profile that does not write in hash order they stay as they were asked for.
"""

from collections.abc import Iterable

from controlplane.core.codec.offsets import encode_partition, frozen
from controlplane.core.java import byte_buffer_hash, hash_order, table_size
from controlplane.core.java_values import value_hash
from controlplane.core.plan import Offset, Offsets
from controlplane.core.profiles import Profile


def as_map(pairs: Iterable[Offset], profile: Profile, *, as_longs: bool) -> Offsets:
    """`new HashMap<>()` after these were put into it. `as_longs`: Connect has read the integers."""
    put: dict[tuple[object, ...], Offset] = {}
    for partition, offset in pairs:
        known = frozen(partition)
        first, _ = put.get(known, (partition, offset))
        put[known] = first, offset
    if not profile.writes_offsets_in_hash_order:
        return tuple(put.values())
    codes = {known: value_hash(one[0], as_longs=as_longs) for known, one in put.items()}
    return tuple(put[known] for known in hash_order(codes))


def serialised(connector: str, offsets: Offsets, profile: Profile) -> Offsets:
    """In the order of the map of keys, made for so many (`OffsetStorageWriter#doFlush`)."""
    if not profile.writes_offsets_in_hash_order:
        return offsets
    order = hash_order(_codes(connector, offsets), table_size(len(offsets)))
    return tuple(offsets[place] for place in order)


def selected(connector: str, some: Iterable[Offset], profile: Profile) -> Offsets:
    """Some of those, in the order of a map of their own (`ConnectorOffsetBackingStore#set`)."""
    offsets = tuple(some)
    if not profile.writes_offsets_in_hash_order:
        return offsets
    return tuple(offsets[place] for place in hash_order(_codes(connector, offsets)))


def _codes(connector: str, offsets: Offsets) -> dict[int, int]:
    keys = (encode_partition(connector, partition) for partition, _ in offsets)
    return {place: byte_buffer_hash(key) for place, key in enumerate(keys)}
