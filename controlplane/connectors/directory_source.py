"""Lines of all files in a directory: the example of KIP-910.

The offset of a deleted file is removed, and a heartbeat is committed even if no line arrives.
Neither is possible with records alone.
"""

from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Any

from controlplane.connect import ConnectError, Source, SourceRun, key
from controlplane.connect.data import STRING
from controlplane.connect.source import OffsetPairs
from controlplane.connectors.file_access import FileConnector

LOOK_AGAIN_S = 0.5
"""Pause before the directory is looked at again."""


class DirectorySource(FileConnector, Source):
    """Each line of each file in a directory is a record."""

    exactly_once = True
    config = (
        key("directory", doc="Directory whose files are read"),
        key("topic", doc="Topic of the records", valid="non-empty string"),
        key("heartbeat.seconds", "INT", 10, "Age of the heartbeat that is committed anew"),
    )

    def __init__(self) -> None:
        self._read: dict[str, int] = {}
        """Lines that were read, by file."""
        self._beat = 0.0

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Yield new lines of the files in the order of their names."""
        folder = self.access.path(task.config["directory"])
        while True:
            for path in sorted(self._files(folder)):
                partition = {"file": path.name}
                if path.name not in self._read:
                    self._read[path.name] = int(
                        str((task.offset(partition) or {"line": 0})["line"])
                    )
                for text in _whole_lines(path)[self._read[path.name] :]:
                    self._read[path.name] += 1
                    offset = {"line": self._read[path.name]}
                    yield task.record(text, partition, offset, key=path.name, key_schema=STRING)
            yield task.idle(LOOK_AGAIN_S)

    def _files(self, folder: Path) -> list[Path]:
        """Return the files of a directory; links to other folders are left out.

        Raises:
            ConnectError: it cannot be read.
        """
        try:
            return [
                path for path in folder.iterdir() if path.is_file() and self.access.allows(path)
            ]
        except OSError as failure:
            raise ConnectError(f"The directory {folder} cannot be read: {failure}") from failure

    def update_offsets(self, task: SourceRun, offsets: OffsetPairs) -> OffsetPairs | None:
        """Remove the offsets of deleted files, and keep a heartbeat."""
        del offsets
        folder = self.access.path(task.config["directory"])
        present = {path.name for path in self._files(folder)}
        updates: list[Any] = [
            ({"file": name}, None) for name in [*self._read] if name not in present
        ]
        for partition, _ in updates:
            del self._read[partition["file"]]
        if time() - self._beat >= int(task.config["heartbeat.seconds"]):
            self._beat = time()
            updates.append(({"directory": folder.name}, {"seen": int(self._beat)}))
        return updates


def _whole_lines(path: Path) -> list[str]:
    """Return the lines whose end has been written; none of a file that has gone."""
    try:
        text = path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return []
    return text.split("\n")[:-1]
