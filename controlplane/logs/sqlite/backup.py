"""Backup: a copy of the log while it is in use."""

import sqlite3
from contextlib import closing
from pathlib import Path

from controlplane.logs.log import LogCorrupt, LogNotUsable, LogUnavailable
from controlplane.logs.sqlite.checksums import DamagedRecord
from controlplane.logs.sqlite.files import place
from controlplane.logs.sqlite.reader import check_all
from controlplane.private_files import draft_folder, remove_abandoned


def back_up(connection: sqlite3.Connection, source: Path, path: Path) -> None:
    """Copy the current state to a new file, which appears only after the copy has been checked.

    Raises:
        LogNotUsable: the file exists.
        LogUnavailable: the file cannot be created.
        LogCorrupt: the source is damaged.
    """
    try:
        _check_free(path)  # fail before a long copy, not after it
        remove_abandoned(path.parent)
        with draft_folder(path) as folder:
            draft = folder / path.name
            _copy(connection, draft)
            _check(draft, source)
            place(draft, path)
    except FileExistsError:
        message = f"{path} exists already: name a file that does not exist"
        raise LogNotUsable(message) from None
    except OSError as error:
        message = f"The backup {path} cannot be created ({error.strerror or error}): check that its"
        raise LogUnavailable(f"{message} directory exists, is writable, and has room") from error


def _check_free(path: Path) -> None:
    if path.exists():
        raise FileExistsError


def _copy(connection: sqlite3.Connection, draft: Path) -> None:
    """Copy in a single step: in steps, each append of another process would restart the copy."""
    with closing(sqlite3.connect(draft, isolation_level=None)) as target:
        try:
            connection.backup(target)
        except sqlite3.OperationalError as error:
            # Usually the target is full or read-only: most unreadable sources fail when opened.
            raise OSError(str(error)) from error


def _check(draft: Path, source: Path) -> None:
    """Check every page and every record: the copy includes damaged ones unchanged."""
    with closing(sqlite3.connect(draft, isolation_level=None)) as copy:
        (verdict,) = copy.execute("PRAGMA quick_check(1)").fetchone()
        if verdict == "ok":
            try:
                check_all(copy)
            except DamagedRecord as damage:
                verdict = str(damage)
    if verdict != "ok":
        damage_text = " ".join(verdict.split())
        raise LogCorrupt(
            f"The log {source} is damaged ({damage_text}): go back to an earlier backup"
        )
