"""Whether files are still what a manifest vouches for."""

from collections.abc import Iterable, Iterator
from hashlib import sha256

import pyarrow as pa

from replay.archive.cluster import Cluster
from replay.archive.manifest import Stored
from replay.archive.objects import reading
from replay.archive.store import Store
from replay.errors import ArchiveCorrupt

CHUNK_BYTES = 1024 * 1024


def check_files(store: Store, files: Iterable[Stored]) -> None:
    """Look at every byte of some files.

    Raises:
        ArchiveCorrupt: one is missing or altered.
    """
    for stored in files:
        flaw = flaw_of(store, stored)
        if flaw:
            raise ArchiveCorrupt(f"{stored.file} {flaw}: restore it, or archive that cluster anew")


class Checked:
    """A store of which nobody reads a file before its hash was compared, once."""

    def __init__(self, store: Store, files: Iterable[Stored]) -> None:
        self.where = store.where
        self.settings = store.settings
        self._store = store
        self._unchecked = {one.file: one for one in files}

    def names(self, folder: str) -> list[str]:
        """As the store."""
        return self._store.names(folder)

    def walk(self, folder: str) -> Iterator[str]:
        """As the store."""
        return self._store.walk(folder)

    def size(self, name: str) -> int | None:
        """As the store."""
        return self._store.size(name)

    def read(self, name: str) -> bytes:
        """As the store. Raises `ArchiveCorrupt` for a file that was altered."""
        self._check(name)
        return self._store.read(name)

    def open(self, name: str) -> pa.NativeFile:
        """As the store. Raises `ArchiveCorrupt` for a file that was altered."""
        self._check(name)
        return self._store.open(name)

    def add(self, name: str, content: bytes) -> bool:
        """As the store."""
        return self._store.add(name, content)

    def take(self, name: str, content: bytes) -> bool:
        """As the store."""
        return self._store.take(name, content)

    def _check(self, name: str) -> None:
        stored = self._unchecked.get(name)
        if stored is not None:
            check_files(self._store, [stored])
            self._unchecked.pop(name, None)  # two threads may both have looked


def checked(cluster: Cluster) -> Cluster:
    """The same cluster, of which no file is read that was altered."""
    files = (stored for manifest in cluster.chain.manifests for stored in manifest.files)
    return cluster._replace(store=Checked(cluster.store, files))


def flaw_of(store: Store, stored: Stored) -> str:
    """What is wrong with the bytes of a file, as the end of a sentence; empty: nothing."""
    there = store.size(stored.file)
    if there is None:
        return "is missing"
    if there != stored.bytes:
        return f"has {there} bytes and not {stored.bytes}"
    digest = sha256()
    with reading(stored.file), store.open(stored.file) as file:
        while content := file.read(CHUNK_BYTES):
            digest.update(content)
    return "" if digest.hexdigest() == stored.sha256 else "was altered: it has another hash"


def read_whole(store: Store, stored: Stored) -> bytes:
    """All of a file that is no table.

    Raises:
        ArchiveCorrupt: it is missing or altered.
    """
    check_files(store, [stored])
    return store.read(stored.file)
