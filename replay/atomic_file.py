"""Files that appear complete or not at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.core.text.file_errors import unwritable
from controlplane.private_files import replacing
from replay.errors import NotWritable


def check_outside_clusters(place: str) -> None:
    """Refuse a path or URL in a folder `cluster=…`: its files would count as an archive's.

    Raises:
        NotWritable: the place lies in such a folder, or is one.
    """
    if any(part.startswith("cluster=") for part in place.split("/")):
        raise NotWritable(
            f"{place} lies in a folder cluster=…, as those of an archive are named: name a folder "
            "outside of the archive"
        )


def check_place(file: Path) -> None:
    """Check that a file can be written, before expensive work starts.

    Raises:
        NotWritable: the file cannot be written.
    """
    try:
        # The path of a pipe behind `/dev/stdout` does not exist.
        _check(file, file if file.exists() else file.resolve())
    except RuntimeError:  # up to Python 3.12, for a circle of links
        raise NotWritable(unwritable(file, _error(errno.ELOOP))) from None
    except OSError as error:
        raise NotWritable(unwritable(file, error)) from None


def _check(file: Path, place: Path) -> None:
    if place.is_dir():
        raise _error(errno.EISDIR)
    if not place.parent.is_dir():
        raise NotWritable(f"{file} cannot be written ({place.parent} is no directory): make it")
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        raise _error(errno.EACCES)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@contextmanager
def atomic_write(file: Path) -> Iterator[Path]:
    """Yield a draft that replaces the file when the block ends without an error.

    A symbolic link stays; its target is replaced. A device or a pipe is written directly.

    Raises:
        NotWritable: the file cannot be written.
    """
    try:
        with replacing(file) as draft:
            yield draft
    except OSError as error:
        raise NotWritable(unwritable(file, error)) from None
