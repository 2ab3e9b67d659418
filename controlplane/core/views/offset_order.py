"""Order in which a worker lists the source offsets of a connector.

A worker puts the partitions through several hash tables and iterates over the last one
(`Worker#sourceConnectorOffsets`, `OffsetStorageReaderImpl#offsets`). So the order depends on hash
codes, not on the order of the log. Partitions that share a bucket in every table keep the order in
which the worker read them. A snapshot does not have that order; the order of keys replaces it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from controlplane.core.java.java_library import (
    byte_buffer_hash,
    hash_map_order,
    hash_order,
    table_size,
)
from controlplane.core.java.json_values import value_hash
from controlplane.core.views import OffsetView, SourceOffsetsView, UnreadableOffset


class _HashTable(NamedTuple):
    """One of the hash tables: the codes that it uses, and its initial number of buckets."""

    codes: Mapping[int, int]
    buckets: int


def in_order(offsets: SourceOffsetsView) -> list[OffsetView]:
    """Offsets in the worker's order, with the fields of each in its order."""
    every: list[OffsetView | UnreadableOffset] = [*offsets.shown, *offsets.left_out]
    every.sort(key=lambda view: view.key or b"")
    partitions = {at: value_hash(view.partition, as_longs=True) for at, view in enumerate(every)}
    keys = {at: byte_buffer_hash(view.key or b"") for at, view in enumerate(every)}
    made_for_all = table_size(len(every)) if every else 1
    tables = (
        _HashTable(partitions, _USUAL),  # HashSet of partitions (`#connectorPartitions`)
        _HashTable(keys, made_for_all),  # keys to look up
        _HashTable(keys, _USUAL),  # values found
        _HashTable(keys, table_size(len(every) * 4 // 3 + 1)),  # copy of the values
        _HashTable(partitions, made_for_all),  # the answer
    )
    order: Sequence[int] = range(len(every))
    for table in tables:
        order = hash_order({at: table.codes[at] for at in order}, table.buckets)
    listed = (every[at] for at in order)
    return [_hashed(view) for view in listed if isinstance(view, OffsetView)]


_USUAL = 16
"""Buckets of a table created with the default capacity."""


def _hashed(view: OffsetView) -> OffsetView:
    offset = None if view.offset is None else _in_hash_order(view.offset)
    return view._replace(partition=_in_hash_order(view.partition), offset=offset)


def _in_hash_order(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in hash_map_order(fields)}
