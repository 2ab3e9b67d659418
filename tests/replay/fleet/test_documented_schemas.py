"""The page for data engineers shows the actual schemas."""

import re
from collections.abc import Mapping

import pyarrow as pa
import pytest

from replay.tables.schemas import (
    CLUSTERS,
    FEED_SCHEMAS,
    FINDINGS,
    PARTITIONS,
    STATE_SCHEMAS,
    SUMMARIES,
    VERDICTS,
)
from replay.timeline.timeline_rows import CHANGES, COMPARISONS, EVENTS, INTERVALS
from tests.tidy.source import ROOT

PAGE = (ROOT / "docs" / "replay-tables.md").read_text("utf-8")

SCHEMAS: Mapping[str, pa.Schema] = {
    **STATE_SCHEMAS,
    "clusters": CLUSTERS,
    "partitions": PARTITIONS,
    "summaries": SUMMARIES,
    "findings": FINDINGS,
    "verdicts": VERDICTS,
    "timeline": INTERVALS,
    "history": EVENTS,
    "diff": CHANGES,
    "comparisons": COMPARISONS,
    **FEED_SCHEMAS,
}
"""Schemas by the name of their section."""


def column_lines(schema: pa.Schema) -> list[str]:
    """Lines of a table in Markdown, one per column."""
    return [
        f"| `{field.name}` | {kind(field.type)} | {field.metadata[b'comment'].decode()} |"
        for field in schema
    ]


def kind(column: pa.DataType) -> str:
    """Type of a column as documents spell it."""
    if pa.types.is_struct(column):
        return f"struct({', '.join(field.name for field in column)})"
    if pa.types.is_list(column):
        return f"list of {kind(column.value_type)}"
    return str(column)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_page_shows_each_column(name: str) -> None:
    """The page has name, type and meaning of each column, in order."""
    section = re.search(rf"^### `{name}`.*?\n\n(\|.*?)\n(?:\n|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None
    assert section[1].splitlines()[2:] == column_lines(SCHEMAS[name])
