"""Folders whose files connectors may open.

Clients send configs over HTTP. So no config gives access to files outside of these folders.
"""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, ClassVar

from controlplane.connect import ConnectError

SETTING = "connectors.folders"
"""Setting of the worker that names the folders."""


LONGEST_LINE_BYTES = 256 * 2**20
"""Maximum length of a line. A connector reads a whole line into memory, and all connectors of the
process share that memory. Kafka's limit is 2**30 characters, the largest buffer of its task."""


class FileAccess:
    """Folders, as absolute paths without links; `start`: base of relative paths.

    The base is fixed, because a connector may change the working directory of the process.
    """

    def __init__(self, folders: tuple[Path, ...] = (), start: Path = Path()) -> None:
        self._folders = folders
        self._start = start

    @classmethod
    def to(cls, folders: Iterable[Path]) -> "FileAccess":
        """Return the access to these folders and everything below them."""
        return cls(tuple(folder.resolve() for folder in folders), Path.cwd())

    def allows(self, path: Path) -> bool:
        """True if a path may be opened. Links are resolved before the check."""
        return self._folder_of(path.resolve()) is not None

    def _folder_of(self, resolved: Path) -> Path | None:
        return next((folder for folder in self._folders if resolved.is_relative_to(folder)), None)

    def path(self, text: str) -> Path:
        """Return a path that may be opened. Links are resolved before the check.

        Raises:
            ConnectError: it lies elsewhere.
        """
        resolved = Path(self._start, text).resolve()
        if self._folder_of(resolved) is not None:
            return resolved
        allowed = ", ".join(map(str, self._folders)) or "none"
        raise ConnectError(
            f"{text} may not be opened: connectors may open files only below the folders of "
            f"{SETTING} ({allowed})"
        )

    def open(self, path: Path, mode: str = "rb", encoding: str | None = None) -> IO[Any]:
        """Open a file safely, even if a link was made since its path was checked.

        Raises:
            ConnectError: it lies elsewhere now.
            OSError: it cannot be opened.
        """
        resolved = self.path(str(path))
        folder = self._folder_of(resolved)
        assert folder is not None  # else `path` has refused it

        def opened(_: str, flags: int) -> int:
            return _opened_below(folder, resolved, flags)

        return open(resolved, mode, encoding=encoding, opener=opened)


def file_stamp(status: os.stat_result) -> tuple[int, ...]:
    """Return device, inode, size and time of a file; with the same stamp, it is unchanged."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _opened_below(folder: Path, path: Path, flags: int) -> int:
    """Open a path folder by folder; a part that has become a link raises `OSError`."""
    if os.open not in os.supports_dir_fd:  # Windows: only a privileged user makes links
        return os.open(path, flags, 0o666)
    first = folder if path != folder else folder.parent
    *parents, name = path.relative_to(first).parts
    with ExitStack() as to_close:
        place: int | None = None
        for part in (str(first), *parents):
            place = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place)
            to_close.callback(os.close, place)
        return os.open(name, flags | os.O_NOFOLLOW, 0o666, dir_fd=place)


def read_line(file: IO[bytes]) -> bytes:
    """Read a line with its end. The last line of a file may be incomplete, without an end.

    Raises:
        ConnectError: the line is too long.
    """
    line = file.readline(LONGEST_LINE_BYTES + 1)
    check_line_length(file, len(line))
    return line


def check_line_length(file: IO[bytes], length: int) -> None:
    """Raise `ConnectError` if a line of a file is longer than `LONGEST_LINE_BYTES`."""
    if length > LONGEST_LINE_BYTES:
        raise ConnectError(
            f"The file {file.name} has a line of more than {LONGEST_LINE_BYTES} bytes: divide the "
            "line, or remove the file"
        )


class FileConnector:
    """Base of connectors that touch files."""

    access: ClassVar[FileAccess] = FileAccess()
