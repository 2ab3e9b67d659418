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
    """One of the hash tables: hash codes by index of the partition, and initial buckets."""

    codes: Mapping[int, int]
    buckets: int


def in_order(offsets: SourceOffsetsView) -> list[OffsetView]:
    """Offsets in the worker's order, with the fields of partitions and offsets in hash order.

    The partitions that a worker leaves out take part: they fill buckets, too.
    """
    views: list[OffsetView | UnreadableOffset] = [*offsets.shown, *offsets.left_out]
    views.sort(key=lambda view: view.key or b"")
    partition_codes = {
        index: value_hash(view.partition, as_longs=True) for index, view in enumerate(views)
    }
    key_codes = {index: byte_buffer_hash(view.key or b"") for index, view in enumerate(views)}
    fitting_buckets = table_size(len(views)) if views else 1
    tables = (
        # HashSet of partitions (`#connectorPartitions`)
        _HashTable(partition_codes, _DEFAULT_BUCKETS),
        # keys to look up
        _HashTable(key_codes, fitting_buckets),
        # values found
        _HashTable(key_codes, _DEFAULT_BUCKETS),
        # copy of the values
        _HashTable(key_codes, table_size(len(views) * 4 // 3 + 1)),
        # the answer
        _HashTable(partition_codes, fitting_buckets),
    )
    order: Sequence[int] = range(len(views))
    for table in tables:
        order = hash_order({index: table.codes[index] for index in order}, table.buckets)
    listed = (views[index] for index in order)
    return [_with_field_order(view) for view in listed if isinstance(view, OffsetView)]


_DEFAULT_BUCKETS = 16
"""Buckets of a table created with the default capacity."""


def _with_field_order(view: OffsetView) -> OffsetView:
    offset = None if view.offset is None else _in_hash_order(view.offset)
    return view._replace(partition=_in_hash_order(view.partition), offset=offset)


def _in_hash_order(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in hash_map_order(fields)}
