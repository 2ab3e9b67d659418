"""Lock that lets one control plane use an embedded log.

A new epoch fences the former writer, as in Kafka. Fencing suits services, but a command typed by a
user must not fence a running service. So a process that carries out commands holds an flock on
a companion of the file, `state.db-writer`. The operating system releases it when the process dies.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from controlplane.logs.log import LogNotUsable
from controlplane.private_files import file_mode

SUFFIX = "-writer"

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
"""O_NOFOLLOW: a link could lead to a file of another user, which would be truncated."""


class LogHeld(LogNotUsable):
    """Another process is the control plane of the log. The message names it."""

    def __init__(self, path: Path, process: str, instead: str = "ask it over HTTP") -> None:
        self.path, self.process = path, process
        who = f"process {process or 'unknown'} is the control plane of {path}"
        super().__init__(f"{who}: {instead}, or end it first")


@contextmanager
def writer_lock(path: Path) -> Iterator[None]:
    """Hold the lock of the log at a path, against this process and all others.

    If the companion cannot be created (no folder, no rights), nothing is locked: the attempt to
    open the log reports the reason.

    Raises:
        LogHeld: another process holds the lock.
        LogNotUsable: the companion is a symbolic link.
    """
    companion = path.with_name(path.name + SUFFIX)
    try:
        held = _held(companion, path)
    except OSError as failure:
        if failure.errno == errno.ELOOP:
            raise LogNotUsable(f"{companion} is a symbolic link: remove it") from None
        yield
        return
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            companion.unlink()  # before the release: no other process can hold it yet
        os.close(held)


def _held(companion: Path, path: Path) -> int:
    """Open and lock the companion; return the descriptor."""
    while True:
        number = os.open(companion, _FLAGS, file_mode())
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.read(number, 20).decode("ascii", "replace").strip()
            os.close(number)
            raise LogHeld(path, who) from None
        if _is_at(companion, number):
            os.truncate(number, 0)
            os.write(number, f"{os.getpid()}\n".encode("ascii"))
            return number
        os.close(number)  # the holder removed the file between open and flock: try again


def _is_at(companion: Path, number: int) -> bool:
    """Return True if the locked file is still the file at the path."""
    with suppress(FileNotFoundError):
        return os.path.samestat(companion.stat(), os.fstat(number))
    return False
