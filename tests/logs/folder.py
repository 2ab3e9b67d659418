"""What lies in a folder, for tests that look whether anything has changed in it."""

from pathlib import Path


def everything_below(folder: Path) -> dict[str, bytes | None]:
    """Every file with its bytes, to see that nothing has changed; None for a directory."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def names(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(path.name for path in folder.iterdir())
