"""Store for one plan: a small file is requested once, however often the plan reads it."""

from collections.abc import Iterator
from concurrent.futures import Future
from threading import Lock

import pyarrow as pa

from replay.archive import layout
from replay.archive.stores.store import ArchiveStore

REUSED_FILE_BYTES = 64 * 1024
"""Size in bytes up to which a file is kept. It is above the size of files that one request reads
(`segment_files.READ_AT_ONCE_BYTES`). Parts of larger files are not kept."""

REUSED_BYTES = 4 * 1024 * 1024
"""Bytes of all files that one plan keeps: a thousand segments of some records. A process
makes 64 plans of a fleet at once, so they keep 256 MiB at most. Further files are requested each
time."""


class ReusedReads:
    """Store that keeps the small files it has read; threads that read one file share a request.

    Manifests are not kept, because a merge replaces them. No other file ever changes.
    """

    def __init__(self, store: ArchiveStore) -> None:
        self.where = store.where
        self.settings = store.settings
        self.requests_at_once = store.requests_at_once
        self._store = store
        self._lock = Lock()
        self._reads: dict[tuple[str, int], Future[bytes]] = {}
        self._kept_bytes = 0

    def names(self, folder: str) -> list[str]:
        """Names directly in a folder, sorted; they are listed each time."""
        return self._store.names(folder)

    def walk(self, folder: str) -> Iterator[str]:
        """All files in a folder and its subfolders; they are listed each time."""
        return self._store.walk(folder)

    def size(self, name: str) -> int | None:
        """Size of a file in bytes; None if it does not exist."""
        return self._store.size(name)

    def modified_s(self, name: str) -> float | None:
        """Time at which a file was written, in seconds since 1970; None if it does not exist."""
        return self._store.modified_s(name)

    def read(self, name: str, most_bytes: int = -1) -> bytes:
        """Read a file, or its first bytes, once. Raises `FileNotFoundError`."""
        if layout.is_manifest(name.rpartition("/")[2]):
            return self._store.read(name, most_bytes)
        key = name, most_bytes
        with self._lock:
            is_first = key not in self._reads
            read = self._reads.setdefault(key, Future())
        if is_first:
            self._request(key, read)
        return read.result()

    def _request(self, key: tuple[str, int], read: "Future[bytes]") -> None:
        """Send the request; the content is kept if there is room."""
        try:
            content = self._store.read(*key)
        except BaseException as error:
            with self._lock:
                self._reads.pop(key)
            read.set_exception(error)  # other threads may wait for this request
            raise
        with self._lock:
            kept_bytes = self._kept_bytes + len(content)
            if len(content) <= REUSED_FILE_BYTES and kept_bytes <= REUSED_BYTES:
                self._kept_bytes = kept_bytes
            else:
                self._reads.pop(key)
        read.set_result(content)

    def open(self, name: str) -> pa.NativeFile:
        """Open a file for random access. Raises `FileNotFoundError`."""
        return self._store.open(name)

    def add(self, name: str, content: bytes) -> bool:
        """Write a file durably; return False if the name is taken. Raises `NotWritable`."""
        return self._store.add(name, content)

    def take(self, name: str, content: bytes) -> bool:
        """Write a file under a contested name; return False if the name is taken."""
        return self._store.take(name, content)

    def replace(self, name: str, content: bytes) -> None:
        """Write a file durably in place of another. Raises `NotWritable`."""
        self._store.replace(name, content)

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens if it does not exist. Raises `NotWritable`."""
        self._store.remove(name)
