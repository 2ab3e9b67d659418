"""Files of embedded logs: check a file before SQLite opens it, create a file, connect to it.

SQLite keeps two companion files beside a log (`-wal`, `-shm`). A reader needs them too, so SQLite
creates missing ones. In a read-only directory it cannot; there a log without companions is opened
as immutable. Elsewhere a reader removes the companions that it created, unless another process uses
them.
"""

import os
import sqlite3
import struct
from contextlib import closing, suppress
from pathlib import Path

from controlplane.core.text.file_errors import because
from controlplane.logs.log import LogCorrupt, LogNotUsable, LogReplaced, LogUnavailable
from controlplane.logs.sqlite.errors import log_errors
from controlplane.logs.sqlite.schema import (
    APPLICATION_ID,
    PAGE_BYTES,
    READABLE_VERSION,
    VERSION,
    schema_version,
    upgrade,
)
from controlplane.logs.sqlite.settings import SqliteSettings
from controlplane.private_files import draft_folder, file_mode, sync_file, sync_folder

_HEADER = struct.Struct(">16s H 10x I 28x I 4x I 28x")
"""The first 100 bytes of a SQLite file: magic, page size, number of pages, user version,
application id (sqlite.org/fileformat2.html, section 1.3)."""

_MAGIC = b"SQLite format 3\0"
_PAGE_BYTES_MAX = 65_536
"""Largest page size. The header stores it as 1, because its field has 16 bits."""


def examine(path: Path) -> None:
    """Check that the file is a log that this release can use; change nothing.

    Raises:
        LogNotUsable: the file is no log, or has a newer schema.
        LogCorrupt: the file is cut off.
        LogUnavailable: the file cannot be read.
    """
    header, length = _read_header(path)
    magic, page_bytes, pages, version, application = _HEADER.unpack(header)
    if magic != _MAGIC:
        message = f"{path} is no log of this program (not a SQLite file): name another file"
        raise LogNotUsable(f"{message}, or import it if it is a dump of a topic")
    if application != APPLICATION_ID:
        message = f"{path} is a SQLite file of another program, or a damaged log"
        raise LogNotUsable(f"{message}: name another file, or restore a backup")
    check_version(path, version)
    size = _PAGE_BYTES_MAX if page_bytes == 1 else page_bytes
    if length < size * pages and not _has_wal(path):
        message = f"The log {path} is cut off: it has {length} bytes of {size * pages}"
        raise LogCorrupt(f"{message}; restore it from a backup")


def check_version(path: Path, version: int) -> None:
    """Raise `LogNotUsable` if the schema is newer than this release."""
    if version > VERSION:
        message = f"The log {path} has schema version {version}, newer than this release knows"
        raise LogNotUsable(f"{message} ({VERSION}): use the release that wrote it, or a later one")


def create(path: Path) -> bool:
    """Create a new, empty log, unless the path exists; return True if this call created it.

    Another process may create it concurrently. The file is written in a draft folder beside the
    path and gets its name when it is complete. So no process ever opens an incomplete log. By
    default only the owner may read the file, because topics may contain secrets (`file_mode`).

    Raises:
        LogUnavailable: the file cannot be created.
        LogNotUsable: see `place`.
    """
    try:
        if path.exists():
            return False
    except OSError:
        return False  # `examine` comes next and reports the reason
    try:
        with draft_folder(path) as folder:
            draft = folder / path.name
            with log_errors(path):  # errors name the final path, not the draft
                _create_file(draft)
            place(draft, path)
            return True
    except FileExistsError:
        return False
    except OSError as error:
        message = f"The log {path} cannot be created ({error.strerror}): check that its directory"
        raise LogUnavailable(f"{message} exists, is writable, and has room") from error


def place(draft: Path, path: Path) -> None:
    """Give a complete draft its final name, durably.

    Raises:
        FileExistsError: the name is taken.
        LogNotUsable: a deleted log has left its write-ahead log, whose pages would damage this one.
    """
    if _has_wal(path) and not path.exists():
        raise LogNotUsable(
            f"{wal_of(path)} is left of a deleted log {path}: remove it first, or put the log back"
        )
    # Order of writes: first the content is durable, then the name exists, then the name is durable.
    # `link` never replaces a file, unlike `rename`: if two processes create a log, one wins.
    draft.chmod(file_mode())
    sync_file(draft)
    os.link(draft, path)
    sync_folder(path.parent)


def connect(path: Path, mode: str, wait_ms: int = 0) -> sqlite3.Connection:
    """Open a connection without checkpoints in mode "ro" or "rw", for one thread at a time."""
    frozen = "&immutable=1" if mode == "ro" and is_frozen(path) else ""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}{frozen}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=wait_ms / 1_000,
    )
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    return connection


