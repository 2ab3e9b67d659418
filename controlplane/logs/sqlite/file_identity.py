"""Identity of an open file: detects that its path leads to another file by now."""

from contextlib import suppress
from pathlib import Path

from controlplane.logs.log import LogReplaced


class FileIdentity:
    """Path and inode of an open file.

    A connection keeps its file open even if the file is moved; a new connection opens the current
    file at the path. Without this check one log could write to one file and read from another.
    """

    def __init__(self, path: Path) -> None:
        opened = path.stat()
        self._path = path
        self._identity = opened.st_dev, opened.st_ino

    def check(self) -> None:
        """Raise `LogReplaced` if the path leads to another file, or to none."""
        with suppress(FileNotFoundError):
            there = self._path.stat()
            if (there.st_dev, there.st_ino) == self._identity:
                return
        raise LogReplaced(f"The log {self._path} was deleted or replaced: open it again")
