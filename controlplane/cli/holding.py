"""One process at a time changes an embedded log from the command line.

Whoever begins to write a log fences its writer, as Kafka's leaders do. Among programs that is what
one wants; a person who types a command while a service has the log open does not. So both hold a
companion of the file as long as they write, `state.db-writer`, which the system lets go of when the
process dies.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from controlplane.cli.failing import Refused
from controlplane.logs.names import is_cluster, path_of
from controlplane.private_files import file_mode

SUFFIX = "-writer"

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
"""A link could lead to a file of another user, which would be emptied."""


@contextmanager
def holding(where: str) -> Iterator[None]:
    """Be the only process of the command line that writes this log.

    What is no embedded log, or lies where nothing can be written, is left to whoever opens it.

    Raises:
        Refused: another one is.
    """
    if is_cluster(where):
        yield
        return
    path = path_of(where)
    companion = path.with_name(path.name + SUFFIX)
    try:
        held = _held(companion, path)
    except OSError as failure:
        if failure.errno == errno.ELOOP:
            raise Refused(f"{companion} is a symbolic link: remove it") from None
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
            raise Refused(
                f"process {who or 'unknown'} is the control plane of {path}: ask it "
                "(--cluster URL), or end it first"
            ) from None
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
