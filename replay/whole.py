"""Files that are there whole or not at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.core.file_sentences import unwritable
from controlplane.private_files import replacing
from replay.errors import NotWritable


def check_place(file: Path) -> None:
    """Look whether a file can be written, before much is done for it.

    Raises:
        NotWritable: it cannot.
    """
    try:
        _check(file, file.resolve())
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
def whole(file: Path) -> Iterator[Path]:
    """Where to write what is to be a file: it takes its name when all of it is written.

    Of a link, what it leads to is written; a device or a pipe as it is.

    Raises:
        NotWritable: it cannot be written.
    """
    try:
        with replacing(file) as draft:
            yield draft
    except OSError as error:
        raise NotWritable(unwritable(file, error)) from None
