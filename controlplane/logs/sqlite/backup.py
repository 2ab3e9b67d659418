"""A copy of the log while it is in use."""

import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

from controlplane.logs.log import LogNotUsable, LogUnavailable
from controlplane.logs.sqlite.files import place


def back_up(connection: sqlite3.Connection, path: Path) -> None:
    """Copy everything as of now to a new file, which appears when it is complete.

    Raises `LogNotUsable` if there is a file already, `LogUnavailable` if none can be made.
    """
    try:
        with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            made = Path(folder, path.name)
            _copy(connection, made)
            place(made, path)
    except FileExistsError:
        message = f"There is a file {path} already: name one that is not there"
        raise LogNotUsable(message) from None
    except OSError as error:
        message = f"The backup {path} cannot be made ({error.strerror}): check that its directory"
        raise LogUnavailable(f"{message} is there, may be written, and has room") from error


def _copy(connection: sqlite3.Connection, made: Path) -> None:
    """All at once: in steps, every append of another process would start it from the beginning."""
    target = sqlite3.connect(made, isolation_level=None)
    try:
        connection.backup(target)
    finally:
        target.close()
