"""Sentences about unusable files, the same in every command."""

import errno
from typing import Final

from controlplane.core.text.safe_text import bytes_text, safe

_RIGHTS: Final = "check the access rights of the file and its directory"
_ADVICE: Final = {
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "name a file",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`)",
    errno.ELOOP: "check where the symbolic link leads",
    errno.ENAMETOOLONG: "check the path",
    errno.ENOSPC: "make room",
    errno.EROFS: "name a file elsewhere",
}
"""Remedies by error number; others: `_RIGHTS`."""


def unreadable(path: object, error: OSError) -> str:
    """Sentence: a file cannot be read, why, and what to do."""
    return f"{path} cannot be read {because(error)}"


def unwritable(path: object, error: OSError) -> str:
    """Sentence: a file cannot be written, why, and what to do."""
    return f"{path} cannot be written {because(error)}"


def inaccessible(error: OSError) -> str:
    """Sentence: a file or directory cannot be used; the error names it."""
    name = error.filename
    path = bytes_text(name) if isinstance(name, bytes) else str(name)
    return f"{safe(path)} cannot be used {because(error)}"


def because(error: OSError) -> str:
    """End of a sentence: why a file cannot be used, and what to do."""
    why = error.strerror or str(error).partition("\n")[0] or type(error).__name__
    return f"({why}): {_ADVICE.get(error.errno or 0, _RIGHTS)}"
