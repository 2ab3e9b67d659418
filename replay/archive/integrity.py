"""Whether files are still what a manifest vouches for."""

from collections.abc import Iterable
from hashlib import sha256

from replay.archive.manifest import Stored
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


def flaw_of(store: Store, stored: Stored) -> str:
    """What is wrong with the bytes of a file, as the end of a sentence; empty: nothing."""
    there = store.size(stored.file)
    if there is None:
        return "is missing"
    if there != stored.bytes:
        return f"has {there} bytes and not {stored.bytes}"
    digest = sha256()
    with store.open(stored.file) as file:
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
