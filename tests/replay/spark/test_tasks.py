"""Capture tasks on rows of Spark's Kafka source, without Spark."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from controlplane.core.entry import Entry, batch_of
from controlplane.core.state import Topics
from replay.archive.appender import Appender
from replay.archive.segments.segment_files import SCHEMA, SIZES
from replay.archive.stores.store import FolderStore
from replay.capture.log_capture import COMMIT_RECORDS
from replay.capture.secrets import kept
from replay.capture.spark_capture import assigned, parts_of, places, vector
from replay.capture.spark_tasks import (
    CaptureTask,
    PartitionResult,
    SeenOffsets,
    archive_rows,
    archived,
    runs,
)
from replay.kernels.batches import batch
from tests.replay.archives import NAME, archive

CONFIG = ("connect-configs", 0)

SOURCE = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
"""The columns of Spark's source that matter."""


def row(entry: Entry) -> dict[str, Any]:
    """A record as the source gives it."""
    headers = [{"key": name, "value": value} for name, value in entry.headers]
    return {
        "key": entry.key,
        "value": entry.value,
        "topic": entry.topic,
        "partition": entry.partition,
        "offset": entry.offset,
        "timestamp": entry.timestamp * 1_000,
        "headers": headers or None,
    }


def rows(*entries: Entry) -> pa.RecordBatch:
    """Records as Spark hands them to Python."""
    return pa.RecordBatch.from_pylist([row(one) for one in entries], SOURCE)


def config(offset: int, value: bytes | None = b"{}", **more: Any) -> Entry:
    """A record of the config topic."""
    return Entry(*CONFIG, offset, more.pop("timestamp", offset), b"k", value, **more)


ODD = [
    config(0, headers=(("h", None), ("", b"\xff"), ("h", b""))),
    config(1, None, timestamp=-1),
    config(4, b"", timestamp=1_700_000_000_123),
    config(5, aborted=True),
]


def test_rows_are_what_the_log_held() -> None:
    """Headers, times and tombstones are kept; offsets not seen as committed are aborted."""
    table = archive_rows(pa.Table.from_batches([rows(*ODD)]), SeenOffsets([(0, 2), (4, 5)]))
    assert table.schema == SCHEMA
    assert list(batch(*CONFIG, table).entries()) == ODD


def test_runs_of_several_partitions() -> None:
    """Each hole ends a run, in any batches."""
    other = [Entry("t", 1, offset, 0, None, None) for offset in (7, 8)]
    found = [one for some in runs(iter([rows(*ODD, *other)])) for one in some.to_pylist()]
    assert [(one["topic"], one["first"], one["behind"]) for one in found] == [
        ("connect-configs", 0, 2),
        ("connect-configs", 4, 6),
        ("t", 7, 9),
    ]
    seen = SeenOffsets([(4, 6), (0, 2)])
    assert seen.unseen(np.arange(-1, 7)).tolist() == [
        offset not in (0, 1, 4, 5) for offset in range(-1, 7)
    ]
    assert SeenOffsets([]).unseen(np.arange(2)).tolist() == [True, True]


def job(folder: Path) -> CaptureTask:
    """A task that archives the config topic in a folder."""
    appending = Appender(FolderStore(str(folder)), NAME, Topics(), sizes=SIZES)
    end = appending.end_of(*CONFIG) or 0
    segment_writer = appending.segment_writer(CONFIG, max(0, end - 1))
    return CaptureTask(
        {CONFIG: segment_writer}, {CONFIG: SeenOffsets([(0, 99)])}, kept(Topics()), Topics()
    )


def answer(folder: Path, *entries: Entry) -> PartitionResult:
    """Result of a task for these records."""
    (told,) = [one for some in archived(iter([rows(*entries)]), job(folder)) for one in some[0]]
    return msgspec.msgpack.decode(told.as_py(), type=PartitionResult)


def test_what_is_archived_is_compared(tmp_path: Path) -> None:
    """Archived records are compared, not added again; a different one is an error sentence."""
    archive(tmp_path, [config(0), config(1)])
    found = answer(tmp_path, config(1), config(2))
    assert (found.read, found.fresh, len(found.segments), found.wrong) == (2, 1, 1, "")
    assert found.segments[0].start == 2
    found = answer(tmp_path, config(1, b"[]"), config(2))
    assert "connect-configs@1 cannot be archived: another record is archived there" in found.wrong
    assert (found.fresh, found.segments) == (0, ())


def test_nothing_in_nothing_out(tmp_path: Path) -> None:
    """A partition without records has no answer."""
    assert [one.num_rows for one in archived(iter([]), job(tmp_path))] == [0]


@pytest.mark.parametrize("ends", [{}, {CONFIG: 0}, {CONFIG: 3, ("t", 1): 2 * COMMIT_RECORDS}])
def test_a_large_capture_counts_by_and_by(ends: dict[tuple[str, int], int]) -> None:
    """Parts together are the whole; none is larger than what may be lost."""
    spans = {place: range(end) for place, end in ends.items()}
    parts = list(parts_of(spans, COMMIT_RECORDS))
    assert all(sum(map(len, some.values())) <= COMMIT_RECORDS for some in parts)
    for place, span in spans.items():
        mine = [some[place] for some in parts if place in some]
        assert mine[0].start == span.start
        assert all(one.stop == other.start for one, other in pairwise(mine))
        assert mine[-1].stop == span.stop


def test_vectors_are_those_of_spark() -> None:
    """Vectors are written and read as Spark does."""
    found = {("t", 0): 5, ("t", 11): -2, ("u", 0): 0}
    assert vector(found) == '{"t": {"0": 5, "11": -2}, "u": {"0": 0}}'
    assert places(vector(found)) == found
    assert assigned(found) == '{"t": [0, 11], "u": [0]}'


def test_a_batch_is_a_batch(tmp_path: Path) -> None:
    """A task writes the segment that this process would write of the same records."""
    (segment,) = answer(tmp_path / "spark", config(0), config(1)).segments
    plain = Appender(FolderStore(str(tmp_path / "plain")), NAME, Topics())
    plain.add(batch_of([config(0), config(1)]))
    made = plain.commit()
    assert made is not None
    assert made.segments == (segment,)
