"""Runs of rows, and their keys as numbers."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Places = npt.NDArray[np.int64]
"""Row numbers, ascending."""

Times = npt.NDArray[np.int64]
"""Milliseconds since 1970."""

_KEYS = pa.dictionary(pa.int32(), pa.binary())


class Rows(Protocol):
    """Rows of one partition, one after the other. Each column is read when it is asked for."""

    def __len__(self) -> int: ...

    def read(self, *columns: str) -> pa.Table:
        """Some of their columns; keys may come as a dictionary."""
        ...


class Held(NamedTuple):
    """Rows in memory."""

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def read(self, *columns: str) -> pa.Table:
        """Some of their columns."""
        return self.table.select(columns)


class Keys(NamedTuple):
    """The keys of some rows as numbers; the last number is that of null."""

    dictionary: pa.Array
    codes: npt.NDArray[np.int64]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> "Keys":
        """The keys of a column. Equal keys have one number, whatever dictionary they came in."""
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        whole = column.cast(_KEYS).unify_dictionaries().combine_chunks()
        if isinstance(whole, pa.ChunkedArray):  # of no chunk at all, or of several
            whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], _KEYS)
        null = len(whole.dictionary)
        codes = whole.indices.fill_null(null).to_numpy(zero_copy_only=False)
        return cls(whole.dictionary, codes.astype(np.int64))

    def last(self, among: Places | None = None) -> Places:
        """By number of the key the last row that has it; -1: none has."""
        last = np.full(len(self.dictionary) + 1, -1, np.int64)
        # Of several values for one place numpy keeps the last: the row that comes last.
        if among is None:
            last[self.codes] = np.arange(len(self.codes))
        else:
            last[self.codes[among]] = among
        return last

    def inside(self, wanted: pa.Array) -> npt.NDArray[np.bool_]:
        """By number of the key, whether it is among these."""
        null = bool(wanted.null_count)
        listed = pc.is_in(self.dictionary, value_set=wanted.drop_null())
        found: npt.NDArray[np.bool_] = np.append(listed.to_numpy(zero_copy_only=False), null)
        return found

    def at(self, places: Places) -> pa.Array:
        """The keys of some rows."""
        return pa.DictionaryArray.from_arrays(
            pa.array(self.codes[places], mask=self.codes[places] == len(self.dictionary)),
            self.dictionary,
        ).cast(pa.binary())


def visible(rows: Rows, *, aborted: bool, null: bool = True) -> Places | None:
    """The rows that a reader sees; None: all.

    `aborted`: rows of aborted transactions are seen, too. `null`: tombstones are.
    """
    hidden = np.zeros(len(rows), np.bool_)
    if not aborted:
        hidden |= rows.read("aborted").column("aborted").to_numpy()
    if not null:
        hidden |= rows.read("value").column("value").is_null().to_numpy()
    return np.flatnonzero(~hidden) if hidden.any() else None


def running_times(runs: Sequence[Rows]) -> Iterator[Times]:
    """By run, for each row the greatest timestamp up to it: by this the one order goes."""
    latest: int | None = None
    for rows in runs:
        times = np.maximum.accumulate(numbers(rows, "timestamp"))
        if latest is not None:
            times = np.maximum(times, latest)
        if len(times):
            latest = int(times[-1])
        yield times


def numbers(rows: Rows, column: str) -> npt.NDArray[np.int64]:
    """A column of numbers."""
    found: npt.NDArray[np.int64] = rows.read(column).column(column).to_numpy()
    return found
