"""The table of offsets as Arrow batches: most rows are copied without an object per row.

A connector is *plain* if all its records are canonical, without secrets, in the worker's topic. The
rows of plain connectors are made of slices of their keys, for all these connectors at once. The
others have the rows of `offset_rows`. Both ways give the same rows in the same order.
"""

from collections.abc import Iterator
from itertools import compress, groupby, islice
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from controlplane.core import views
from controlplane.core.codec.offsets import plain_fields
from controlplane.core.state import ClusterState, OffsetState
from controlplane.core.topics.source_partitions import OffsetsByConnector
from replay.kernels.row_runs import RowIndexes
from replay.tables import cells
from replay.tables.canonical_documents import CanonicalDocuments, DocumentMask
from replay.tables.cells import RowDocument, column_batch, rebatched, tuple_batches
from replay.tables.offset_rows import OFFSET_COLUMNS, connector_rows, offset_rows

FEW_ROWS = 1_000
"""Rows up to which a state is copied by connector: compiling patterns would take longer."""

BLOCK_ROWS = 65_536
"""Rows that are checked at once: a limit on memory."""

_ODD = -1
"""In place of a connector's number: the key or the value is not plain."""


def offset_batches(
    schema: pa.Schema, state: ClusterState, constants: RowDocument, few_rows: int = FEW_ROWS
) -> Iterator[pa.RecordBatch]:
    """Rows of `offset_rows` as batches; `constants` are columns with one value."""
    if len(_worker_offsets(state).values) <= few_rows:
        return tuple_batches(schema, OFFSET_COLUMNS, offset_rows(state), constants)
    return rebatched(_pieces(schema, state, constants))


def _worker_offsets(state: ClusterState) -> OffsetState:
    return state.offsets.get(state.topics.offsets, OffsetState())


class _WorkerRecords(NamedTuple):
    """Records of the worker's topic, and the number of each record's connector."""

    keys: pa.Array
    values: pa.Array
    connectors: RowIndexes
    """Number of the connector; `_ODD` for records that are not plain."""
    names: list[str]
    """Names of the connectors, by number."""
    hiding: frozenset[str]
    """Connectors with a plain record whose source partition was removed by another spelling."""

    def reduced(self, state: ClusterState, rows: DocumentMask) -> ClusterState:
        """The state with these records of the topic only."""
        topic = state.topics.offsets
        part = state.offsets[topic]
        values = dict(compress(part.values.items(), rows.tolist()))
        part = msgspec.structs.replace(part, values=values)
        return msgspec.structs.replace(state, offsets={**state.offsets, topic: part})

    def batches(
        self, schema: pa.Schema, constants: RowDocument, rows: RowIndexes
    ) -> Iterator[pa.RecordBatch]:
        """Rows of plain records, at most `BATCH_ROWS` at a time."""
        names = pa.array(self.names, pa.string())
        for first in range(0, len(rows), cells.BATCH_ROWS):
            places = rows[first : first + cells.BATCH_ROWS]
            keys = self.keys.take(pa.array(places)).cast(pa.binary())
            values = self.values.take(pa.array(places)).cast(pa.binary())
            columns = {
                "connector": names.take(pa.array(self.connectors[places])),
                "partition": pc.utf8_slice_codeunits(_halves(keys, 1).cast(pa.string()), 0, -1),
                "offset": values.cast(pa.string()),
                "problem": pa.nulls(len(places), pa.string()),
            }
            yield column_batch(schema, columns, constants, len(places))


def _pieces(
    schema: pa.Schema, state: ClusterState, constants: RowDocument
) -> Iterator[pa.RecordBatch]:
    """Batches of any size, sorted by connector."""
    records = _worker_records(state)
    odd = _odd_connectors(state, records)
    is_odd = np.array([*(name in odd for name in records.names), True])  # the last: `_ODD`
    offsets = OffsetsByConnector(records.reduced(state, is_odd[records.connectors]))
    numbers = {name: number for number, name in enumerate(records.names) if name not in odd}
    plain = sorted(numbers)
    ranks = np.full(len(records.names) + 1, -1)
    ranks[[numbers[name] for name in plain]] = np.arange(len(plain))
    row_ranks = ranks[records.connectors]
    rows = np.argsort(row_ranks, kind="stable")  # within a connector, the order of the state
    rows = rows[np.count_nonzero(row_ranks < 0) :]
    sorted_ranks = row_ranks[rows]
    first = 0
    for is_plain, names in groupby(sorted({*plain, *offsets.names}), numbers.__contains__):
        group = list(names)
        if is_plain:
            begin, end = np.searchsorted(sorted_ranks, [first, first + len(group)])
            yield from records.batches(schema, constants, rows[begin:end])
            first += len(group)
        else:
            tuples = connector_rows(state, offsets, group)
            yield from tuple_batches(schema, OFFSET_COLUMNS, tuples, constants)


def _odd_connectors(state: ClusterState, records: _WorkerRecords) -> set[str]:
    """Connectors that are not plain."""
    others = OffsetsByConnector(records.reduced(state, records.connectors == _ODD)).names
    topics = [state.topics.offsets]
    own = (name for name in records.names if views.offsets_topics(state, name) != topics)
    return {*others, *own, *records.hiding}


def _worker_records(state: ClusterState) -> _WorkerRecords:
    part = _worker_offsets(state)
    keys, values = iter(part.values), iter(part.values.values())
    columns: tuple[list[pa.Array], list[pa.Array]] = ([], [])
    canonical_keys, canonical_values = CanonicalDocuments.keys(), CanonicalDocuments.values()
    numbers: dict[str, int] = {}
    connectors = np.full(len(part.values), _ODD)
    for first in range(0, len(connectors), BLOCK_ROWS):
        block = slice(first, first + BLOCK_ROWS)
        block_keys = pa.array(list(islice(keys, BLOCK_ROWS)), pa.large_binary())
        block_values = pa.array(list(islice(values, BLOCK_ROWS)), pa.large_binary())
        is_plain = canonical_keys.among(block_keys)
        is_plain &= canonical_values.among(block_values) | ~_is_valid(block_values)
        names = _halves(block_keys.filter(pa.array(is_plain)), 0).dictionary_encode()
        texts = [beginning[2:].decode() for beginning in names.dictionary.to_pylist()]
        own_numbers = np.array([numbers.setdefault(name, len(numbers)) for name in texts], int)
        connectors[block][is_plain] = own_numbers[names.indices.to_numpy()]
        for column, block_column in zip(columns, (block_keys, block_values), strict=True):
            column.append(block_column)
    whole_keys, whole_values = map(pa.concat_arrays, columns)
    hiding = frozenset(_hiding(part, canonical_keys))
    return _WorkerRecords(whole_keys, whole_values, connectors, list(numbers), hiding)


def _is_valid(column: pa.Array) -> DocumentMask:
    mask: DocumentMask = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _halves(keys: pa.Array, half: int) -> pa.Array:
    """Beginning (0) or rest (1) of plain keys: before and after the name's last quote."""
    pieces = pc.split_pattern(keys, '",', max_splits=1).flatten()
    return pieces.take(pa.array(np.arange(half, len(pieces), 2)))


def _hiding(part: OffsetState, canonical: CanonicalDocuments) -> Iterator[str]:
    """Connectors whose plain records may be hidden (`OffsetState.hidden`)."""
    for connector, form in part.hidden:
        fields = plain_fields(form)
        key = None if fields is None else canonical.encoded_key(connector, fields)
        if key is not None and key in part.values:
            yield connector
