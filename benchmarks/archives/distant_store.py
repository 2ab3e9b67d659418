"""Archive in a folder that answers each request late, like an object store.

Other processes import these classes by name, so they are not in a program's main module.
"""

import time
from functools import cached_property

import pyarrow as pa

from replay.archive.stores.concurrent_requests import REQUESTS_AT_ONCE
from replay.archive.stores.store import ArchiveStore, FolderStore
from replay.fleet.archive_source import ArchiveSource


class DistantStore(FolderStore):
    """Folder that answers each request late, like an object store."""

    requests_at_once = REQUESTS_AT_ONCE

    def __init__(self, where: str, latency_s: float) -> None:
        super().__init__(where)
        self._latency_s = latency_s

    def names(self, folder: str) -> list[str]:
        """Names directly in a folder; one request."""
        time.sleep(self._latency_s)
        return super().names(folder)

    def size(self, name: str) -> int | None:
        """Size of a file in bytes; None: there is no such file. One request."""
        time.sleep(self._latency_s)
        return super().size(name)

    def read(self, name: str, most_bytes: int = -1) -> bytes:
        """Bytes of a whole file; one request."""
        time.sleep(self._latency_s)
        return super().read(name, most_bytes)

    def open(self, name: str) -> pa.NativeFile:
        """Open a file; each of its reads waits as long as a request."""
        time.sleep(self._latency_s)
        return pa.PythonFile(_DistantFile(super().open(name), self._latency_s), "r")


class _DistantFile:
    """File whose reads take their time."""

    closed = False

    def __init__(self, file: pa.NativeFile, latency_s: float) -> None:
        self._file = file
        self._latency_s = latency_s

    def read(self, size: int = -1) -> bytes:
        time.sleep(self._latency_s)
        content: bytes = self._file.read(None if size < 0 else size)
        return content

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self._file.close()


class DistantSource(ArchiveSource, frozen=True, kw_only=True, dict=True):
    """Archive in a folder that answers each request late; processes open it as well."""

    latency_s: float

    @cached_property
    def store(self) -> ArchiveStore:
        """Distant store of the archive."""
        return DistantStore(self.where, self.latency_s)
