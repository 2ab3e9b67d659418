"""A plan requests each file once at most, and the files of several partitions concurrently."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Lock

import pyarrow as pa
import pytest

from controlplane.core.entry import Entry, batch_of
from controlplane.core.releases.profiles import KIP, Profile
from replay.archive.appender import Appender
from replay.archive.archived_cluster import open_cluster
from replay.archive.integrity import checked
from replay.archive.merges.merge import Merger
from replay.archive.stores.concurrent_requests import PARTITIONS_AT_ONCE, REQUESTS_AT_ONCE
from replay.archive.stores.store import FolderStore
from replay.engine.local_engine import LocalEngine
from tests.patience import PATIENCE_S
from tests.replay.certainty.lossy_archive import NAME, TOPICS

PARTITIONS = {TOPICS.config: 1, TOPICS.status: 4, TOPICS.offsets: PARTITIONS_AT_ONCE - 5}
PLACES = [(topic, number) for topic, count in PARTITIONS.items() for number in range(count)]
LOOKS, EACH = 3, 10
"""Looks of an archive, and offsets of each partition in a look."""
MANIFESTS = 1 + LOOKS
"""Requests to open the archive: for the list of manifests, and for each of them."""
KIP_ONLY = [Profile.of(KIP)]

END = None
RECORD = "config@15"
TIME = str(EACH + 5)
"""Time (ms) of the sixth record that the second look has of each partition."""
BETWEEN = str(2 * EACH - 1)
"""Time (ms) of the last record of the second look."""
VECTOR = json.dumps({topic: [EACH + 5] * count for topic, count in PARTITIONS.items()})


class LoggedStore(FolderStore):
    """Distant folder that counts requests by file; `before_read` runs before a segment is read."""

    requests_at_once = REQUESTS_AT_ONCE

    def __init__(self, where: str, before_read: Callable[[], object] = lambda: None) -> None:
        super().__init__(where)
        self.requests: Counter[str] = Counter()
        self._before_read = before_read
        self._lock = Lock()

    def names(self, folder: str) -> list[str]:
        """Count the request and list the names."""
        self._count(folder)
        return super().names(folder)

    def size(self, name: str) -> int | None:
        """Count the request and return the size."""
        self._count(name)
        return super().size(name)

    def read(self, name: str, most_bytes: int = -1) -> bytes:
        """Count the request and read the file."""
        self._count(name)
        if name.endswith(".parquet"):
            self._before_read()
        return super().read(name, most_bytes)

    def open(self, name: str) -> pa.NativeFile:
        """Count the request and open the file."""
        self._count(name)
        return super().open(name)

    def _count(self, name: str) -> None:
        with self._lock:
            self.requests[name] += 1


def archive_in(folder: Path, *, dense: bool) -> Path:
    """Archive of 10 partitions with 3 segments each; unless `dense`, every third offset is missing.

    The time of a record is its offset, in ms.
    """
    store = FolderStore(str(folder))
    for start in range(0, LOOKS * EACH, EACH):
        appender = Appender(store, NAME, TOPICS)
        for place in PLACES:
            entries = [
                Entry(*place, offset, offset, b"connector-a", b"{}")
                for offset in range(start, start + EACH)
                if dense or offset % 3 != 1 or offset == start
            ]
            appender.add(batch_of(entries))
            appender.reached(*place, start, start + EACH)
        appender.commit()
    return folder


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive without missing offsets."""
    return archive_in(tmp_path_factory.mktemp("dense"), dense=True)


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of a compacted log: each segment misses offsets."""
    return archive_in(tmp_path_factory.mktemp("compacted"), dense=False)


def requests_of_plan(folder: Path, moment: str | None, *, past: bool = False) -> int:
    """Number of requests that open and plan a cluster; no file is requested twice."""
    store = LoggedStore(str(folder))
    LocalEngine(checked(open_cluster(store, NAME))).plan(moment, KIP_ONLY, past=past)
    assert set(store.requests.values()) == {1}, store.requests
    return store.requests.total()


@pytest.mark.parametrize(
    ("moment", "segments"),
    [(END, 0), (RECORD, len(PLACES)), (TIME, len(PLACES)), (BETWEEN, len(PLACES)), (VECTOR, 0)],
)
def test_a_plan_reads_one_segment_per_partition_at_most(
    moment: str | None, segments: int, dense: Path
) -> None:
    """Manifests tell the end and a vector. A record or a time lies in one segment per partition."""
    assert requests_of_plan(dense, moment) == MANIFESTS + segments


@pytest.mark.parametrize("moment", [RECORD, TIME, VECTOR])
def test_missing_offsets_cost_no_further_requests(moment: str, compacted: Path) -> None:
    """The segment with the cut also shows what is doubtful there, and is requested once."""
    assert requests_of_plan(compacted, moment) == MANIFESTS + len(PLACES)


def test_doubts_at_the_end_read_one_segment_per_partition(compacted: Path) -> None:
    """Configs and statuses depend on all records, so their first missing offset is looked up."""
    assert requests_of_plan(compacted, END) == MANIFESTS + PARTITIONS["connect-status"] + 1


@pytest.mark.parametrize("moment", [END, RECORD, TIME, VECTOR])
def test_doubts_about_the_past_read_each_segment_once(moment: str | None, compacted: Path) -> None:
    """A report lists all missing offsets, so it reads every segment that misses some."""
    assert requests_of_plan(compacted, moment, past=True) == MANIFESTS + LOOKS * len(PLACES)


@pytest.mark.parametrize(
    ("moment", "segments"), [(END, 0), (RECORD, len(PLACES)), (TIME, len(PLACES)), (VECTOR, 0)]
)
def test_a_merged_archive_needs_fewer_requests(
    moment: str | None, segments: int, tmp_path: Path
) -> None:
    """The merge leaves one manifest."""
    Merger(FolderStore(str(archive_in(tmp_path, dense=True))), NAME).run()
    assert requests_of_plan(tmp_path, moment) == 2 + segments


def test_segments_of_one_record_are_not_read(tmp_path: Path) -> None:
    """The manifest has the rank of the only record, so it lies before or after any moment."""
    store = FolderStore(str(tmp_path))
    for offset in range(LOOKS):
        appender = Appender(store, NAME, TOPICS)
        for place in PLACES:
            appender.add(batch_of([Entry(*place, offset, 2 * offset, b"connector-a", b"{}")]))
            appender.reached(*place, offset, offset + 1)
        appender.commit()
    for moment, ends in (("1", 1), ("2", 2), ("3", 2)):
        assert requests_of_plan(tmp_path, moment) == MANIFESTS
        plan = LocalEngine(checked(open_cluster(store, NAME))).plan(moment, KIP_ONLY)
        assert plan.ends == {topic: [ends] * count for topic, count in PARTITIONS.items()}


@pytest.mark.parametrize(("folder", "moment"), [("dense", TIME), ("compacted", VECTOR)])
def test_partitions_do_not_wait_for_each_other(
    folder: str, moment: str, request: pytest.FixtureRequest
) -> None:
    """The segments of eight partitions are requested before the first one is answered."""
    barrier = Barrier(len(PLACES), timeout=PATIENCE_S)
    store = LoggedStore(str(request.getfixturevalue(folder)), barrier.wait)
    LocalEngine(checked(open_cluster(store, NAME))).plan(moment, KIP_ONLY)
    assert store.requests.total() == MANIFESTS + len(PLACES)


def test_holes_of_partitions_are_read_concurrently(compacted: Path) -> None:
    """A report waits once per segment of a partition, not once per segment of the cluster."""
    barrier = Barrier(len(PLACES), timeout=PATIENCE_S)
    cluster = open_cluster(LoggedStore(str(compacted), barrier.wait), NAME)
    plan = LocalEngine(cluster).plan(END, KIP_ONLY, past=True)
    assert {(doubt.topic, doubt.partition) for doubt in plan.doubts} == {*PLACES}
