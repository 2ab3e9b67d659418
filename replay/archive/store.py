"""Where the files of an archive lie: a folder, or an object store (`s3://bucket/folder`).

A file appears whole or not at all, under a name that was free, and never changes afterwards.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyarrow import fs

from replay.errors import NoArchive, NotWritable


class Store(Protocol):
    """Files by their names within an archive: relative, with `/`."""

    where: str
    """The archive's own name, for people and for `open_store`."""

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

        Raises:
            NotWritable: there is no room, or no permission.
        """
        ...


def open_store(where: str) -> Store:
    """The store that a path or URL names; nothing is made.

    Raises:
        NoArchive: no file system is known that such a URL names.
    """
    if "://" not in where:
        return Folder(where)
    try:
        found, path = fs.FileSystem.from_uri(where)
    except (pa.ArrowInvalid, OSError) as error:
        raise NoArchive(f"{where} cannot be opened: {str(error).splitlines()[0]}") from None
    return Folder(path) if isinstance(found, fs.LocalFileSystem) else Objects(where, found, path)


@contextmanager
def _reachable(where: str) -> Iterator[None]:
    """Say in one sentence that nothing can be read there."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        why = error.strerror or str(error).splitlines()[0]
        raise NoArchive(f"{where} cannot be read ({why}): look whether we may") from None


class Folder:
    """A folder of this machine.

    A file is written under a name that nobody reads, then linked to its own, which fails if that
    is taken. So two who append at once find out, and whoever is killed leaves nothing half-written.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self._root = Path(where).absolute()

    def names(self, folder: str) -> list[str]:
        """The names of what lies directly in a folder, sorted."""
        at = self._root / folder
        with _reachable(self.where):
            return sorted(one.name for one in at.iterdir()) if at.is_dir() else []

    def walk(self, folder: str) -> Iterator[str]:
        """Every file in a folder and the folders in it."""
        for one in sorted((self._root / folder).rglob("*")):
            if one.is_file():
                yield one.relative_to(self._root).as_posix()

    def size(self, name: str) -> int | None:
        """How many bytes a file has."""
        try:
            return (self._root / name).stat().st_size
        except FileNotFoundError:
            return None

    def read(self, name: str) -> bytes:
        """All of a file."""
        with _reachable(self.where):
            return (self._root / name).read_bytes()

    def open(self, name: str) -> pa.NativeFile:
        """A file to be read here and there: mapped, so that what nobody looks at is not read."""
        return pa.memory_map(str(self._root / name))

    def add(self, name: str, content: bytes) -> bool:
        """Write a file, durably."""
        try:
            return _linked(self._root / name, content)
        except OSError as error:
            why = error.strerror or str(error)
            raise NotWritable(f"{self.where} cannot be written ({why}): make room there") from None


def _linked(path: Path, content: bytes) -> bool:
    """Write a file beside its place and link it there; False: the name is taken."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    _keep_names(path.parent)
    return True


def _keep_names(folder: Path) -> None:
    """Make sure that the names in a folder survive a loss of power."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


class Objects:
    """A bucket, or whatever else Arrow reads: a file appears when it is closed.

    Such a store does not say that a name is taken, so only one may append to a cluster at a time.
    """

    def __init__(self, where: str, system: fs.FileSystem, root: str) -> None:
        self.where = where
        self._system = system
        self._root = root.rstrip("/")

    def names(self, folder: str) -> list[str]:
        """The names of what lies directly in a folder, sorted."""
        return sorted(one.base_name for one in self._found(folder, recursive=False))

    def walk(self, folder: str) -> Iterator[str]:
        """Every file in a folder and the folders in it."""
        files = (one for one in self._found(folder, recursive=True) if one.is_file)
        yield from sorted(one.path[len(self._root) + 1 :] for one in files)

    def size(self, name: str) -> int | None:
        """How many bytes a file has."""
        with _reachable(self.where):
            (found,) = self._system.get_file_info([self._path(name)])
        return int(found.size) if found.is_file else None

    def read(self, name: str) -> bytes:
        """All of a file."""
        with _reachable(self.where), self._system.open_input_stream(self._path(name)) as file:
            content: bytes = file.read()
            return content

    def open(self, name: str) -> pa.NativeFile:
        """A file to be read here and there."""
        return self._system.open_input_file(self._path(name))

    def add(self, name: str, content: bytes) -> bool:
        """Write a file, durably."""
        if self.size(name) is not None:
            return False
        path = self._path(name)
        try:
            self._system.create_dir(path.rpartition("/")[0], recursive=True)
            with self._system.open_output_stream(path) as file:
                file.write(content)
        except OSError as error:
            why = str(error).splitlines()[0]
            raise NotWritable(f"{self.where} cannot be written ({why}): look there") from None
        return True

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _found(self, folder: str, *, recursive: bool) -> list[fs.FileInfo]:
        wanted = fs.FileSelector(self._path(folder), recursive=recursive, allow_not_found=True)
        with _reachable(self.where):
            found: list[fs.FileInfo] = self._system.get_file_info(wanted)
            return found
