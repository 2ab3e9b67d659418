"""The sentence about a file that cannot be read: the same wherever a file is named."""

import errno
from pathlib import Path

from controlplane.core.safe_text import safe

_RIGHTS = "check the access rights of the file and its directory"
_ADVICE = {
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.ENAMETOOLONG: "check the path",
    errno.EISDIR: "name a file in it",
    errno.ELOOP: "name the file that the symbolic link should lead to",
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
}


def unreadable(path: Path | str, failure: OSError, advice: str = "") -> str:
    """Say that a file cannot be read, why, and what to do; `advice` replaces the usual one."""
    told = advice or _ADVICE.get(failure.errno or 0, "check the file and its disk")
    return f"{safe(str(path))} cannot be read ({failure.strerror or failure}): {told}"
