"""Codec of task outputs: pieces of any size, in any order, restore the outputs."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.engine.spark import task_output_codec
from replay.engine.spark.task_output_codec import (
    PIECES,
    TaskOutput,
    pieces,
    rows_content,
    rows_of,
    wrong_content,
)
from replay.errors import ArchiveBusy, ArchiveCorrupt, NoArchive, NotWritable, ReplayError

sent = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(0, 12)), st.binary(min_size=1, max_size=40)
)


@given(sent, st.integers(1, 50), st.randoms(use_true_random=False))
def test_pieces_are_joined(sent: dict[tuple[int, int], bytes], most: int, chance: object) -> None:
    """Pieces are joined by work (a partition to read) and slice, in the order of their numbers."""
    whole = [TaskOutput(*place, content) for place, content in sent.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_output_codec, "PIECE_BYTES", most)
        batches = [piece for output in whole for piece in pieces(output)]
    assert all(len(batch["content"][0].as_py()) <= most for batch in batches)
    chance.shuffle(batches)  # type: ignore[attr-defined]
    assert list(task_output_codec.task_outputs(pa.Table.from_batches(batches, PIECES))) == sorted(
        whole
    )


def test_rows_are_restored() -> None:
    """Types and values survive: in two chunks with different dictionaries, and without rows."""
    keys = [
        pa.array(values, pa.binary()).dictionary_encode() for values in ([b"a", b"b"], [b"b", None])
    ]
    tables = [pa.table({"offset": [at, at + 1], "key": key}) for at, key in enumerate(keys)]
    for table in (pa.concat_tables(tables), tables[0].slice(0, 0)):
        assert rows_of(rows_content(table)).equals(table)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [(error, error) for error in (ArchiveBusy, ArchiveCorrupt, NoArchive)]
    + [(NotWritable, ArchiveCorrupt)],
)
def test_errors_reach_the_driver(raised: type[ReplayError], expected: type[ReplayError]) -> None:
    """An error keeps its class, and its sentence even with unpaired surrogates."""
    with pytest.raises(ReplayError, match=r"^file \\ud800 is damaged$") as reached:
        rows_of(wrong_content(raised("file \ud800 is damaged")))
    assert reached.type is expected
