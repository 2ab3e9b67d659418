"""Stores of archive files: a folder, or an object store (`s3a://bucket/folder`).

A file appears complete, under a name that was free, and never changes afterwards. Only a merge
rewrites or removes files that count (`replay.archive`), after its own manifest has taken over.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

from controlplane.core.text.file_errors import unwritable
from controlplane.private_files import (
    draft_file,
    make_folders,
    remove_abandoned,
    replacing,
    sync_folder,
)
from replay.archive.stores import hadoop_settings
from replay.archive.stores.object_store import bucket_at
from replay.archive.stores.store_errors import reading
from replay.errors import NoArchive, NotWritable, log_advice, no_name


class ArchiveStore(Protocol):
    """Files by their names within an archive: relative, separated by `/`."""

    where: str
    """Path or URL of the archive, for messages and for `open_store`."""
    settings: hadoop_settings.HadoopSettings
    """Further settings that `open_store` needs."""
    requests_at_once: int
    """Number of concurrent requests for small files; 1 if the store answers without a delay."""

    def names(self, folder: str) -> list[str]:
        """Names directly in a folder, sorted; empty if the folder does not exist."""
        ...

    def walk(self, folder: str) -> Iterator[str]:
        """All files in a folder and its subfolders."""
        ...

    def size(self, name: str) -> int | None:
        """Size of a file in bytes; None if it does not exist."""
        ...

    def modified_s(self, name: str) -> float | None:
        """Time at which a file was written, in seconds since 1970; None if it does not exist."""
        ...

    def read(self, name: str, most_bytes: int = -1) -> bytes:
        """Read a file, or its first `most_bytes`. Raises `FileNotFoundError`."""
        ...

    def open(self, name: str) -> pa.NativeFile:
        """Open a file for random access. Raises `FileNotFoundError`."""
        ...

    def add(self, name: str, content: bytes) -> bool:
        """Write a file durably; return False, without a change, if the name is taken.

        Names derive from the content, so concurrent writers of one name write the same bytes.

        Raises:
            NotWritable: no room, or no permission.
        """
        ...

    def take(self, name: str, content: bytes) -> bool:
        """Write a file under a name that others may use for other content; at most one succeeds.

        The result is False, without a change, if the name is taken.

        Raises:
            NotWritable: no room, or no permission; nothing is changed.
            WriteUncertain: an object store has not answered, so the file may still appear.
        """
        ...

    def replace(self, name: str, content: bytes) -> None:
        """Write a file durably in place of another. Raises `NotWritable`."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens if it does not exist. Raises `NotWritable`."""
        ...


def open_store(
    where: str, settings: hadoop_settings.HadoopSettings = hadoop_settings.NONE
) -> ArchiveStore:
    """Open the store at a path or URL; nothing is created.

    Raises:
        NoArchive: the URL cannot hold an archive.
        BadStoreSetting: a setting is unknown or invalid.
    """
    if not where:  # of an unset variable; Python would take the current folder
        raise no_name()
    scheme, separator, rest = where.partition("://")
    if not separator:
        if _URL_START.match(where):  # a slash is missing: the folder would be named `s3:`
            raise NoArchive(f"{where} is no URL: write {where.partition(':')[0]}://…, or ./{where}")
        return FolderStore(where)
    if scheme in S3:
        return bucket_at(where, rest, settings)
    if scheme != "file":
        advice = f". {log_advice('LOG')}" if scheme in {"kafka", "sqlite"} else ""
        raise NoArchive(
            f"no archive can be at {scheme}://…: name a folder, or s3a://bucket/folder{advice}"
        )
    if not rest.startswith("/"):
        raise NoArchive(f"{where} is not of the form file:///path")
    try:
        _, path = fs.FileSystem.from_uri(quote(where, safe=_KEPT_IN_FILE_URLS))
    except (pa.ArrowInvalid, OSError):
        raise NoArchive(
            f"{where} is no URL of a folder: write file:///path, and a percent sign as %25"
        ) from None
    return FolderStore(path)


