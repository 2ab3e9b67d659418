"""Order in which a worker lists the source offsets of a connector.

A worker puts the partitions through several hash tables, and the last one is what it iterates over
(`Worker#sourceConnectorOffsets`, `OffsetStorageReaderImpl#offsets`). So the order depends on hash
codes alone, not on the order of the log. Only partitions that share a bucket in every table keep
the order in which the worker read them, which no snapshot knows: here it is that of their keys.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from controlplane.core.java import byte_buffer_hash, hash_map_order, hash_order, table_size
from controlplane.core.java_values import value_hash
from controlplane.core.views import OffsetView, SourceOffsets, UnreadableOffset


class _Table(NamedTuple):
    """A hash table on the way: whose codes it uses, and how many buckets it is made with."""

    codes: Mapping[int, int]
    buckets: int


def in_order(found: SourceOffsets) -> list[OffsetView]:
    """The offsets that a worker shows, in its order, and so the fields of each."""
    every: list[OffsetView | UnreadableOffset] = [*found.shown, *found.left_out]
    every.sort(key=lambda one: one.key or b"")
    partitions = {at: value_hash(one.partition, as_longs=True) for at, one in enumerate(every)}
    keys = {at: byte_buffer_hash(one.key or b"") for at, one in enumerate(every)}
    made_for_all = table_size(len(every)) if every else 1
    tables = (
        _Table(partitions, _USUAL),  # HashSet of partitions (`#connectorPartitions`)
        _Table(keys, made_for_all),  # keys to ask for
        _Table(keys, _USUAL),  # values that were found
        _Table(keys, table_size(len(every) * 4 // 3 + 1)),  # copy of those
        _Table(partitions, made_for_all),  # answer
    )
    order: Sequence[int] = range(len(every))
    for table in tables:
        order = hash_order({at: table.codes[at] for at in order}, table.buckets)
    listed = (every[at] for at in order)
    return [_hashed(one) for one in listed if isinstance(one, OffsetView)]


_USUAL = 16
"""Buckets of a table that is made for no number of entries."""


def _hashed(view: OffsetView) -> OffsetView:
    offset = None if view.offset is None else _in_hash_order(view.offset)
    return view._replace(partition=_in_hash_order(view.partition), offset=offset)


def _in_hash_order(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in hash_map_order(fields)}
