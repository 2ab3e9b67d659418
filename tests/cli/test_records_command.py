"""`controlplane records`: the last records of a topic, as table and JSON."""

from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from tests.cli.command_calls import call, embedded, refusal

LINES = "lines"

ENTRIES = [
    Entry(LINES, 0, 0, 0, None, b"one"),
    Entry(LINES, 0, 1, 1_000, b"k", b'{"name":"two","password":"hidden"}'),
    Entry(LINES, 0, 2, 2_000, b"k", None),
    Entry(LINES, 1, 7, 3_000, None, b"\xff"),
    Entry(LINES, 1, 8, 4_000, None, b"aborted", aborted=True),
]

PRINTED = """\
PARTITION  OFFSET  TIME                      KEY  VALUE
─────────────────────────────────────────────────────────────────────────────────────────
0          0       1970-01-01T00:00:00.000Z  -    one
0          1       1970-01-01T00:00:01.000Z  k    {"name": "two", "password": "[hidden]"}
0          2       1970-01-01T00:00:02.000Z  k    ∅
1          7       1970-01-01T00:00:03.000Z  -    \\xff
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Embedded log with a data topic of two partitions, and none of Connect's topics."""
    return embedded(tmp_path / "records.db", ENTRIES)


def test_records_are_printed_without_those_of_aborted_transactions(log: Path) -> None:
    """The table has a line per committed record; secrets are hidden."""
    result = call("records", log, LINES)
    assert (result.code, result.out) == (0, PRINTED)


def test_last_is_counted_in_each_partition(log: Path) -> None:
    """`--last` counts offsets per partition, those of aborted records too."""
    result = call("records", log, LINES, "--last", 2, "-o", "json")
    assert [(record["partition"], record["offset"]) for record in result.json["records"]] == [
        (0, 1),
        (0, 2),
        (1, 7),
    ]


def test_a_tombstone_has_no_value_in_json(log: Path) -> None:
    """JSON has null as a tombstone's value, and as the key of a record without one."""
    records = call("records", log, LINES, "--last", 3, "-o", "json").json["records"]
    first, _, tombstone, *_ = records
    assert (first["key"], first["value"]) == (None, "one")
    assert (tombstone["key"], tombstone["value"]) == ("k", None)


def test_a_missing_topic_is_named_with_the_existing_ones(log: Path) -> None:
    """The refusal has exit code 2 and lists the topics of the log."""
    assert f"{log} has no topic 'line'; name one that it has: lines" in refusal(
        call("records", log, "line")
    )


def test_a_topic_may_be_empty(tmp_path: Path) -> None:
    """A topic whose records are all aborted is printed as empty."""
    log = embedded(tmp_path / "records.db", ENTRIES[-1:])
    result = call("records", log, LINES)
    assert (result.code, result.out) == (0, "no records in 'lines'\n")
