"""Kernels, which reduce Arrow tables, keep the same rows as plain Python code.

The plain code is a dict by key, and the core's `live_records`.
"""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from controlplane.core.entry import Entry, batch_of
from controlplane.core.fold.live_statuses import live_records
from controlplane.core.order import running_max
from controlplane.core.releases.profiles import Profile
from replay.archive.segments.segment_files import table_of
from replay.kernels import row_runs
from replay.kernels.last_value import last_times, last_values, last_values_of_parts
from replay.kernels.row_runs import HeldRows, NumberedKeys, joined
from replay.kernels.status_rows import counting_rows
from tests.conftest import FEWER_EXAMPLES
from tests.laws.entries import logs, profiles, statuses


@pytest.fixture(autouse=True, scope="module")
def _few_rows_are_joined() -> Iterator[None]:
    """Let short logs have runs that are joined, and others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_runs, "JOINED_ROWS", 12)
        yield


def runs_of(entries: list[Entry], cuts: list[int], *, encoded: bool = True) -> list[HeldRows]:
    """Entries of one partition as runs of rows; if `encoded`, each has its own key dictionary."""
    if not entries:
        return []
    table = table_of([batch_of(entries)])
    ends = [*sorted(min(cut, len(entries)) for cut in cuts), len(entries)]
    runs = []
    for start, end in zip([0, *ends], ends, strict=False):
        part = table.slice(start, end - start)
        if encoded:
            keys = part.column("key").combine_chunks().dictionary_encode()
            part = part.set_column(2, "key", keys)
        runs.append(HeldRows(part))
    return runs


partitions = st.builds(
    lambda log: [replace(entry, topic="t", partition=0, offset=at) for at, entry in enumerate(log)],
    logs(among=("connect-offsets", "connect-status")) | statuses(),
)


cuts = st.lists(st.integers(0, 40), max_size=4)


@settings(max_examples=FEWER_EXAMPLES)
@given(partitions, cuts, st.booleans(), st.booleans())
def test_the_kernel_keeps_the_last_row_of_each_key(
    entries: list[Entry], where: list[int], aborted: bool, encoded: bool
) -> None:
    """The kernel keeps each key's last row in offset order; null keys and tombstones count, too."""
    last: dict[bytes | None, Entry] = {}
    for entry in entries:
        if aborted or not entry.aborted:
            last[entry.key] = entry
    expected = sorted((entry.offset, entry.key, entry.value) for entry in last.values())
    runs = runs_of(entries, where, encoded=encoded)
    columns = last_values(runs, aborted=aborted).to_pydict()
    assert list(zip(*columns.values(), strict=True)) == expected
    if runs:
        times = dict(enumerate(running_max(entry.timestamp for entry in entries)))
        ranked = last_times(runs, aborted=aborted).to_pydict()
        assert ranked["timestamp"] == [times[offset] for offset, *_ in expected]


@settings(max_examples=FEWER_EXAMPLES)
@given(st.lists(st.tuples(partitions.filter(bool), cuts), min_size=1, max_size=3), st.booleans())
def test_partitions_give_the_same_together_as_alone(
    parts: list[tuple[list[Entry], list[int]]], encoded: bool
) -> None:
    """The result for each of several partitions is that of `last_values`."""
    runs = [runs_of(entries, where, encoded=encoded) for entries, where in parts]
    expected = [last_values(part, aborted=True).to_pydict() for part in runs]
    assert [table.to_pydict() for table in last_values_of_parts(runs)] == expected


@settings(max_examples=FEWER_EXAMPLES)
@given(partitions, cuts, profiles, profiles)
def test_remaining_rows_have_the_live_records_of_all_rows(
    entries: list[Entry], where: list[int], first: Profile, second: Profile
) -> None:
    """`live_records` finds the same rows in all rows and in those that `counting_rows` keeps."""
    table = counting_rows(runs_of(entries, where), (first, second), aborted=True)
    keys, values = table.column("key").to_pylist(), table.column("value").to_pylist()
    offsets, times = table.column("offset").to_pylist(), table.column("timestamp").to_pylist()
    whole = [entry.key for entry in entries], [entry.value for entry in entries]
    ranks = running_max(entry.timestamp for entry in entries)
    assert times == [ranks[offset] for offset in offsets]
    for profile in (first, second):
        assert [offsets[at] for at in live_records(keys, values, profile)] == live_records(
            *whole, profile
        )


def test_equal_keys_have_one_number() -> None:
    """Equal keys of different dictionaries get one number."""
    chunks: list[list[bytes | None]] = [[b"b", b"a"], [b"a", None, b"c"], [b"b"]]
    column = pa.chunked_array([pa.array(chunk).dictionary_encode() for chunk in chunks])
    keys = NumberedKeys.of(column)
    flat = [key for chunk in chunks for key in chunk]
    assert keys.at(keys.last()[keys.last() >= 0]).to_pylist() == [b"b", b"a", b"c", None]
    numbers = dict(zip(flat, keys.codes.tolist(), strict=True))
    assert keys.codes.tolist() == [numbers[key] for key in flat]
    assert len({*numbers.values()}) == len({*flat})


def test_short_runs_are_joined_up_to_a_number_of_rows() -> None:
    """Thousands of short runs cost as little as a few long ones; no row is lost."""
    keys = [b"%d" % number for number in range(40)]
    entries = [Entry("t", 0, offset, offset, key, b"v") for offset, key in enumerate(keys)]
    runs = runs_of(entries, [0, 4, 8, 12, 13, 30, 31])
    whole = joined(runs)
    assert [len(rows) for rows in whole] == [12, 1, 17, 10]
    read = pa.concat_tables([rows.read("offset", "key") for rows in whole])
    assert read.column("offset").to_pylist() == list(range(40))
    assert read.column("key").cast(pa.binary()).to_pylist() == keys
