"""Archives of recorded clusters for tests of fleets, and rows of their tables."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replay.archive.segments.segment_files import SegmentSizes
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import capture, log_of

CLUSTERS: Mapping[str, str] = {
    "aborted": "aborted-3.9",
    "life": "life-3.9",
    "mirror": "mirror-3.9",
    "odd": "odd-records-3.9",
    "roll": "roll-3.4-3.9-3.4",
}
"""Recorded histories by the name of their cluster."""


def fleet_in(folder: Path, clusters: Mapping[str, str] = CLUSTERS) -> Path:
    """Archive recorded clusters in a folder, in small segments."""
    for name, history in clusters.items():
        log = log_of(recorded_entries(history))
        capture(folder, log, name=name, sizes=SegmentSizes(40, 16))
    return folder


def damage_files(folder: Path, cluster: str, place: str = "topic=*/*") -> None:
    """Alter a byte in each file of some partitions of a cluster."""
    for path in folder.glob(f"cluster={cluster}/{place}/*.parquet"):
        content = bytearray(path.read_bytes())
        content[len(content) // 3] ^= 1
        path.write_bytes(content)


def empty_files(folder: Path) -> None:
    """Empty each file of an archive: the names stay, and every read of a file fails."""
    for path in folder.rglob("*"):
        if path.is_file():
            path.write_bytes(b"")


def rows_of(table: Any) -> list[str]:
    """Rows of an Arrow table or a Spark data frame, in a fixed order."""
    rows = table.to_pylist() if hasattr(table, "to_pylist") else table.toArrow().to_pylist()
    return sorted(repr(sorted(row.items())) for row in rows)
