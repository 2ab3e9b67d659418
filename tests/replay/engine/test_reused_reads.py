"""A store for one plan keeps small files, and shares requests between threads."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from replay.archive import layout
from replay.archive.stores.store import FolderStore
from replay.engine.plans import reused_reads
from replay.engine.plans.reused_reads import ReusedReads
from tests.patience import PATIENCE_S

SMALL, OTHER = "cluster=c/a.parquet", "cluster=c/b.parquet"


class CountedReads(FolderStore):
    """Folder that counts reads by file, and answers once `answer` is set."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.reads: Counter[str] = Counter()
        self.answer = Event()
        self.answer.set()

    def read(self, name: str, most_bytes: int = -1) -> bytes:
        """Count the request, and read the file once the answer is due."""
        self.reads[name] += 1
        assert self.answer.wait(PATIENCE_S)
        return super().read(name, most_bytes)


@pytest.fixture
def counted(tmp_path: Path) -> CountedReads:
    """Store with two files of 4 bytes."""
    store = CountedReads(str(tmp_path))
    for name in (SMALL, OTHER):
        assert store.add(name, b"rows")
    return store


def test_a_small_file_is_requested_once(counted: CountedReads) -> None:
    """Later reads return the same bytes; a read of fewer bytes is another one."""
    reused = ReusedReads(counted)
    assert [reused.read(SMALL), reused.read(SMALL), reused.read(SMALL, 2)] == [b"rows"] * 2 + [
        b"ro"
    ]
    assert counted.reads[SMALL] == 2


@pytest.mark.parametrize(("file_bytes", "all_bytes"), [(3, 100), (100, 7)])
def test_no_file_is_kept_beyond_the_limits(
    file_bytes: int, all_bytes: int, counted: CountedReads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is requested again if it is larger than a kept one, or if there is no room."""
    monkeypatch.setattr(reused_reads, "REUSED_FILE_BYTES", file_bytes)
    monkeypatch.setattr(reused_reads, "REUSED_BYTES", all_bytes)
    reused = ReusedReads(counted)
    for name in (SMALL, OTHER, OTHER):
        assert reused.read(name) == b"rows"
    assert counted.reads[OTHER] == 2


def test_manifests_are_read_each_time(counted: CountedReads) -> None:
    """A merge replaces manifests, so a kept one might be outdated."""
    manifest = layout.manifest("c", 1)
    reused = ReusedReads(counted)
    for content in (b"before", b"after"):
        counted.replace(manifest, content)
        assert reused.read(manifest) == content


def test_a_failed_request_is_repeated(counted: CountedReads, tmp_path: Path) -> None:
    """An error is raised for each read; a file that appears later is read."""
    reused = ReusedReads(counted)
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            reused.read("cluster=c/c.parquet")
    (tmp_path / "cluster=c/c.parquet").write_bytes(b"late")
    assert reused.read("cluster=c/c.parquet") == b"late"


def test_threads_share_a_request(counted: CountedReads) -> None:
    """A thread that reads a file during a request for it waits for that request."""
    reused = ReusedReads(counted)
    counted.answer.clear()
    with ThreadPoolExecutor(4) as threads:
        reads = [threads.submit(reused.read, SMALL) for _ in range(4)]
        counted.answer.set()
        assert [read.result() for read in reads] == [b"rows"] * 4
    assert counted.reads[SMALL] == 1
