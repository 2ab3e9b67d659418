"""Capture tasks on rows of Spark's Kafka source, without Spark."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from controlplane.core.entry import Entry, batch_of
from controlplane.core.state import Topics
from controlplane.logs.log import LogNotUsable
from controlplane.logs.log_factory import memory_log
from controlplane.logs.memory import MemoryLog
from replay.archive.appender import Appender
from replay.archive.segments.segment_files import SCHEMA, SIZES
from replay.archive.stores.store import FolderStore
from replay.capture.log_capture import COMMIT_RECORDS, CaptureTarget
from replay.capture.secrets import kept_secrets
from replay.capture.spark_capture import assigned, offsets_in_vector, parts_of, vector
from replay.capture.spark_tasks import (
    CaptureTask,
    PartitionResult,
    SeenOffsets,
    archive_rows,
    archived,
    runs,
)
from replay.capture.stream_capture import EARLIEST, StreamedCapture
from replay.errors import ArchiveBusy, ArchiveConflict
from replay.kernels.batches import batch
from tests.replay.archive.archives import NAME, archive, log_of
from tests.replay.archive.merges import merged

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
    """Record as the source gives it."""
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
    """Records as Spark passes them to Python."""
    return pa.RecordBatch.from_pylist([row(entry) for entry in entries], SOURCE)


def config(offset: int, value: bytes | None = b"{}", **fields: Any) -> Entry:
    """Record of the config topic."""
    return Entry(*CONFIG, offset, fields.pop("timestamp", offset), b"k", value, **fields)


ODD = [
    config(0, headers=(("h", None), ("", b"\xff"), ("h", b""))),
    config(1, None, timestamp=-1),
    config(4, b"", timestamp=1_700_000_000_123),
    config(5, aborted=True),
]


def test_rows_become_the_records_of_the_log() -> None:
    """Headers, times and tombstones stay; offsets not seen as committed are aborted."""
    table = archive_rows(pa.Table.from_batches([rows(*ODD)]), SeenOffsets([(0, 2), (4, 5)]))
    assert table.schema == SCHEMA
    assert list(batch(*CONFIG, table).entries()) == ODD


def test_each_hole_ends_a_run() -> None:
    """Each hole in a batch ends a run of consecutive offsets; offsets outside are unseen."""
    other = [Entry("t", 1, offset, 0, None, None) for offset in (7, 8)]
    spans = [
        span for span_batch in runs(iter([rows(*ODD, *other)])) for span in span_batch.to_pylist()
    ]
    assert [(span["topic"], span["first"], span["behind"]) for span in spans] == [
        ("connect-configs", 0, 2),
        ("connect-configs", 4, 6),
        ("t", 7, 9),
    ]
    archived_offsets = SeenOffsets([(4, 6), (0, 2)])
    assert archived_offsets.unseen(np.arange(-1, 7)).tolist() == [
        offset not in (0, 1, 4, 5) for offset in range(-1, 7)
    ]
    assert SeenOffsets([]).unseen(np.arange(2)).tolist() == [True, True]


def job(folder: Path) -> CaptureTask:
    """Task that archives the config topic in a folder."""
    appending = Appender(FolderStore(str(folder)), NAME, Topics(), sizes=SIZES)
    end = appending.end_of(*CONFIG) or 0
    segment_writer = appending.segment_writer(CONFIG, max(0, end - 1))
    return CaptureTask(
        {CONFIG: segment_writer}, {CONFIG: SeenOffsets([(0, 99)])}, kept_secrets(Topics()), Topics()
    )


def answer(folder: Path, *entries: Entry, task: CaptureTask | None = None) -> PartitionResult:
    """Result of a task for these records."""
    task = task or job(folder)
    (content,) = [
        content for output in archived(iter([rows(*entries)]), task) for content in output[0]
    ]
    return msgspec.msgpack.decode(content.as_py(), type=PartitionResult)


def test_archived_records_are_compared(tmp_path: Path) -> None:
    """Archived records are compared, not added again; a different one is an error sentence."""
    archive(tmp_path, [config(0), config(1)])
    result = answer(tmp_path, config(1), config(2))
    assert (result.read, len(result.segments), result.wrong) == (2, 1, "")
    assert result.segments[0].start == 2
    result = answer(tmp_path, config(1, b"[]"), config(2))
    assert "connect-configs@1 cannot be archived: another record is archived there" in result.wrong
    assert result.segments == ()
    assert isinstance(result.error, ArchiveConflict)


def test_a_merge_under_a_task_is_an_error_that_passes(tmp_path: Path) -> None:
    """The archived records to compare are merged before the task runs: a retry helps."""
    archive(tmp_path, [config(0)])
    archive(tmp_path, [config(0), config(1)])
    task = job(tmp_path)
    merged(tmp_path)
    result = answer(tmp_path, config(1), config(2), task=task)
    assert isinstance(result.error, ArchiveBusy)
    assert "was merged into another file" in str(result.error)


def test_a_partition_without_records_has_no_result(tmp_path: Path) -> None:
    """A task for a partition without records returns one table without rows."""
    assert [output.num_rows for output in archived(iter([]), job(tmp_path))] == [0]


@pytest.mark.parametrize("ends", [{}, {CONFIG: 0}, {CONFIG: 3, ("t", 1): 2 * COMMIT_RECORDS}])
def test_a_large_capture_is_committed_in_parts(ends: dict[tuple[str, int], int]) -> None:
    """The parts add up to the whole; each has at most `COMMIT_RECORDS` offsets."""
    spans = {place: range(end) for place, end in ends.items()}
    parts = list(parts_of(spans, COMMIT_RECORDS))
    assert all(sum(map(len, part.values())) <= COMMIT_RECORDS for part in parts)
    for place, span in spans.items():
        mine = [part[place] for part in parts if place in part]
        assert mine[0].start == span.start
        assert all(earlier.stop == later.start for earlier, later in pairwise(mine))
        assert mine[-1].stop == span.stop


def test_vectors_are_those_of_spark() -> None:
    """Offsets by topic and partition are written and read as JSON of Spark's Kafka source."""
    vector_ends = {("t", 0): 5, ("t", 11): -2, ("u", 0): 0}
    assert vector(vector_ends) == '{"t": {"0": 5, "11": -2}, "u": {"0": 0}}'
    assert offsets_in_vector(vector(vector_ends)) == vector_ends
    assert assigned(vector_ends) == '{"t": [0, 11], "u": [0]}'


