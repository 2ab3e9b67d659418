"""Lock of a feed's checkpoint: one process at a time writes it and the tables.

In a folder it is a lock of the operating system. An object store has no locks. There it is a
*lease*: a file that its owner writes anew while a batch runs. A lease that was not renewed for a
while has ended: its owner was killed, or hangs. The next owner removes it, and the tasks of the
former one stop before they write.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Protocol
from uuid import uuid4

from controlplane.core.text.file_errors import unwritable
from controlplane.private_files import locked_at_once, make_folders
from replay.archive.stores.store import ArchiveStore, FolderStore
from replay.errors import NotWritable, ReplayError

LEASE_S = 120
"""Age at which a lease has ended for other processes, in seconds, by the clock of the store."""

KEPT_S = 90
"""Age in seconds at which the owner gives up its lease. It is less than `LEASE_S`, because the
servers of a store have several clocks.
"""

RENEWAL_S = 20
"""Time between two renewals, in seconds; several may fail before a lease ends."""

LEASES = "_leases"
"""Folder of leases in a checkpoint."""


class LeaseLost(NotWritable):
    """Another feed has taken the checkpoint over from a process that seemed dead."""


class CheckpointLock(Protocol):
    """Lock of a checkpoint, held or refused."""

    @property
    def lease(self) -> str | None:
        """Name of the lease; None for a lock of the operating system."""
        ...

    def is_held(self) -> bool:
        """True if no other process has had the checkpoint since the lock was taken."""
        ...


@contextmanager
def locked(checkpoint: ArchiveStore) -> Iterator[CheckpointLock]:
    """Try to lock a checkpoint for the duration of the block.

    The lock of a folder ends with its process. On a file system without locks, every process gets
    it. The lease in an object store ends `LEASE_S` after the last renewal.

    Raises:
        NotWritable: the checkpoint cannot be written.
    """
    if isinstance(checkpoint, FolderStore):
        with _locked_folder(Path(checkpoint.where)) as lock:
            yield lock
        return
    lease = Lease(checkpoint)
    try:
        lease.take()
        with _renewed(lease):
            yield lease
    finally:
        lease.end()


def check_lease(checkpoint: ArchiveStore, lease: str | None) -> None:
    """Check that no other process has taken the checkpoint over. Tasks call it before they write.

    Raises:
        LeaseLost: another process has taken the checkpoint over.
    """
    if lease is not None and checkpoint.size(lease) is None:
        raise LeaseLost(f"another feed has taken over {checkpoint.where}: run one at a time")


# --- folders --------------------------------------------------------------------------------


class FolderLock:
    """Lock of the operating system on a folder."""

    lease = None

    def __init__(self, *, is_ours: bool) -> None:
        self._is_ours = is_ours

    def is_held(self) -> bool:
        """True if the lock was free."""
        return self._is_ours


@contextmanager
def _locked_folder(folder: Path) -> Iterator[FolderLock]:
    number = _opened(folder)
    try:
        yield FolderLock(is_ours=locked_at_once(number))
    finally:
        os.close(number)


def _opened(folder: Path) -> int:
    try:
        make_folders(folder)
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise NotWritable(unwritable(folder, error)) from None


# --- object stores --------------------------------------------------------------------------


class Lease:
    """Lease of a checkpoint in an object store.

    Each process writes its lease before it lists the leases of others. So of two simultaneous
    processes, at least one sees the other's lease, and withdraws. An owner that has renewed its
    lease in time need not look at others again. They have seen its lease and withdrawn.
    """

    def __init__(self, checkpoint: ArchiveStore) -> None:
        self.lease = f"{LEASES}/{uuid4()}"
        self._store = checkpoint
        self._is_ours = False
        self._renewal = Lock()

    def take(self) -> None:
        """Take the lease unless another process has one; remove those that have ended.

        Raises:
            NotWritable: no permission.
        """
        written_s = self._write()
        names = [f"{LEASES}/{name}" for name in self._store.names(LEASES)]
        if written_s is not None:
            ended = [self._has_ended(name, written_s) for name in names if name != self.lease]
            self._is_ours = all(ended)

    def _has_ended(self, other: str, now_s: float) -> bool:
        """True if the lease of another process has ended; it is then removed."""
        written_s = self._store.modified_s(other)
        if written_s is None:
            return True
        if now_s - written_s <= LEASE_S:
            return False
        self._store.remove(other)
        return True

    def is_held(self) -> bool:
        """Renew the lease; False if it is not ours, or was not renewed in time.

        Raises:
            NotWritable: no permission, or an outage of the store.
        """
        with self._renewal:
            self._is_ours = self._is_ours and self._is_renewed_in_time()
            return self._is_ours

    def _is_renewed_in_time(self) -> bool:
        before_s = self._store.modified_s(self.lease)
        if before_s is None:  # another process has found the lease ended, and removed it
            return False
        now_s = self._write()
        if now_s is None or now_s - before_s > KEPT_S:
            self.end()
            return False
        return True

    def end(self) -> None:
        """Remove the lease; without the permission to delete, it ends by its age."""
        with suppress(ReplayError):
            self._store.remove(self.lease)

    def _write(self) -> float | None:
        self._store.replace(self.lease, b"")
        return self._store.modified_s(self.lease)


@contextmanager
def _renewed(lease: Lease) -> Iterator[None]:
    """Renew a lease in a thread, as long as the block lasts."""
    is_over = Event()

    def renew() -> None:
        while not is_over.wait(RENEWAL_S):
            with suppress(ReplayError):  # an outage: the next renewal or the commit reports it
                lease.is_held()

    thread = Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
