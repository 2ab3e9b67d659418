"""Backup: a copy of the log while it is in use."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from controlplane.core.order import Ends
from controlplane.logs.log import LogCorrupt, LogNotUsable, LogUnavailable
from controlplane.logs.sqlite.checksums import DamagedRecord
from controlplane.logs.sqlite.files import place
from controlplane.logs.sqlite.reader import all_ends, check_all
from controlplane.private_files import draft_folder, remove_abandoned, sync_file

STEP_PAGES = 4_096
"""Pages that are copied before the next check for a cancellation: 32 MiB."""

STEP_INSTRUCTIONS = 100_000
"""Instructions of SQLite before the next such check, while the copy is checked: some 10 ms."""


def back_up(
    connection: sqlite3.Connection, source: Path, path: Path, stopped: Callable[[], bool]
) -> Ends:
    """Copy the current state to a new file, which appears only after the copy has been checked.

    Return the end offsets of the copy. Once `stopped` is true, raise an error and leave no file.

    Raises:
        LogNotUsable: the file exists.
        LogUnavailable: the file cannot be created.
        LogCorrupt: the source is damaged, or the copy is wrong.
    """
    try:
        _check_free(path)  # fail before a long copy, not after it
        remove_abandoned(path.parent)
        with draft_folder(path) as folder:
            draft = folder / path.name
            before = all_ends(connection)
            _copy(connection, draft, stopped)
            ends = _check(draft, source, stopped)
            check_ends(source, before, ends, all_ends(connection))
            sync_file(draft)  # takes longer than what follows
            _check_wanted(stopped)
            place(draft, path)
            return ends
    except FileExistsError:
        message = f"{path} exists already: name a file that does not exist"
        raise LogNotUsable(message) from None
    except OSError as error:
        message = f"The backup {path} cannot be created ({error.strerror or error}): check that its"
        raise LogUnavailable(f"{message} directory exists, is writable, and has room") from error


def _check_free(path: Path) -> None:
    if path.exists():
        raise FileExistsError


def _check_wanted(stopped: Callable[[], bool]) -> None:
    if stopped():
        raise LogUnavailable("the backup was cancelled: repeat it")


def _copy(connection: sqlite3.Connection, draft: Path, stopped: Callable[[], bool]) -> None:
    """Copy in steps, in one read transaction: else each append would restart the copy."""
    with closing(sqlite3.connect(draft, isolation_level=None)) as target:
        connection.execute("BEGIN")
        try:
            all_ends(connection)  # the transaction begins with its first query
            connection.backup(target, pages=STEP_PAGES, progress=lambda *_: _check_wanted(stopped))
        except sqlite3.OperationalError as error:
            # Reported as an error of the target, which is usually full or read-only. Most sources
            # that are unreadable have failed earlier, when they were opened.
            raise OSError(str(error)) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def _check(draft: Path, source: Path, stopped: Callable[[], bool]) -> Ends:
    """Check every page and every record: the copy includes damaged ones unchanged.

    Return the end offsets of the copy.
    """
    with closing(sqlite3.connect(draft, isolation_level=None)) as copy:
        copy.set_progress_handler(stopped, STEP_INSTRUCTIONS)
        (verdict,) = copy.execute("PRAGMA quick_check(1)").fetchone()
        if verdict == "ok":
            try:
                check_all(copy)
                return all_ends(copy)
            except DamagedRecord as damage:
                verdict = str(damage)
    damage_text = " ".join(verdict.split())
    raise LogCorrupt(f"The log {source} is damaged ({damage_text}): go back to an earlier backup")


def check_ends(source: Path, before: Ends, copied: Ends, after: Ends) -> None:
    """Raise `LogCorrupt` unless the copy's end offsets lie between those before and after it.

    End offsets only grow, so a copy of any instant in between passes.
    """
    if not (_within(before, copied) and _within(copied, after)):
        raise LogCorrupt(
            f"The copy of {source} does not end where the log did when it was copied: check disk "
            "and memory of this machine, and try again"
        )


def _within(low: Ends, high: Ends) -> bool:
    return all(
        len(ends) <= len(high.get(topic, ())) and all(map(int.__le__, ends, high[topic]))
        for topic, ends in low.items()
    )
