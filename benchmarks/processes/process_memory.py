"""Peak memory of a process and its descendants, as Linux counts it; 1 MB is 2^20 bytes here."""

from collections.abc import Iterator
from pathlib import Path


def family(pid: int) -> Iterator[int]:
    """A process and all its descendants."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from family(int(child))


def peak_mb(pid: int) -> float:
    """Peak resident memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    lines = (line.split() for line in status.splitlines() if line.startswith("VmHWM"))
    return sum(int(line[1]) for line in lines) / 1_024


def program(pid: int) -> str:
    """Name of the program that a process runs."""
    return Path(f"/proc/{pid}/comm").read_text().strip()
