"""Lock that allows one control plane per embedded log.

A new epoch fences the former writer, as in Kafka. Fencing suits services, but a command line must
not fence a running service. So a process that runs commands holds an flock on a lock file,
`state.db-writer`. The operating system releases it when the process dies.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from controlplane.core.text.file_errors import because
from controlplane.logs.log import LogNotUsable
from controlplane.private_files import file_mode

SUFFIX = "-writer"

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
"""O_NOFOLLOW: a link could lead to a file of another user, which would be truncated."""

CHECK_S = 0.2
"""Longest wait while other processes share the lock, in seconds. Their calls of `check_not_held`
share it for microseconds."""

_NOT_LOCKED = {errno.ENOENT, errno.ENOTDIR, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
"""Errors of a missing folder, and of file systems without locks."""


class LogHeld(LogNotUsable):
    """Another process is the control plane of the log. The message names it."""

    def __init__(self, path: Path, process: str, advice: str = "ask it over HTTP") -> None:
        self.path, self.process = path, process
        holder = f"process {process or 'unknown'} is the control plane of {path}"
        super().__init__(f"{holder}: {advice}, or end that process first")


@contextmanager
def writer_lock(path: Path, *, read_only: bool = False) -> Iterator[None]:
    """Hold the lock of the log at a path, against this process and all others.

    A forked child that leaves the block takes nothing from its parent.

    Nothing is locked if the folder is missing, or if its file system has no locks. The same holds
    for a `read_only` log whose lock file cannot be created or opened.

    Raises:
        LogHeld: another process holds the lock.
        LogNotUsable: the lock file is a symbolic link, or it cannot be created or opened.
    """
    lock_file = _lock_file(path)
    try:
        lock_descriptor = _open_locked(lock_file, path)
    except OSError as failure:
        if failure.errno == errno.ELOOP:
            raise LogNotUsable(f"{path}{SUFFIX} is a symbolic link: remove it") from None
        if failure.errno not in _NOT_LOCKED and not read_only:
            # A process that may write the log must not write beside its control plane.
            raise LogNotUsable(
                f"The lock file {path}{SUFFIX} cannot be opened {because(failure)}"
            ) from failure
        yield
        return
    owner = os.getpid()
    try:
        yield
    finally:
        # A lock file that cannot be removed does no harm: only its lock counts.
        with suppress(OSError):
            if os.getpid() == owner:
                lock_file.unlink()  # before the release: afterwards another process may hold it
        os.close(lock_descriptor)


def check_not_held(path: Path) -> None:
    """Check that no process is the control plane of the log at a path; nothing is created.

    Raises:
        LogHeld: a process holds the lock.
    """
    try:
        descriptor = os.open(_lock_file(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # no process holds it, or the lock cannot be read
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LogHeld(path, _holder(descriptor)) from None
    except OSError:
        return  # no locks on this file system
    finally:
        os.close(descriptor)


def _lock_file(path: Path) -> Path:
    """Return the lock file of the log; links to the log are resolved, so that all share it."""
    return Path(f"{os.path.realpath(path)}{SUFFIX}")


def _holder(descriptor: int) -> str:
    """Return the id of the process that wrote the lock file."""
    return os.read(descriptor, 20).decode("ascii", "replace").strip()


def _open_locked(lock_file: Path, path: Path) -> int:
    """Open the lock file and lock it; return its file descriptor.

    Raises:
        LogHeld: another process holds the lock.
    """
    deadline = time.monotonic() + CHECK_S
    while True:
        descriptor = os.open(lock_file, _FLAGS, file_mode())
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            process, is_shared = _holder(descriptor), _is_shared(descriptor)
            os.close(descriptor)
            if not is_shared or time.monotonic() > deadline:
                raise LogHeld(path, process) from None
            time.sleep(0.001)
            continue
        except OSError:
            os.close(descriptor)
            raise
        if _is_at(lock_file, descriptor):
            _sign(descriptor)
            return descriptor
        os.close(descriptor)  # the holder removed the file between open and flock: try again


def _is_shared(descriptor: int) -> bool:
    """Return True if no process holds the lock for itself: others only check it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sign(descriptor: int) -> None:
    """Write the id of this process into the locked file, if the disk has room.

    Users who may write the log can also lock this file, whatever the umask.
    """
    with suppress(PermissionError):  # the lock file of a killed process of another user
        os.fchmod(descriptor, file_mode())
    os.truncate(descriptor, 0)
    with suppress(OSError):
        os.write(descriptor, f"{os.getpid()}\n".encode("ascii"))


def _is_at(lock_file: Path, descriptor: int) -> bool:
    """Return True if the locked file is still the file at the path."""
    with suppress(FileNotFoundError):
        return os.path.samestat(lock_file.stat(), os.fstat(descriptor))
    return False