def connect_writer(path: Path, settings: SqliteSettings) -> sqlite3.Connection:
    """Open the only connection of this process that writes and checkpoints; upgrade the schema.

    Raises:
        LogNotUsable: the schema is newer, or the file system does not support WAL mode.
    """
    connection = connect(path, "rw", settings.write_wait_ms)
    try:
        _set_wal(connection, path)
        connection.execute(f"PRAGMA synchronous = {settings.synchronous}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {settings.checkpoint_pages}")
        connection.execute(f"PRAGMA journal_size_limit = {settings.wal_limit_bytes}")
        _upgrade(connection, path)
        connection.execute("PRAGMA busy_timeout = 0")
    except BaseException:
        connection.close()
        raise
    return connection


def _set_wal(connection: sqlite3.Connection, path: Path) -> None:
    """Switch to WAL mode: another program may have changed the mode of a log."""
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        message = f"The log {path} lies on a file system without shared memory"
        raise LogNotUsable(f"{message}: move it to a local disk")


def check_readable(path: Path, settings: SqliteSettings) -> None:
    """Raise `LogNotUsable` unless the file can be read without an upgrade."""
    connection = connect(path, "ro", settings.read_wait_ms)
    try:
        version = schema_version(connection)
    finally:
        connection.close()
    check_version(path, version)
    if version < READABLE_VERSION:
        message = f"The log {path} has the older schema version {version}: open it once for"
        raise LogNotUsable(f"{message} writing, which upgrades it")


def _upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Upgrade the schema in a write transaction: other processes may try the same concurrently."""
    if schema_version(connection) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    check_version(path, schema_version(connection))
    upgrade(connection)
    connection.execute("COMMIT")


def _create_file(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # These precede WAL mode: else application id and version would be only in the WAL.
        # `examine` reads them from the header.
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("BEGIN IMMEDIATE")
        upgrade(connection)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")


def _read_header(path: Path) -> tuple[bytes, int]:
    """Return the header and the length of a file."""
    try:
        if path.is_dir():
            raise LogNotUsable(f"{path} is a directory, not a log: name a file in it")
        if not path.exists():
            raise LogNotUsable(f"There is no log {path}: check the name, or create it first")
        if not path.is_file():
            raise LogNotUsable(f"{path} is not a regular file, so it is no log: name another")
        with path.open("rb") as file:
            header = file.read(_HEADER.size)
        length = path.stat().st_size
    except OSError as error:
        message = f"The log {path} cannot be read ({error.strerror}): check the access rights"
        raise LogUnavailable(f"{message} of the file and its directory") from error
    if not header:
        raise LogNotUsable(f"{path} is empty, so it is no log: remove it, or name another file")
    return header.ljust(_HEADER.size, b"\0"), length


def companions_of(path: Path) -> tuple[Path, ...]:
    """Return the paths of the files that SQLite keeps beside an open database."""
    real = _real(path)
    return tuple(real.with_name(real.name + suffix) for suffix in ("-wal", "-shm"))


def wal_of(path: Path) -> Path:
    """Return the path of the write-ahead log. Like SQLite, it resolves links first."""
    real = _real(path)
    return real.with_name(real.name + "-wal")


def _real(path: Path) -> Path:
    """Path behind links. Up to Python 3.12, `Path.resolve` fails for a circle of links."""
    return Path(os.path.realpath(path))


def _has_wal(path: Path) -> bool:
    """True if the write-ahead log has bytes. Another process may remove the file at any time."""
    with suppress(OSError):
        return wal_of(path).stat().st_size > 0
    return False


def is_frozen(path: Path) -> bool:
    """Return True if the log has no companions and this process cannot create them."""
    wal = wal_of(path)
    effective = os.access in os.supports_effective_ids
    return not wal.exists() and not os.access(wal.parent, os.W_OK, effective_ids=effective)


def remove_companions(path: Path) -> None:
    """Remove the companions, unless another process uses them or has written to the log.

    SQLite removes them itself, under its own locks, when the last writable connection closes. So
    this function opens such a connection and closes it.
    """
    if _has_wal(path):
        return
    # Without write access, or while another process holds a lock, the companions stay: no harm.
    with suppress(sqlite3.Error):
        address = f"{path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, uri=True, timeout=0)) as connection:
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()


class FileIdentity:
    """Path and inode of an open file.

    A connection keeps its file open even if the file is moved. A new connection opens the current
    file at the path. Without this check one log could write to one file and read from another. A
    later change of the working directory has no effect.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, path.absolute()
        opened = self._file.stat()
        self._identity = opened.st_dev, opened.st_ino

    def check(self) -> None:
        """Check that the path still leads to the same file.

        Raises:
            LogReplaced: it now leads to another file, or to none.
            LogUnavailable: the file system does not tell.
        """
        try:
            status = self._file.stat()
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise LogUnavailable(
                f"The log {self._path} cannot be found {because(error)}"
            ) from error
        else:
            if (status.st_dev, status.st_ino) == self._identity:
                return
        raise LogReplaced(f"The log {self._path} was deleted or replaced: open it again")
