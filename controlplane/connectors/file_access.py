"""Folders whose files connectors may open. A config comes over HTTP: it must reach no others."""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from controlplane.connect import ConnectError

SETTING = "connectors.folders"
"""Setting of the worker that names the folders."""


class FileAccess:
    """Folders, as absolute paths without links."""

    def __init__(self, folders: tuple[Path, ...] = ()) -> None:
        self._folders = folders

    @classmethod
    def to(cls, folders: Iterable[Path]) -> "FileAccess":
        """Return the access to these folders and everything below them."""
        return cls(tuple(folder.resolve() for folder in folders))

    def allows(self, path: Path) -> bool:
        """True if a path may be opened. Links are resolved before the check."""
        return any(path.resolve().is_relative_to(folder) for folder in self._folders)

    def path(self, text: str) -> Path:
        """Return a path that may be opened. Links are resolved before the check.

        Raises:
            ConnectError: it lies elsewhere.
        """
        path = Path(text).resolve()
        if self.allows(path):
            return path
        allowed = ", ".join(map(str, self._folders)) or "none"
        raise ConnectError(
            f"{text} may not be touched: {SETTING} names the folders of connectors ({allowed})"
        )


class FileConnector:
    """Base of connectors that touch files."""

    access: ClassVar[FileAccess] = FileAccess()
