"""The lock of an embedded log's one control plane.

A new epoch fences the former writer, as Kafka's leaders do. Among programs that is what one wants;
a person who types a command while a service has the log open does not. So whoever carries out
commands holds a companion of the file, `state.db-writer`. The system releases it when the process
dies.
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
"""A link could lead to a file of another user, which would be emptied."""


class LogHeld(LogNotUsable):
    """Another process is the log's control plane. The message names it, and says what to do."""

    def __init__(self, path: Path, process: str, instead: str = "ask it over HTTP") -> None:
        self.path, self.process = path, process
        who = f"process {process or 'unknown'} is the control plane of {path}"
        super().__init__(f"{who}: {instead}, or end it first")


@contextmanager
def writer_lock(path: Path) -> Iterator[None]:
    """Be the only control plane of the log at a path, in this process and in all others.

    Where the companion cannot be made, for want of a folder or of rights, nothing is locked:
    opening the log says what is wrong.

    Raises:
        LogHeld: there is another control plane.
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
            companion.unlink()  # while it is held: nobody can have got it by now
        os.close(held)


def _held(companion: Path, path: Path) -> int:
    """A descriptor of the companion, locked."""
    while True:
        found = os.open(companion, _FLAGS, file_mode())
        try:
            fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.read(found, 20).decode("ascii", "replace").strip()
            os.close(found)
            raise LogHeld(path, who) from None
        if _is_at(companion, found):
            os.truncate(found, 0)
            os.write(found, f"{os.getpid()}\n".encode("ascii"))
            return found
        os.close(found)  # it was taken away between the two: once more


def _is_at(companion: Path, found: int) -> bool:
    """Whether what was locked is still what lies there."""
    with suppress(FileNotFoundError):
        return os.path.samestat(companion.stat(), os.fstat(found))
    return False
