"""Layout of segments: the encodings that measurements showed to be fastest to read."""

from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from replay.archive.segments.segment_files import SCHEMA, encoded_rows

ROWS = 200_000
"""Number of rows whose keys outgrow Parquet's default limit of a dictionary, 1 MB."""


def test_columns_have_dictionaries_and_differences() -> None:
    """Each row group stores a key once, and offsets and times as differences; it is compressed."""
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
    file = encoded_rows([pa.table(columns, schema=SCHEMA)], ROWS // 2)
    metadata = pq.ParquetFile(BytesIO(file.content)).metadata
    assert metadata.num_row_groups == 2
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns_by_name = {
            column.path_in_schema: column
            for column in (group.column(at) for at in range(group.num_columns))
        }
        assert {column.compression for column in columns_by_name.values()} == {"ZSTD"}
        for name in ("offset", "timestamp"):
            assert "DELTA_BINARY_PACKED" in columns_by_name[name].encodings
            assert (columns_by_name[name].statistics.min, columns_by_name[name].statistics.max) == (
                number * ROWS // 2,
                (number + 1) * ROWS // 2 - 1,
            )
        assert columns_by_name["key"].has_dictionary_page
        assert columns_by_name["key"].total_uncompressed_size < 0.4 * sum(
            map(len, keys[: ROWS // 2])
        )