def test_a_task_writes_the_segment_of_this_process(tmp_path: Path) -> None:
    """A task writes the segment that this process writes of the same records."""
    (segment,) = answer(tmp_path / "spark", config(0), config(1)).segments
    plain = Appender(FolderStore(str(tmp_path / "plain")), NAME, Topics())
    plain.add(batch_of([config(0), config(1)]))
    made = plain.commit()
    assert made is not None
    assert made.segments == (segment,)


def streamed(folder: Path, log: MemoryLog) -> StreamedCapture:
    """Capture of a stream's micro-batches; the source is not asked."""
    target = CaptureTarget(FolderStore(str(folder)), NAME, Topics(), kept_secrets(Topics()))
    source: Any = None
    return StreamedCapture(log, target, source)


def test_a_micro_batch_of_a_lost_partition_is_refused(tmp_path: Path) -> None:
    """A topic was recreated with fewer partitions; nothing of the lost one is archived yet."""
    capture = streamed(tmp_path, log_of([config(0)]))
    frame: Any = None
    behind = {CONFIG: 0, ("connect-configs", 3): 1}
    with pytest.raises(ArchiveConflict, match=r"^connect-configs has lost partition 3: it was rec"):
        asyncio.run(capture.append(frame, {}, behind, repeated=False))


def test_a_stream_needs_a_config_topic(tmp_path: Path) -> None:
    """Without it the names of the topics are wrong, and no command could read the archive."""
    log = asyncio.run(memory_log([Entry("connect-status", 0, 0, 1, b"k", b"v")]))
    with pytest.raises(LogNotUsable, match="connect-configs"):
        asyncio.run(streamed(tmp_path, log).topics_to_archive())


def test_a_topic_may_be_removed_before_its_stream_begins(tmp_path: Path) -> None:
    """A removed topic has no start offsets."""
    capture = streamed(tmp_path, log_of([config(0)]))
    positions = asyncio.run(capture.positions({"connect-configs", "removed"}))
    assert positions == {CONFIG: EARLIEST}
