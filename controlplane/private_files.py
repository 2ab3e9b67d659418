"""Private files: readable only by their owner, replaced atomically, and durable.

Logs, archives, bundles and reports contain configs, and configs contain secrets. So files get mode
0600 and folders 0700, whatever the umask; `CONTROLPLANE_FILE_MODE` sets another mode.
"""

import errno
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from controlplane.settings.errors import SettingsError

MODE = "CONTROLPLANE_FILE_MODE"
"""Environment variable with the mode of new files in octal digits, such as `0640`. Users who may
read the files may also enter the folders."""

_PRIVATE = 0o600
_OCTAL = re.compile(r"0?o?[0-7]{3}")

_DRAFT = ".controlplane-draft"
"""Suffix of drafts. A process locks the draft that it writes; an unlocked draft is abandoned."""

_MAX_VANISHED = 10
"""Maximum attempts that fail with `FileNotFoundError` when a draft is created. Another process may
remove a draft before it is locked, so the creation is retried. On file systems like `/proc`, every
attempt fails."""

_NAME_BYTES = 200
"""Maximum bytes of a file's name in the name of its draft; file systems allow 255 bytes in all."""


class BadFileMode(SettingsError):
    """`CONTROLPLANE_FILE_MODE` is no octal mode, or one that `file_mode` refuses."""


def file_mode() -> int:
    """Return the mode of new files.

    Raises:
        BadFileMode: the variable is no octal mode, denies the owner reading or writing, or permits
            execution.
    """
    text = os.environ.get(MODE, "").strip()
    if not text:
        return _PRIVATE
    mode = int(text[-3:], 8) if _OCTAL.fullmatch(text) else 0
    if mode & 0o700 != _PRIVATE or mode & 0o111:
        raise BadFileMode(
            f"{MODE} is {text!r}: use an octal mode like 0640, with reading and writing for the "
            "owner, and execution for nobody"
        )
    return mode


def folder_mode() -> int:
    """Return the mode of new folders.

    Raises:
        BadFileMode: `CONTROLPLANE_FILE_MODE` is invalid.
    """
    mode = file_mode()
    return mode | (mode & 0o444) >> 2


def umask() -> int:
    """Return the umask that gives new folders their mode, for child processes.

    Raises:
        BadFileMode: `CONTROLPLANE_FILE_MODE` is invalid.
    """
    return ~folder_mode() & (stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)


def make_folders(folder: Path) -> None:
    """Create a folder and its missing parents, private and durable.

    Raises:
        NotADirectoryError: the folder, or one of its parents, is a file.
    """
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for parent in reversed(missing):
        try:
            parent.mkdir(folder_mode())
            parent.chmod(folder_mode())
        except FileExistsError:  # another process may create the same folders
            if not parent.is_dir():
                raise NotADirectoryError(
                    errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(parent)
                ) from None
        sync_folder(parent.parent)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk, so that they survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(file: Path) -> None:
    """Flush the bytes of a file to disk, so that they survive a power failure."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Yield a draft that replaces a file if the block succeeds; the mode is that of new files.

    Links are followed. A device or pipe is yielded directly. The order of writes makes the change
    atomic and durable: flush the bytes, rename the draft, flush the name.
    """
    if file.exists() and not file.is_file():  # the path of a pipe behind `/dev/stdout` is no file
        yield file
        return
    try:
        target = file.resolve()
    except RuntimeError:  # up to Python 3.12, for a circle of links
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(file)) from None
    remove_abandoned(target.parent)
    with draft_file(target) as draft:
        yield draft
        sync_file(draft)
        draft.replace(target)
        sync_folder(target.parent)


@contextmanager
def draft_file(target: Path) -> Iterator[Path]:
    """Yield a new, empty, private file beside `target`; afterwards remove it if it still exists."""
    with _draft(target, _new_file) as draft:
        yield draft


@contextmanager
def draft_folder(target: Path) -> Iterator[Path]:
    """Yield a new, empty, private folder beside `target`; afterwards remove what is left of it."""
    with _draft(target, _new_folder) as draft:
        yield draft


def remove_abandoned(folder: Path) -> None:
    """Remove the drafts in a folder that killed processes of this user have left behind."""
    with suppress(OSError):
        for path in folder.glob(f".*{_DRAFT}"):
            _remove_if_abandoned(path)


def is_draft(name: str) -> bool:
    """True for the name of a draft, in use or abandoned."""
    return name.startswith(".") and name.endswith(_DRAFT)


def _new_file(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    mode = file_mode()
    descriptor = os.open(path, flags, mode)
    os.fchmod(descriptor, mode)
    return descriptor


def _new_folder(path: Path) -> int:
    path.mkdir(0o700)  # not `folder_mode`: the folder is temporary, for this process only
    return _open_existing(path)


@contextmanager
def _draft(target: Path, new: Callable[[Path], int]) -> Iterator[Path]:
    draft, descriptor = _locked_draft(target, new)
    try:
        yield draft
    finally:
        with suppress(OSError):
            _remove(draft, descriptor)
        os.close(descriptor)


def _locked_draft(target: Path, new: Callable[[Path], int]) -> tuple[Path, int]:
    """Create a draft under the first free name, and lock it.

    Before the lock is held, another process may lock and remove the draft as abandoned. So the path
    is checked after locking; if the draft is locked or gone, the next name is tried.
    """
    vanished = 0
    for attempt in count():
        draft = target.with_name(f".{_shortened(target.name)}.{attempt}{_DRAFT}")
        try:
            descriptor = new(draft)
        except FileExistsError:
            continue
        except FileNotFoundError:
            vanished += 1
            if vanished > _MAX_VANISHED or not target.parent.is_dir():
                raise
            continue
        if locked_at_once(descriptor) and _is_at(draft, descriptor):
            return draft, descriptor
        os.close(descriptor)
    raise AssertionError


def locked_at_once(descriptor: int) -> bool:
    """Lock a file or folder; return False if another process holds the lock.

    Return True on a file system without locks, too.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks on this file system
        return True
    return True


def _shortened(name: str) -> str:
    """Return the beginning of a name, short enough for a suffix."""
    return os.fsdecode(os.fsencode(name)[:_NAME_BYTES])


def _remove_if_abandoned(path: Path) -> None:
    with suppress(OSError):
        descriptor = _open_existing(path)
        try:
            if os.fstat(descriptor).st_uid == os.geteuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path, descriptor)
        finally:
            os.close(descriptor)


def _open_existing(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _remove(path: Path, descriptor: int) -> None:
    """Remove a locked draft, unless its path now leads to another file."""
    if not _is_at(path, descriptor):
        return
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _is_at(path: Path, descriptor: int) -> bool:
    """Return True if a path still leads to the file of a descriptor."""
    with suppress(FileNotFoundError):
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    return False
