"""Integrity checks: files compared with the hashes in the manifests."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from hashlib import sha256

import pyarrow as pa

from replay.archive import layout
from replay.archive.archived_cluster import ArchivedCluster
from replay.archive.manifest import StoredFile, read_chain
from replay.archive.stores.concurrent_requests import concurrently
from replay.archive.stores.store import ArchiveStore
from replay.archive.stores.store_errors import reading
from replay.errors import ArchiveBusy, ArchiveCorrupt

CHUNK_BYTES = 1024 * 1024

NEW_COPY = (
    "Without a copy, remove what is left of the file, and run `replay compact-archive`. Until "
    "then, `state --from-segments` answers without the file"
)
"""Advice for damaged winners and snapshots, which repeat records of segments."""


def check_files(store: ArchiveStore, files: Iterable[StoredFile]) -> None:
    """Compare every byte of the files with their hashes.

    Raises:
        ArchiveCorrupt: a file is missing or altered.
        ArchiveBusy: a merge has removed a file since the archive was opened.
    """
    for stored in files:
        flaw = flaw_of(store, stored)
        if flaw:
            raise differing(stored, flaw)


def damaged_copies(store: ArchiveStore, files: Iterable[StoredFile]) -> frozenset[str]:
    """Names of winners and snapshots that are missing or have another size. No file is read.

    Segments have all the records that these files repeat.

    Raises:
        ArchiveCorrupt: another file is missing or has another size.
        ArchiveBusy: a merge has removed a file since the archive was opened.
    """
    flaws = dict(_size_flaws(store, files))
    for stored, flaw in flaws.items():
        if not layout.is_derived(stored.file):
            raise differing(stored, flaw)
    return frozenset(stored.file for stored in flaws)


def _size_flaws(
    store: ArchiveStore, files: Iterable[StoredFile]
) -> Iterator[tuple[StoredFile, str]]:
    """Yield the files that are missing or have another size, and the flaw of each."""
    stored_files = list(files)
    flaws = concurrently(partial(_size_flaw, store), stored_files, store.requests_at_once)
    for stored, flaw in zip(stored_files, flaws, strict=True):
        if flaw:
            yield stored, flaw


def differing(stored: StoredFile, flaw: str) -> ArchiveCorrupt:
    """Build the error for a file that is missing or altered; `flaw` ends a sentence about it."""
    return damaged(stored.file, flaw)


def damaged(name: str, flaw: str) -> ArchiveCorrupt:
    """Build the error for a damaged file of a cluster, with advice."""
    return ArchiveCorrupt(f"{name} {flaw}: restore it from a copy. {_without_copy(name)}")


def _without_copy(name: str) -> str:
    if layout.is_derived(name):
        return NEW_COPY
    return new_capture(name.partition("/")[0])


def new_capture(folder: str) -> str:
    """Advice for a damaged cluster without a copy, as sentences; `folder` is the cluster's folder.

    A capture alone mends nothing: it continues the archive after its last record.
    """
    return (
        f"Without a copy, move the folder {folder} out of the archive, and capture the cluster "
        "anew. Records that its log no longer has are then missing"
    )


def check_current(store: ArchiveStore, absent: StoredFile) -> None:
    """Raise `ArchiveBusy` for an absent file that no present manifest names.

    A merge has probably replaced it.

    Raises:
        ArchiveCorrupt: the manifests are damaged.
    """
    cluster = absent.file.partition("/")[0].partition("=")[2]
    chain = read_chain(store, cluster)
    named = (file.file for file in chain.files)
    if chain.manifests and absent.file not in named:
        raise ArchiveBusy(
            f"{absent.file} was merged into another file since cluster {cluster} was opened: "
            "run the command again"
        )


class CheckedStore:
    """Store that compares the hash of each file once, before its first read."""

    def __init__(self, store: ArchiveStore, files: Iterable[StoredFile]) -> None:
        self.where = store.where
        self.settings = store.settings
        self.requests_at_once = store.requests_at_once
        self._store = store
        self._unchecked = {file.file: file for file in files}

    def names(self, folder: str) -> list[str]:
        """Names directly in a folder, sorted; no file is compared."""
        return self._store.names(folder)

    def walk(self, folder: str) -> Iterator[str]:
        """All files in a folder and its subfolders; none is compared."""
        return self._store.walk(folder)

    def size(self, name: str) -> int | None:
        """Size of a file in bytes; None if it does not exist."""
        return self._store.size(name)

    def modified_s(self, name: str) -> float | None:
        """Time at which a file was written, in seconds since 1970; None if it does not exist."""
        return self._store.modified_s(name)

    def read(self, name: str, most_bytes: int = -1) -> bytes:
        """Read a file, or its first bytes. Raises `ArchiveCorrupt` if it was altered.

        A whole file is requested once, and its bytes are compared.
        """
        stored = self._unchecked.get(name)
        if stored is not None and not 0 <= most_bytes < stored.bytes:
            with suppress(FileNotFoundError):  # the check below tells why
                content = self._store.read(name, stored.bytes + 1)
                if not _content_flaw(content, stored):
                    self._unchecked.pop(name, None)  # two threads may check the same file
                    return content
        self._check(name)
        return self._store.read(name, most_bytes)

    def open(self, name: str) -> pa.NativeFile:
        """Open a file. Raises `ArchiveCorrupt` if it was altered."""
        self._check(name)
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

    def check(self, files: Iterable[StoredFile]) -> None:
        """Compare the hashes of files before anything is read. Raises `ArchiveCorrupt`."""
        for stored in files:
            self._check(stored.file)

    def _check(self, name: str) -> None:
        stored = self._unchecked.get(name)
        if stored is not None:
            check_files(self._store, [stored])
            self._unchecked.pop(name, None)  # two threads may check the same file


def checked(cluster: ArchivedCluster) -> ArchivedCluster:
    """Return the cluster with a store that refuses altered files."""
    return cluster._replace(store=CheckedStore(cluster.store, cluster.chain.files))


def flaw_of(store: ArchiveStore, stored: StoredFile) -> str:
    """Problem with a file's bytes, as the end of a sentence; empty if there is none.

    Raises:
        ArchiveBusy: a merge has removed the file since the archive was opened.
    """
    flaw = _size_flaw(store, stored)
    if flaw:
        return flaw
    digest = sha256()
    try:
        with reading(stored.file), store.open(stored.file) as file:
            while content := file.read(CHUNK_BYTES):
                digest.update(content)
    except FileNotFoundError:
        check_current(store, stored)
        return "is missing"
    return _hash_flaw(digest.hexdigest(), stored)


def _size_flaw(store: ArchiveStore, stored: StoredFile) -> str:
    """Problem with a file's size, as the end of a sentence; empty if there is none.

    Raises:
        ArchiveBusy: a merge has removed the file since the archive was opened.
    """
    size = store.size(stored.file)
    if size is None:
        check_current(store, stored)
        return "is missing"
    return _length_flaw(size, stored)


def _length_flaw(length: int, stored: StoredFile) -> str:
    return "" if length == stored.bytes else f"has {length} bytes and not {stored.bytes}"


def _hash_flaw(file_hash: str, stored: StoredFile) -> str:
    return "" if file_hash == stored.sha256 else "was altered: it has another hash"


def read_whole(store: ArchiveStore, stored: StoredFile) -> bytes:
    """Read a whole file once, and compare its bytes with its hash.

    Raises:
        ArchiveCorrupt: the file is missing or altered.
        ArchiveBusy: a merge has removed the file since the archive was opened.
    """
    try:
        content = store.read(stored.file)
    except FileNotFoundError:
        check_current(store, stored)
        raise differing(stored, "is missing") from None
    flaw = _content_flaw(content, stored)
    if flaw:
        raise differing(stored, flaw)
    return content


def _content_flaw(content: bytes, stored: StoredFile) -> str:
    return _length_flaw(len(content), stored) or _hash_flaw(sha256(content).hexdigest(), stored)
