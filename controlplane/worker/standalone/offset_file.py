"""The offsets file of a standalone worker (Kafka: `FileOffsetBackingStore`).

The whole file is replaced at each commit: a crash leaves the old or the new one. A file that cannot
be read is never replaced.
"""

import stat
from contextlib import suppress
from pathlib import Path

from controlplane.core.text.file_errors import unreadable
from controlplane.logs.log import LogNotUsable
from controlplane.private_files import replacing
from controlplane.worker.standalone.offset_file_format import (
    NoOffsetFile,
    OffsetMap,
    decode_offsets,
    encode_offsets,
)

LARGEST_BYTES = 1 << 30
"""Maximum size of a file: all offsets are kept in memory, and written at each commit. A larger file
is probably no offsets file."""


LoadedOffsets = dict[bytes | None, bytes | None]
"""Keys and values of a file."""


class OffsetFile:
    """An offsets file and its path. `save` blocks; call it in a thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        """The path as the user gave it, for messages."""
        self._file = path.absolute()
        """Absolute path: it stays valid if a connector changes the working directory."""

    def load(self) -> LoadedOffsets:
        """Return the offsets; none if there is no file, or an empty one.

        Raises:
            LogNotUsable: the file cannot be read, or holds anything else; or its folder is missing.
        """
        try:
            content = self._content()
        except FileNotFoundError:
            self._check_folder()
            return {}
        except OSError as failure:
            raise LogNotUsable(unreadable(self.path, failure)) from None
        if not content:  # as in Java: `touch` may have made the file
            return {}
        if len(content) > LARGEST_BYTES:
            raise LogNotUsable(
                f"{self.path} has more than {LARGEST_BYTES >> 20} MiB: name another file with "
                "offset.storage.file.filename"
            )
        try:
            return decode_offsets(content)
        except NoOffsetFile as failure:
            raise LogNotUsable(
                f"{self.path} is no offsets file of a standalone worker: {failure}. It is left as "
                "it is: restore it from a backup, or name another file with "
                "offset.storage.file.filename"
            ) from None

    def save(self, offsets: OffsetMap) -> None:
        """Replace the file; it keeps its access rights, so that a Java worker can still read it.

        Raises:
            OSError: it cannot be written; the former file is as it was.
        """
        content = encode_offsets(offsets)
        with replacing(self._file) as draft:
            draft.write_bytes(content)
            with suppress(FileNotFoundError):
                if draft != self._file:
                    draft.chmod(stat.S_IMODE(self._file.stat().st_mode))

    @property
    def changed_ms(self) -> int:
        """Time of the last change in ms since 1970; 0: there is no file."""
        try:
            return self._file.stat().st_mtime_ns // 1_000_000
        except OSError:
            return 0

    def _content(self) -> bytes:
        with self._file.open("rb") as file:
            return file.read(LARGEST_BYTES + 1)

    def _check_folder(self) -> None:
        """Refuse a folder that is missing: no commit could write the file."""
        folder = self._file.resolve().parent
        if not folder.is_dir():
            raise LogNotUsable(
                f"{self.path} cannot be written (there is no folder {folder}): make the folder, or "
                "name another file with offset.storage.file.filename"
            )
