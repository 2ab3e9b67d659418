"""Files of credentials, which may change while they are used: nobody is restarted for that."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from controlplane.core.file_sentences import unreadable
from controlplane.observe import Logger
from controlplane.properties import SettingsError
from controlplane.rest.security.hashes import BadLine, Kept

FILE_BYTES = 1 << 20
"""Some thousand credentials; what is larger is something else and is not read."""


class _BadCredential(SettingsError):
    """A line of a file keeps no credential. The message begins with the file and the line."""

    def __init__(self, path: Path, line: int, reason: BadLine) -> None:
        super().__init__(f"{path}:{line}: {reason}")
        self.facts = {"line": line, "reason": str(reason)}


class _Stamp(NamedTuple):
    """What tells that a file has changed, also where another one has been put in its place."""

    inode: int
    written_ns: int
    bytes: int


class CredentialFile:
    """The credentials in a file, read again as soon as it has changed.

    One that cannot be read any more leaves what was known; that is told of, once.
    """

    def __init__(self, path: Path, line: Callable[[str], Kept], logger: Logger) -> None:
        """Read it; `line` reads one of its lines.

        Raises:
            SettingsError: it cannot be read, or a line of it keeps no credential.
        """
        self._path = path
        self._line = line
        self._logger = logger
        self._stamp = self._stamped()
        self._known = tuple(self._read())

    def now(self) -> tuple[Kept, ...]:
        """What it holds now."""
        stamp = self._stamped()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._known = tuple(self._read())
            except SettingsError as failure:
                # Apart from the path: `tokens:3` would be hidden as a secret.
                facts = getattr(failure, "facts", {"reason": str(failure)})
                self._logger.warning("credentials_not_read", file=str(self._path), **facts)
            else:
                self._logger.info("credentials_read", file=str(self._path))
        return self._known

    def _stamped(self) -> _Stamp | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return _Stamp(found.st_ino, found.st_mtime_ns, found.st_size)

    def _read(self) -> Iterator[Kept]:
        for number, line in enumerate(self._content().splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                try:
                    yield self._line(line)
                except BadLine as bad:
                    raise _BadCredential(self._path, number, bad) from None

    def _content(self) -> str:
        try:
            with self._path.open("rb") as file:
                content = file.read(FILE_BYTES + 1)
            if len(content) > FILE_BYTES:
                raise SettingsError(f"{self._path} is no file of credentials: it is too large")
            return content.decode()
        except OSError as failure:
            raise SettingsError(unreadable(self._path, failure)) from None
        except UnicodeDecodeError:
            raise SettingsError(f"{self._path} is no text in UTF-8") from None
