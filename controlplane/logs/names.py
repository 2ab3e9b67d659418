"""Names of logs: `kafka://host:port`, `sqlite:///path`, or the path of a file."""

import os
import re
from pathlib import Path

from controlplane.core.text.file_errors import unreadable
from controlplane.logs.log import LogNotUsable

KAFKA = "kafka://"
SQLITE = "sqlite://"
_MAGIC = b"SQLite format 3\0"

LOG_FORMS = "kafka://host:port, sqlite:///path or the path of a file"
"""Forms of a log's name, for messages."""
_IN_MEMORY = frozenset({"memory:", ":memory:"})
_BROKERS = re.compile(r"[\w.-]+:\d{1,5}(,[\w.-]+:\d{1,5})*", re.ASCII)


def is_cluster(where: str) -> bool:
    """Return True for the name of a live cluster."""
    return where.startswith(KAFKA)


def check_ours(where: str) -> None:
    """Raise `LogNotUsable` for a Kafka cluster: commands for it go to its workers."""
    if is_cluster(where):
        raise LogNotUsable(
            f"{without_login(where)} belongs to a Kafka cluster: name an embedded log, or send the "
            "commands to a worker of the cluster"
        )


def brokers_of(where: str) -> str:
    """Return the brokers in the name of a cluster; empty if the name has none.

    Raises:
        LogNotUsable: the name contains a login. The message leaves the login out.
    """
    brokers = where.removeprefix(KAFKA)
    if "@" in brokers:
        raise LogNotUsable(
            f"{without_login(where)} is given with a login, which others could read: "
            "give kafka://host:port, and the login in a .properties file (sasl.jaas.config)"
        )
    return brokers


def without_login(where: str) -> str:
    """Return the name of a log, or the URL of a worker, without the login, for display.

    A password may hold each of `@/?#`, so everything before the last `@` is left out.
    """
    scheme, separator, rest = where.partition("://")
    if not separator or scheme == "sqlite" or os.sep in scheme:
        return where  # the path of a file
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def path_of(where: str) -> Path:
    """Return the path in `sqlite:///path` (absolute in `sqlite:////path`), or the text itself.

    Raises:
        LogNotUsable: an unknown scheme, a log in memory, or an empty name.
    """
    if not where.strip():
        raise LogNotUsable(f"no log is named: give {LOG_FORMS}")
    scheme, separator, rest = where.partition("://")
    if {where, rest.removeprefix("/")} & _IN_MEMORY:
        raise LogNotUsable(
            f"{where} is a log in memory, which ends with its process: give {LOG_FORMS}. "
            'A program can open a log in memory with ControlPlane.open("memory:")'
        )
    if not separator or os.sep in scheme:
        return Path(where)
    if scheme != "sqlite" or not rest.strip("/"):
        raise LogNotUsable(f"{without_login(where)!r} names no log: give {LOG_FORMS}")
    return Path(rest.removeprefix("/"))


def is_embedded(where: str) -> bool:
    """Return True for an embedded log: by the scheme, or because the file is a SQLite file."""
    if is_cluster(where):
        return False
    return where.startswith(SQLITE) or _magic(path_of(where)) == _MAGIC


class NoSuchLog(LogNotUsable):
    """The path of a log leads to no file."""


def check_file(path: Path) -> None:
    """Raise `LogNotUsable` unless the path leads to a readable file with content."""
    try:
        _check_kind(path)
        with path.open("rb") as file:
            empty = not file.read(1)
    except OSError as failure:
        raise LogNotUsable(unreadable(path, failure)) from None
    if empty:
        raise LogNotUsable(f"{path} is empty: there is no log in it, name another file")


def _check_kind(path: Path) -> None:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise NoSuchLog(f"{path} does not exist: {_advice(path)}") from None
    if path.is_dir():
        raise LogNotUsable(f"{path} is a directory: name a file in it")
    if not path.is_file():
        raise LogNotUsable(f"{path} is no regular file: write its contents to one first")


def _advice(path: Path) -> str:
    """Suggest a correction for a path without a file."""
    if _BROKERS.fullmatch(str(path)):
        return f"for a cluster say {KAFKA}{path}"
    other = Path(str(path).removeprefix("/") if path.is_absolute() else f"/{path}")
    if other.is_file():
        return f"check the path (sqlite:///{other} exists; three slashes begin a relative path)"
    return "check the path"


def _magic(path: Path) -> bytes:
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(len(_MAGIC))
    except OSError:
        return b""  # the caller opens the file next and reports the error
