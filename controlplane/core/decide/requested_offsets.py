"""Orders requested offsets as the maps of a worker do.

A worker copies them from one `HashMap` to the next, and writes them in the order of the last one.
Partitions that are equal in Java become one: the first spelling stays, the last offset wins. A
profile that does not write in hash order keeps the order of the request.
"""

from collections.abc import Iterable

from controlplane.core.codec.offsets import encode_partition, frozen
from controlplane.core.java.java_library import byte_buffer_hash, hash_order, table_size
from controlplane.core.java.json_values import value_hash
from controlplane.core.plan import Offsets, PlannedOffset
from controlplane.core.releases.profiles import Profile


def as_map(pairs: Iterable[PlannedOffset], profile: Profile, *, as_longs: bool) -> Offsets:
    """Pairs in the order of a `HashMap`. `as_longs`: integers have been read by Connect."""
    put: dict[tuple[object, ...], PlannedOffset] = {}
    for partition, offset in pairs:
        key = frozen(partition)
        first, _ = put.get(key, (partition, offset))
        put[key] = first, offset
    if not profile.writes_offsets_in_hash_order:
        return tuple(put.values())
    codes = {key: value_hash(pair[0], as_longs=as_longs) for key, pair in put.items()}
    return tuple(put[key] for key in hash_order(codes))


def serialised(connector: str, offsets: Offsets, profile: Profile) -> Offsets:
    """Offsets in the order of a map of keys with that capacity (`OffsetStorageWriter#doFlush`)."""
    if not profile.writes_offsets_in_hash_order:
        return offsets
    order = hash_order(_codes(connector, offsets), table_size(len(offsets)))
    return tuple(offsets[place] for place in order)


def selected(connector: str, pairs: Iterable[PlannedOffset], profile: Profile) -> Offsets:
    """A selection in the order of its own map (`ConnectorOffsetBackingStore#set`)."""
    offsets = tuple(pairs)
    if not profile.writes_offsets_in_hash_order:
        return offsets
    return tuple(offsets[place] for place in hash_order(_codes(connector, offsets)))


def _codes(connector: str, offsets: Offsets) -> dict[int, int]:
    keys = (encode_partition(connector, partition) for partition, _ in offsets)
    return {place: byte_buffer_hash(key) for place, key in enumerate(keys)}
