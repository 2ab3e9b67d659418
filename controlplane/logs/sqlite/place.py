"""Whether what lies at a path is still the file that was opened there."""

from contextlib import suppress
from pathlib import Path

from controlplane.logs.log import LogReplaced


class Place:
    """The path of a file that is open, and which file that is.

    A connection holds on to its file, wherever that is moved; a new one takes what lies at the
    path by then. Without a look one log would write to one file, and read from another.
    """

    def __init__(self, path: Path) -> None:
        opened = path.stat()
        self._path = path
        self._identity = opened.st_dev, opened.st_ino

    def check(self) -> None:
        """Raise `LogReplaced` if it is another file by now, or none."""
        with suppress(FileNotFoundError):
            there = self._path.stat()
            if (there.st_dev, there.st_ino) == self._identity:
                return
        raise LogReplaced(f"The log {self._path} was deleted or replaced: open it again")
