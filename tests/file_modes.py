"""Modes of files: which files other users may read."""

import stat
from pathlib import Path


def modes(folder: Path) -> dict[str, int]:
    """Mode of everything beneath a folder."""
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode)
        for path in sorted(folder.rglob("*"))
    }


def exposed(folder: Path) -> list[str]:
    """Files and folders beneath a folder that other users may use."""
    return [f"{name} {mode:o}" for name, mode in modes(folder).items() if mode & 0o077]
