"""Files at rest: private to their owner, there whole or not at all, and durable.

Logs, archives, bundles and reports hold configs, and configs hold secrets. So files get mode 0600
and folders 0700, whatever the umask; the variable `CONTROLPLANE_FILE_MODE` tells another mode.
"""

import fcntl
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from controlplane.settings.properties import SettingsError

MODE = "CONTROLPLANE_FILE_MODE"
"""Environment variable: the mode of new files in octal digits, `0640` for instance. Folders get the
right to enter wherever files get the right to read."""

_PRIVATE = 0o600
_OCTAL = re.compile(r"0?o?[0-7]{3}")

_DRAFT = ".controlplane-draft"
"""Suffix of drafts. A draft is locked while its process lives: an unlocked one is abandoned."""

_VANISHED_MOST = 10
"""Drafts that may vanish while they are made. Some file systems, like `/proc`, refuse each new one
as if it had vanished."""

_NAME_BYTES = 200
"""Bytes of a file's name that its draft's name repeats; file systems allow 255."""


class BadFileMode(SettingsError):
    """`CONTROLPLANE_FILE_MODE` holds no mode, or one that locks the owner out."""


def file_mode() -> int:
    """Mode of new files.

    Raises:
        BadFileMode: the variable holds no mode, or one by which the owner cannot read and write.
    """
    told = os.environ.get(MODE, "").strip()
    if not told:
        return _PRIVATE
    mode = int(told[-3:], 8) if _OCTAL.fullmatch(told) else 0
    if mode & 0o700 != _PRIVATE or mode & 0o111:
        raise BadFileMode(
            f"{MODE} is {told!r}: use an octal mode that lets the owner read and write, like 0640"
        )
    return mode


def folder_mode() -> int:
    """Mode of new folders.

    Raises:
        BadFileMode: as `file_mode` does.
    """
    mode = file_mode()
    return mode | (mode & 0o444) >> 2


def umask() -> int:
    """Bits that the mode of a new folder lacks, for programs that are told so.

    Raises:
        BadFileMode: as `file_mode` does.
    """
    return ~folder_mode() & (stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)


def make_folders(folder: Path) -> None:
    """Make a folder and those above it that are missing; their names survive a loss of power."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for one in reversed(missing):
        with suppress(FileExistsError):  # another process makes the same ones
            one.mkdir(folder_mode())
            one.chmod(folder_mode())
        sync_folder(one.parent)


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder survive a loss of power."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def sync_file(file: Path) -> None:
    """Make sure that the bytes of a file survive a loss of power."""
    number = os.open(file, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Yield a draft that takes the place of a file, old mode included, when the block ends well.

    A link is followed. A device or a pipe is yielded itself.
    """
    place = file.resolve()
    if place.exists() and not place.is_file():
        yield place
        return
    remove_abandoned(place.parent)
    with draft_file(place) as draft:
        yield draft
        sync_file(draft)
        draft.replace(place)
        sync_folder(place.parent)


@contextmanager
def draft_file(place: Path) -> Iterator[Path]:
    """Yield a new, empty, private file beside a place; it is removed if it is still there."""
    with _draft(place, _new_file) as draft:
        yield draft


@contextmanager
def draft_folder(place: Path) -> Iterator[Path]:
    """Yield a new, empty, private folder beside a place; it is removed in the end."""
    with _draft(place, _new_folder) as draft:
        yield draft


def remove_abandoned(folder: Path) -> None:
    """Remove drafts that killed processes of this user have left in a folder."""
    with suppress(OSError):
        for path in folder.glob(f".*{_DRAFT}"):
            _remove_if_abandoned(path)


def _new_file(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    mode = file_mode()
    number = os.open(path, flags, mode)
    os.fchmod(number, mode)
    return number


def _new_folder(path: Path) -> int:
    path.mkdir(0o700)  # what is made inside gets its mode when it is complete
    return _opened(path)


@contextmanager
def _draft(place: Path, new: Callable[[Path], int]) -> Iterator[Path]:
    draft, number = _locked_draft(place, new)
    try:
        yield draft
    finally:
        with suppress(OSError):
            _remove(draft, number)
        os.close(number)


def _locked_draft(place: Path, new: Callable[[Path], int]) -> tuple[Path, int]:
    """Make a draft under the first free name. Who removes abandoned ones may be faster."""
    vanished = 0
    for attempt in count():
        draft = place.with_name(f".{_cut(place.name)}.{attempt}{_DRAFT}")
        try:
            number = new(draft)
        except FileExistsError:
            continue
        except FileNotFoundError:
            vanished += 1
            if vanished > _VANISHED_MOST or not place.parent.is_dir():
                raise
            continue
        with suppress(OSError):  # a file system without locks, or somebody who removes it
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(draft, number):
            return draft, number
        os.close(number)
    raise AssertionError


def _cut(name: str) -> str:
    """The beginning of a name, so short that a suffix fits behind it."""
    return os.fsdecode(os.fsencode(name)[:_NAME_BYTES])


def _remove_if_abandoned(path: Path) -> None:
    with suppress(OSError):
        number = _opened(path)
        try:
            if os.fstat(number).st_uid == os.geteuid():
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path, number)
        finally:
            os.close(number)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _remove(path: Path, number: int) -> None:
    """Remove what a descriptor is of, while it is locked."""
    if not _is_at(path, number):
        return
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _is_at(path: Path, number: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(path.lstat(), os.fstat(number))
    return False
