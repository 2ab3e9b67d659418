"""Where the files of an archive lie: a folder, or an object store (`s3a://bucket/folder`).

A file appears whole or not at all, under a name that was free, and never changes afterwards.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyarrow import fs

from controlplane.core.file_sentences import unwritable
from controlplane.private_files import draft_file, make_folders, remove_abandoned, sync_folder
from replay.archive import hadoop
from replay.archive.objects import bucket_at, reading
from replay.errors import NoArchive, NotWritable


class Store(Protocol):
    """Files by their names within an archive: relative, with `/`."""

    where: str
    """The archive's own name, for people and for `open_store`."""
    settings: hadoop.Settings
    """What else `open_store` has to be told to find it."""

    def names(self, folder: str) -> list[str]:
        """The names of what lies directly in a folder, sorted; none where there is no folder."""
        ...

    def walk(self, folder: str) -> Iterator[str]:
        """Every file in a folder and the folders in it."""
        ...

    def size(self, name: str) -> int | None:
        """How many bytes a file has; None: there is none."""
        ...

    def read(self, name: str) -> bytes:
        """All of a file. Raises `FileNotFoundError`."""
        ...

    def open(self, name: str) -> pa.NativeFile:
        """A file to be read here and there. Raises `FileNotFoundError`."""
        ...

    def add(self, name: str, content: bytes) -> bool:
        """Write a file, durably; False, and nothing is changed, if the name is taken.

        Who adds under one name at the same time adds the same: it is named after what is in it.

        Raises:
            NotWritable: there is no room, or no permission.
        """
        ...

    def take(self, name: str, content: bytes) -> bool:
        """The same under a name for which others may have something else: at most one gets it."""
        ...


def open_store(where: str, settings: hadoop.Settings = hadoop.NONE) -> Store:
    """The store that a path or URL names; nothing is made.

    Raises:
        NoArchive: no archive can be at such a URL.
        BadSetting: a setting is unknown, or means nothing.
    """
    scheme, found, rest = where.partition("://")
    if not found:
        return Folder(where)
    if scheme in S3:
        return bucket_at(where, rest, settings)
    if scheme != "file":
        raise NoArchive(f"no archive can be at {scheme}://…: name a folder, or s3a://bucket/folder")
    try:
        _, path = fs.FileSystem.from_uri(where)
    except (pa.ArrowInvalid, OSError) as error:
        raise NoArchive(f"{where} cannot be opened: {str(error).splitlines()[0]}") from None
    return Folder(path)


S3 = ("s3", "s3a")
"""Schemes of S3: Arrow's and AWS's, and Hadoop's."""


class Folder:
    """A folder of this machine.

    A file is written under a name that nobody reads, then linked to its own, which fails if that
    is taken. So two who append at once find out, and whoever is killed leaves nothing half-written.
    """

    settings = hadoop.NONE

    def __init__(self, where: str) -> None:
        self.where = where
        self._root = Path(where).absolute()
        self._tidied: set[Path] = set()
        """Folders from which drafts of killed processes have been removed."""

    def names(self, folder: str) -> list[str]:
        """The names of what lies directly in a folder, sorted."""
        at = self._root / folder
        with reading(str(at)), suppress(FileNotFoundError, NotADirectoryError):
            return sorted(one.name for one in at.iterdir())
        return []

    def walk(self, folder: str) -> Iterator[str]:
        """Every file in a folder and the folders in it."""
        at = self._root / folder
        with reading(str(at)):
            for one in sorted(at.rglob("*")):
                if one.is_file():
                    yield one.relative_to(self._root).as_posix()

    def size(self, name: str) -> int | None:
        """How many bytes a file has."""
        at = self._root / name
        try:
            with reading(str(at)):
                return at.stat().st_size
        except FileNotFoundError:
            return None

    def read(self, name: str) -> bytes:
        """All of a file."""
        at = self._root / name
        with reading(str(at)):
            return at.read_bytes()

    def open(self, name: str) -> pa.NativeFile:
        """A file to be read here and there: mapped, so that what nobody looks at is not read."""
        at = str(self._root / name)
        with reading(at):
            return pa.memory_map(at)

    def add(self, name: str, content: bytes) -> bool:
        """Write a file, durably."""
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
        """The same: a link is made by one only."""
        return self.add(name, content)


def _linked(path: Path, content: bytes) -> bool:
    """Write a file beside its place and link it there; False: the name is taken."""
    with draft_file(path) as draft:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
    sync_folder(path.parent)
    return True
