"""Check that `git diff` will show nothing but what rewriting changes."""

import subprocess
from collections.abc import Iterable
from pathlib import Path


class NotClean(ValueError):
    """Rewriting would mix with changes that git has not seen. The message says what to do."""


def check_clean(paths: Iterable[Path]) -> None:
    """Check that files are as git has them, committed or staged. Outside of git all is well.

    Raises:
        NotClean: a file is changed or new.
    """
    dirty = [path for path in paths if _dirty(path)]
    if dirty:
        more = f" and {len(dirty) - 1} more" if len(dirty) > 1 else ""
        raise NotClean(
            f"{dirty[0]}{more}: changed and not yet in git, so `git diff` could not show what "
            "rewriting changes: commit, or `git add`, first"
        )


def _dirty(path: Path) -> bool:
    """True if the file differs from git's index, or is not in it."""
    answer = _git(path, "status", "--porcelain=v1", "--ignored", "--", path.name)
    return answer is not None and answer[1:2] not in ("", " ")


def _git(path: Path, *arguments: str) -> str | None:
    """Output of git in the folder of a file; None: no git, or no work tree."""
    try:
        answer = subprocess.run(  # noqa: S603 - a list, no shell; the path is one argument
            ["git", *arguments],  # noqa: S607 - the user's git, wherever it is
            cwd=path.parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return answer.stdout if answer.returncode == 0 else None
