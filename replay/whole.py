"""Files that are there whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.private_files import replacing
from replay.errors import NotWritable


def check_place(file: Path) -> None:
    """Look whether a file can be written, before much is done for it.

    Raises:
        NotWritable: it cannot.
    """
    place = file.resolve()
    if place.is_dir():
        raise NotWritable(f"{file} cannot be written (it is a directory): name a file")
    if not place.parent.is_dir():
        raise NotWritable(f"{file} cannot be written ({place.parent} is no directory): make it")
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        raise NotWritable(f"{file} cannot be written (permission denied): check it")


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
        why = error.strerror or error
        raise NotWritable(f"{file} cannot be written ({why}): check it") from None
