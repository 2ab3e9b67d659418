"""Segments are laid out as the measurements say that they are read fastest."""

from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from replay.archive.segments.segment_files import SCHEMA, written

ROWS = 200_000
"""So many that their keys outgrow what Parquet takes into a dictionary by itself, 1 MB."""


def test_how_columns_are_encoded() -> None:
    """Each row group has its keys once, offsets and times as differences, and is compressed."""
    keys = [
        b'["connector-%05d",{"table":"inventory.customers"}]' % (row // 4) for row in range(ROWS)
    ]
    columns = [
        pa.array(range(ROWS), pa.int64()),
        pa.array(range(ROWS), pa.int64()),
        pa.array(keys, pa.binary()),
        pa.array([b"{}"] * ROWS, pa.binary()),
        pa.array([[]] * ROWS, SCHEMA.field("headers").type),
        pa.array([False] * ROWS, pa.bool_()),
    ]
    file = written([pa.table(columns, schema=SCHEMA)], ROWS // 2)
    told = pq.ParquetFile(BytesIO(file.content)).metadata
    assert told.num_row_groups == 2
    for number in range(told.num_row_groups):
        group = told.row_group(number)
        found = {
            one.path_in_schema: one for one in (group.column(at) for at in range(group.num_columns))
        }
        assert {one.compression for one in found.values()} == {"ZSTD"}
        for name in ("offset", "timestamp"):
            assert "DELTA_BINARY_PACKED" in found[name].encodings
            assert (found[name].statistics.min, found[name].statistics.max) == (
                number * ROWS // 2,
                (number + 1) * ROWS // 2 - 1,
            )
        assert found["key"].has_dictionary_page
        assert found["key"].total_uncompressed_size < 0.4 * sum(map(len, keys[: ROWS // 2]))
