"""Reads of segments send few requests to the store, and send them concurrently."""

from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest

from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import KIP, Profile
from replay.archive.archived_cluster import open_cluster
from replay.archive.segments import segment_files as segments
from replay.archive.segments.segment_files import opened, row_groups
from replay.archive.stores.store import FolderStore
from replay.engine.local_engine import LocalEngine
from tests.patience import PATIENCE_S
from tests.replay.archive.archives import NAME, archive, capture, log_of

CONFIG = "connect-configs"
LOOKS = 3


class CountedFile:
    """File that counts the calls of `read`."""

    closed = False

    def __init__(self, file: pa.NativeFile) -> None:
        self.reads = 0
        self._file = file
        self.seek, self.tell, self.close = file.seek, file.tell, file.close

    def read(self, size: int = -1) -> bytes:
        """Count the call and read from the position on."""
        self.reads += 1
        content: bytes = self._file.read(None if size < 0 else size)
        return content


class CountingStore(FolderStore):
    """Folder that counts opened files, all reads, and its requests for sizes."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.files: list[CountedFile] = []
        self.whole_reads = 0
        self.sizes = 0

    @property
    def reads(self) -> int:
        """Number of reads, of whole files and of parts."""
        return self.whole_reads + sum(file.reads for file in self.files)

    def size(self, name: str) -> int | None:
        """Count the request and return the size."""
        self.sizes += 1
        return super().size(name)

    def read(self, name: str, most_bytes: int = -1) -> bytes:
        """Count the request and read the file."""
        self.whole_reads += 1
        return super().read(name, most_bytes)

    def open(self, name: str) -> pa.NativeFile:
        """Open a file that counts its reads."""
        self.files.append(CountedFile(super().open(name)))
        return pa.PythonFile(self.files[-1], "r")


class BarrierStore(FolderStore):
    """Folder whose segments are read only when all of them are read at once."""

    def __init__(self, where: str, files: int) -> None:
        super().__init__(where)
        self.requests_at_once = files
        self._barrier = Barrier(files, timeout=PATIENCE_S)

    def read(self, name: str, most_bytes: int = -1) -> bytes:
        """Read a segment once all threads have come to this point."""
        if name.endswith(".parquet"):
            self._barrier.wait()
        return super().read(name, most_bytes)


def configs(end: int) -> list[Entry]:
    """Records of the config topic before an offset."""
    return [Entry(CONFIG, 0, offset, offset, b"connector-a", b"{}") for offset in range(end)]


@pytest.mark.parametrize(("at_once", "reads"), [(segments.READ_AT_ONCE_BYTES, 1), (0, 3)])
def test_a_small_segment_is_read_at_once(
    at_once: int, reads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request reads a small segment.

    Requests for a large one read its end and the needed columns.
    """
    monkeypatch.setattr(segments, "READ_AT_ONCE_BYTES", at_once)
    archive(tmp_path, configs(3))
    store = CountingStore(str(tmp_path))
    (segment,) = open_cluster(store, NAME).parts[CONFIG, 0].segments
    store.whole_reads = 0  # reads of manifests
    (group,) = row_groups(opened(store, segment.stored))
    assert group.read("offset").num_rows == 3
    assert group.read("key").num_rows == 3
    assert (store.reads, store.sizes) == (reads, 0)


def test_segments_of_a_partition_are_opened_concurrently(tmp_path: Path) -> None:
    """Small segments of a partition are opened concurrently, not one after the other."""
    for look in range(LOOKS):
        capture(tmp_path, log_of(configs(5 * (look + 1))))
    cluster = open_cluster(BarrierStore(str(tmp_path), LOOKS), NAME)
    assert len(cluster.parts[CONFIG, 0].segments) == LOOKS
    engine, kip = LocalEngine(cluster), [Profile.of(KIP)]
    engine.reduced(engine.plan(None, kip), kip)
