"""Files that grow: each look reads on from the last position."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from controlplane.connect import ConnectError
from controlplane.connectors.file_access import FileAccess, file_stamp, read_line

TAIL_BYTES = 1_024
"""Number of bytes before the position that are compared: if they differ, the file was replaced.
"""


class GrowingFile:
    """Lines of a file, as they are written. A line counts once its end has been written.

    A file that was truncated, or replaced by one with other contents, is read from its start. The
    first look after a restart knows only the number of lines. So it detects only a file with fewer
    lines.
    """

    def __init__(self, lines: int) -> None:
        """`lines`: number of lines that an earlier run has read."""
        self.lines = lines
        """Number of lines that were read."""
        self._position: int | None = None
        """Position in bytes after these lines; None: it is unknown."""
        self._tail = b""
        self._stamp: tuple[int, ...] = ()
        """Stamp of the file (`file_stamp`), taken before it was last read to its end."""

    def new_lines(self, access: FileAccess, path: Path) -> Iterator[str]:
        """Yield the lines since the last look; no lines if the file is gone.

        Raises:
            ConnectError: it may not or cannot be opened, or a line is too long.
        """
        try:
            stamp = file_stamp(path.stat())
            if stamp == self._stamp:
                return
            file = access.open(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as failure:
            raise ConnectError(f"The file {path} cannot be read: {failure.strerror}") from failure
        with file:
            self._go_on(file)
            for line in whole_lines(file):
                self._take(line)
                yield line[:-1].decode("utf-8", "replace")
        self._stamp = stamp

    def _go_on(self, file: IO[bytes]) -> None:
        """Move to the position, or to the start of a file that was truncated or replaced."""
        if self._position is None:
            lines = self.lines
            self._start_over()
            for line in whole_lines(file):
                if self.lines == lines:
                    break
                self._take(line)
            is_same = self.lines == lines
        else:
            file.seek(self._position - len(self._tail))
            is_same = file.read(len(self._tail)) == self._tail
        if not is_same:
            self._start_over()
        file.seek(self._position or 0)

    def _start_over(self) -> None:
        self.lines, self._position, self._tail = 0, 0, b""

    def _take(self, line: bytes) -> None:
        self.lines += 1
        self._position = (self._position or 0) + len(line)
        self._tail = (self._tail + line)[-TAIL_BYTES:]


def whole_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the complete lines from the position on, each with its line feed.

    Raises:
        ConnectError: a line is too long.
    """
    while (line := read_line(file)).endswith(b"\n"):
        yield line
