"""Class data archives, with which a JVM of Kafka starts in half the processor time.

A JVM maps the archive into memory instead of loading, checking and linking each class from a jar.
One run of a program records the archive when it ends; `.cache/classes/` keeps it for later runs.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.jars import ROOT, java

CACHE = ROOT / ".cache" / "classes"


class ClassArchive:
    """Archive of a program's classes, for one class path and one installation of Java."""

    def __init__(self, program: str, path: str) -> None:
        self._file = CACHE / f"{program}-{_digest(path)}.jsa"

    @property
    def exists(self) -> bool:
        """True once a run has recorded it."""
        return self._file.exists()

    @property
    def reading(self) -> tuple[str, ...]:
        """JVM options to start with the archive; none if it does not exist."""
        return (f"-XX:SharedArchiveFile={self._file}",) if self.exists else ()

    @property
    def recording(self) -> tuple[str, ...]:
        """JVM options to record the archive at an orderly end."""
        return (f"-XX:ArchiveClassesAtExit={self._unfinished}",)

    def keep(self) -> None:
        """Keep the archive that a JVM has recorded; the JVM must have ended.

        A JVM that halts at its end, as a worker may on a busy machine, has recorded none.
        """
        with suppress(FileNotFoundError):
            self._unfinished.rename(self._file)

    @property
    def _unfinished(self) -> Path:
        """Temporary file of a recording JVM: an interrupted recording must not count."""
        return self._file.with_suffix(f".{os.getpid()}")


@contextmanager
def recorder(name: str) -> Iterator[bool]:
    """Yield True to the only process that may record the archives of this name now."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def extended(path: str, longer: str) -> str:
    """Class path of `longer` that begins with `path`, so that the archive of `path` fits it."""
    jars = dict.fromkeys([*path.split(os.pathsep), *longer.split(os.pathsep)])
    return os.pathsep.join(jars)


def _digest(path: str) -> str:
    """Digest of class path and program `java`; with another digest an archive is invalid."""
    program = java()
    assert program is not None
    installed = program.resolve()
    parts = (path, str(installed), str(installed.stat().st_mtime_ns))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