_URL_START = re.compile(r"(abfss?|file|gs|hdfs|https?|kafka|s3[an]?|sqlite):", re.IGNORECASE)

_KEPT_IN_FILE_URLS = "%/:@!$&'()*+,;="
"""Characters of a `file://` URL that are not escaped: `%20` stays an escape.

Arrow refuses a space, and ignores all that follows `#` or `?`. Such a URL has neither a fragment
nor a query, so both characters belong to the path.
"""

S3 = ("s3", "s3a")
"""Schemes of S3: that of Arrow and AWS, and that of Hadoop."""


class FolderStore:
    """Folder on this machine.

    A file is written under a draft name, then hard-linked to its own name. The link fails if the
    name is taken. Concurrent appends thus detect each other, and a killed process leaves nothing
    half written.
    """

    settings = hadoop_settings.NONE
    requests_at_once = 1

    def __init__(self, where: str) -> None:
        self.where = where
        self._root = Path(where).absolute()
        self._root_text = str(self._root)
        self._tidied: set[Path] = set()
        """Folders whose drafts of killed processes have been removed."""

    def names(self, folder: str) -> list[str]:
        """Names directly in a folder, sorted."""
        at = self._root / folder
        with reading(str(at)), suppress(FileNotFoundError, NotADirectoryError):
            return sorted(path.name for path in at.iterdir())
        return []

    def walk(self, folder: str) -> Iterator[str]:
        """All files in a folder and its subfolders."""
        at = self._root / folder
        with reading(str(at)):
            for path in sorted(at.rglob("*")):
                if path.is_file():
                    yield path.relative_to(self._root).as_posix()

    def size(self, name: str) -> int | None:
        """Size of a file in bytes; None if it does not exist."""
        at = self._root / name
        try:
            with reading(str(at)):
                return at.stat().st_size
        except FileNotFoundError:
            return None

    def modified_s(self, name: str) -> float | None:
        """Time at which a file was written, in seconds since 1970; None if it does not exist."""
        at = self._root / name
        try:
            with reading(str(at)):
                return at.stat().st_mtime
        except FileNotFoundError:
            return None

    def read(self, name: str, most_bytes: int = -1) -> bytes:
        """Read a file, or its first bytes. Raises `FileNotFoundError`."""
        # A `Path` for each name would take longer than a read of a small file.
        at = os.path.join(self._root_text, name)  # noqa: PTH118
        with reading(at), open(at, "rb") as file:  # noqa: PTH123
            return file.read(most_bytes)

    def open(self, name: str) -> pa.NativeFile:
        """Open a file memory-mapped: unused parts are never read."""
        at = str(self._root / name)
        with reading(at):
            return pa.memory_map(at)

    def add(self, name: str, content: bytes) -> bool:
        """Write a file durably; return False if the name is taken."""
        path = self._root / name
        try:
            make_folders(path.parent)
            if path.parent not in self._tidied:
                remove_abandoned(path.parent)
                self._tidied.add(path.parent)
            return _linked(path, content)
        except OSError as error:
            raise NotWritable(unwritable(self.where, error)) from None

    def take(self, name: str, content: bytes) -> bool:
        """Write a file; a hard link succeeds only once, so `add` is enough."""
        return self.add(name, content)

    def replace(self, name: str, content: bytes) -> None:
        """Write a file in place of another; a reader sees one of the two."""
        path = self._root / name
        try:
            make_folders(path.parent)
            with replacing(path) as draft:
                draft.write_bytes(content)
        except OSError as error:
            raise NotWritable(unwritable(self.where, error)) from None

    def remove(self, name: str) -> None:
        """Remove a file; a reader that has opened it can read on."""
        try:
            (self._root / name).unlink(missing_ok=True)
        except OSError as error:
            raise NotWritable(unwritable(self.where, error)) from None


def _linked(path: Path, content: bytes) -> bool:
    """Write a draft beside the place and link it there; return False if the name is taken."""
    with draft_file(path) as draft:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            # Before the link: a file under its own name is complete, even after a power failure.
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
    sync_folder(path.parent)
    return True
