"""Content of a folder, for tests that check that it is unchanged."""

from pathlib import Path


def everything_below(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder with its bytes; None for a directory."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def names(folder: Path) -> list[str]:
    """Return the sorted names of a folder's files."""
    return sorted(path.name for path in folder.iterdir())
