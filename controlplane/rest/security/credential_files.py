"""Credential files, which are read again on change: no restart is needed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from controlplane.core.text.file_errors import unreadable
from controlplane.observe import Logger
from controlplane.rest.security.credential_hashes import BadCredentialLine, Credential, Scrypt
from controlplane.settings.errors import SettingsError

FILE_BYTES = 1 << 20
"""Maximum file size: some thousand credentials. A larger file is refused."""


class _BadCredential(SettingsError):
    """A line of a file cannot be used. The message begins with the file and the line."""

    def __init__(self, path: Path, line: int, reason: BadCredentialLine) -> None:
        super().__init__(f"{path}:{line}: {reason}")
        self.facts = {"line": line, "reason": str(reason)}


class _Stamp(NamedTuple):
    """Identity and version of a file; it changes whenever the file is written or replaced."""

    inode: int
    written_ns: int
    bytes: int


class CredentialFile:
    """The credentials in a file, read again as soon as it has changed.

    If the file becomes unreadable, the last credentials stay valid; a warning is logged once.
    """

    def __init__(self, path: Path, line: Callable[[str], Credential], logger: Logger) -> None:
        """Read the file; `line` parses one line.

        Raises:
            SettingsError: the file cannot be read, a line is not a credential, or a name has two
                passwords.
        """
        self._path, self._file = path, path.absolute()
        self._line = line
        self._logger = logger
        # The stamp comes first: a change during the read is then found by the next `current`.
        self._stamp = self._stamped()
        self._credentials = tuple(self._read())

    def current(self) -> tuple[Credential, ...]:
        """Return the credentials, read again if their file has changed."""
        stamp = self._stamped()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._credentials = tuple(self._read())
            except SettingsError as failure:
                # The line is a field of its own: the secret filter would hide `tokens:3`.
                facts = getattr(failure, "facts", {"reason": str(failure)})
                self._logger.warning("credentials_not_read", file=str(self._path), **facts)
            else:
                self._logger.info("credentials_read", file=str(self._path))
        return self._credentials

    def _stamped(self) -> _Stamp | None:
        try:
            status = self._file.stat()
        except OSError:
            return None
        return _Stamp(status.st_ino, status.st_mtime_ns, status.st_size)

    def _read(self) -> Iterator[Credential]:
        lines: dict[str, int] = {}
        for number, line in enumerate(self._content().splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                try:
                    credential = self._line(line)
                except BadCredentialLine as bad:
                    raise _BadCredential(self._path, number, bad) from None
                first = lines.setdefault(credential.name, number)
                if first != number and isinstance(credential.hash, Scrypt):
                    repeated = f"line {first} has a password of {credential.name}, too: delete one"
                    raise _BadCredential(self._path, number, BadCredentialLine(repeated))
                yield credential

    def _content(self) -> str:
        try:
            with self._file.open("rb") as file:
                content = file.read(FILE_BYTES + 1)
            if len(content) > FILE_BYTES:
                raise SettingsError(
                    f"{self._path} has more than {FILE_BYTES} bytes: give a file of credentials"
                )
            return content.decode()
        except OSError as failure:
            raise SettingsError(unreadable(self._path, failure)) from None
        except UnicodeDecodeError:
            raise SettingsError(
                f"{self._path} is not UTF-8 text: give a file of credentials"
            ) from None
