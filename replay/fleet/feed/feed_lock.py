"""Lock of a feed's checkpoint: one process at a time writes it and the tables."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.core.text.file_errors import unwritable
from controlplane.private_files import make_folders
from replay.archive.store import ArchiveStore, FolderStore
from replay.errors import NotWritable


@contextmanager
def locked(checkpoint: ArchiveStore) -> Iterator[bool]:
    """Hold the lock of a checkpoint; yield False if another process has it.

    The lock is one of the operating system on the folder, so it ends with its process. A checkpoint
    in an object store has none, nor has one in a file system without locks.

    Raises:
        NotWritable: the folder can be neither opened nor created.
    """
    if not isinstance(checkpoint, FolderStore):
        yield True
        return
    number = _opened(Path(checkpoint.where))
    try:
        yield _is_locked_now(number)
    finally:
        os.close(number)


def _opened(folder: Path) -> int:
    try:
        make_folders(folder)
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise NotWritable(unwritable(folder, error)) from None


def _is_locked_now(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks on this file system
        return True
    return True
