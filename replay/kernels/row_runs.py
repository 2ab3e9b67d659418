"""Runs of rows, and keys as numbers."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

RowIndexes = npt.NDArray[np.int64]
"""Row numbers, ascending."""

RowTimes = npt.NDArray[np.int64]
"""Milliseconds since 1970."""

_KEYS = pa.dictionary(pa.int32(), pa.binary())

_NULL_KEY = pa.nulls(1, pa.binary())


class RowRun(Protocol):
    """Consecutive rows of one partition. Columns are read on demand."""

    def __len__(self) -> int: ...

    def read(self, *columns: str) -> pa.Table:
        """Read some columns; keys may come as a dictionary."""
        ...


class HeldRows(NamedTuple):
    """Run of rows that are in memory already."""

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def read(self, *columns: str) -> pa.Table:
        """Select columns of the table; nothing is decoded."""
        return self.table.select(columns)


class JoinedRows(NamedTuple):
    """Consecutive runs as one run."""

    runs: Sequence[RowRun]

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def read(self, *columns: str) -> pa.Table:
        """Read some columns of all runs."""
        return pa.concat_tables([rows.read(*columns) for rows in self.runs])


JOINED_ROWS = 65_536
"""Greatest number of rows of runs that are joined; it bounds the memory."""


def joined(runs: Sequence[RowRun]) -> list[RowRun]:
    """Join short consecutive runs.

    A reduction compares each run with all keys of the later runs. An archive that was never merged
    may have a run for each minute.
    """
    groups: list[list[RowRun]] = []
    length = 0
    for rows in runs:
        length += len(rows)
        if not groups or length > JOINED_ROWS:
            groups.append([])
            length = len(rows)
        groups[-1].append(rows)
    return [group[0] if len(group) == 1 else JoinedRows(group) for group in groups]


class NumberedKeys(NamedTuple):
    """Keys of rows as numbers; the last number is the null key."""

    dictionary: pa.Array
    codes: npt.NDArray[np.int64]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> "NumberedKeys":
        """Assign numbers to the keys of a column; equal keys of different chunks get one number."""
        whole = _one_dictionary(column)
        indices = whole.indices
        if indices.null_count:
            indices = indices.fill_null(len(whole.dictionary))
        return cls(whole.dictionary, indices.to_numpy().astype(np.int64))

    @classmethod
    def of_parts(cls, columns: Sequence[pa.ChunkedArray]) -> "NumberedKeys":
        """Assign numbers to the keys of several partitions; each column has one partition's keys.

        Equal keys of different partitions get different numbers. So no key is compared with the
        keys of other partitions. In the dictionary, a null follows the keys of each partition.
        """
        parts = [cls.of(column) for column in columns]
        starts = np.cumsum([0, *(len(keys.dictionary) + 1 for keys in parts[:-1])])
        return cls(
            pa.concat_arrays([keys for part in parts for keys in (part.dictionary, _NULL_KEY)]),
            np.concatenate([part.codes + start for part, start in zip(parts, starts, strict=True)]),
        )

    def last(self, among: RowIndexes | None = None) -> RowIndexes:
        """Last row of each key, by its number; -1 if no row has it."""
        last = np.full(len(self.dictionary) + 1, -1, np.int64)
        # Numpy keeps the last of several values for one place: the last row.
        if among is None:
            last[self.codes] = np.arange(len(self.codes))
        else:
            last[self.codes[among]] = among
        return last

    def inside(self, wanted: pa.Array) -> npt.NDArray[np.bool_]:
        """For each key, by its number: True if it is among the wanted ones."""
        null = bool(wanted.null_count)
        listed = pc.is_in(self.dictionary, value_set=wanted.drop_null())
        is_inside: npt.NDArray[np.bool_] = np.append(listed.to_numpy(zero_copy_only=False), null)
        return is_inside

    def at(self, places: RowIndexes) -> pa.Array:
        """Keys of the rows at these places, decoded; null for the null key."""
        return pa.DictionaryArray.from_arrays(
            pa.array(self.codes[places], mask=self.codes[places] == len(self.dictionary)),
            self.dictionary,
        ).cast(pa.binary())


def _one_dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Keys of a column with one dictionary, in which each key occurs once."""
    if not pa.types.is_dictionary(column.type):
        # One chunk: otherwise each dictionary would repeat the keys of all earlier chunks.
        chunk = column.combine_chunks()
        column = pa.chunked_array([chunk]) if isinstance(chunk, pa.Array) else chunk
        column = column.dictionary_encode()
    column = column.cast(_KEYS)
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # a column of no chunk or of several
        return pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], _KEYS)
    return whole


def visible(rows: RowRun, *, aborted: bool, null: bool = True) -> RowIndexes | None:
    """Rows that a reader sees; None means all.

    `aborted` includes rows of aborted transactions, `null` tombstones.
    """
    hidden = np.zeros(len(rows), np.bool_)
    if not aborted:
        hidden |= rows.read("aborted").column("aborted").to_numpy()
    if not null:
        hidden |= rows.read("value").column("value").is_null().to_numpy()
    return np.flatnonzero(~hidden) if hidden.any() else None


def running_times(runs: Sequence[RowRun]) -> Iterator[RowTimes]:
    """For each run, the running maximum of timestamps: it defines the one order."""
    latest: int | None = None
    for rows in runs:
        times = np.maximum.accumulate(numbers(rows, "timestamp"))
        if latest is not None:
            times = np.maximum(times, latest)
        if len(times):
            latest = int(times[-1])
        yield times


def numbers(rows: RowRun, column: str) -> npt.NDArray[np.int64]:
    """Read a column of numbers."""
    values: npt.NDArray[np.int64] = rows.read(column).column(column).to_numpy()
    return values
