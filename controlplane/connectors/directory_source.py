"""Lines of all files in a directory: the example of KIP-910.

The offset of a deleted file is removed, and a heartbeat is committed even if no line arrives.
Neither is possible with records alone. Both need `--release kip`, the default: with another release
the runtime does not call `update_offsets`.
"""

from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Any

from controlplane.connect import ConnectError, Source, SourceRun, key
from controlplane.connect.data import STRING
from controlplane.connect.source import OffsetPairs
from controlplane.connectors.file_access import FileConnector
from controlplane.connectors.growing_file import GrowingFile
from controlplane.connectors.numbered_offsets import check_numbers, committed_number

LOOK_AGAIN_S = 0.5
"""Pause before the directory is looked at again."""

REMOVED_KEPT = 10_000
"""Number of deleted files whose names are kept.

The log may still have their offsets, which a new file of the same name must not use.
"""


class DirectorySource(FileConnector, Source):
    """Each line of each file in a directory is a record."""

    exactly_once = True
    config = (
        key("directory", doc="Directory whose files are read"),
        key("topic", doc="Topic of the records", valid="non-empty string"),
        key("heartbeat.seconds", "INT", 10, "Seconds between two heartbeats"),
    )

    def __init__(self) -> None:
        self._files: dict[str, GrowingFile] = {}
        self._removed: dict[str, None] = {}
        """Deleted files, the last one at the end. If made again, they are read from the start."""
        self._beat = 0.0

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Yield new lines of the files in the order of their names."""
        while True:
            for path in sorted(self._paths(task)):
                partition = {"file": path.name}
                file = self._files.get(path.name) or self._begun(task, path.name)
                for text in file.new_lines(self.access, path):
                    # A file may be deleted while its lines are read. During a `yield`,
                    # `update_offsets` then removes the file from `_files`, and its offset from the
                    # log. But the next line commits an offset of the file again. So the file is put
                    # back: the next `update_offsets` removes it, and this offset, too.
                    self._files[path.name] = file
                    offset = {"line": file.lines}
                    yield task.record(text, partition, offset, key=path.name, key_schema=STRING)
            yield task.idle(LOOK_AGAIN_S)

    def _begun(self, task: SourceRun, name: str) -> GrowingFile:
        """Return a file to read from the committed offset on.

        A file that was deleted and made again is read from its start.
        """
        removed = name in self._removed
        line = 0 if removed else committed_number(task, {"file": name}, "line")
        self._removed.pop(name, None)
        self._files[name] = GrowingFile(line)
        return self._files[name]

    def _paths(self, task: SourceRun) -> list[Path]:
        """Return the files of the directory, without links out of the allowed folders.

        Raises:
            ConnectError: it cannot be read, or lies outside the allowed folders.
        """
        folder = self.access.path(task.config["directory"])
        try:
            return [
                path for path in folder.iterdir() if path.is_file() and self.access.allows(path)
            ]
        except OSError as failure:
            raise ConnectError(f"The directory {folder} cannot be read: {failure}") from failure

    @staticmethod
    def alter_offsets(config: Any, offsets: OffsetPairs) -> bool:
        """Accept lines of files, and times of heartbeats (KIP-875).

        Raises:
            ValueError: an offset is refused.
        """
        del config
        return check_numbers(offsets, {"file": (str, "line"), "directory": (str, "seen")})

    def update_offsets(self, task: SourceRun, offsets: OffsetPairs) -> OffsetPairs | None:
        """Remove the offsets of deleted files, and keep a heartbeat."""
        del offsets
        present = {path.name for path in self._paths(task)}
        deleted = [name for name in self._files if name not in present]
        for name in deleted:
            del self._files[name]
            self._removed[name] = None
        while len(self._removed) > REMOVED_KEPT:
            del self._removed[next(iter(self._removed))]
        updates: list[Any] = [({"file": name}, None) for name in deleted]
        if time() - self._beat >= int(task.config["heartbeat.seconds"]):
            self._beat = time()
            folder = self.access.path(task.config["directory"])
            updates.append(({"directory": folder.name}, {"seen": int(self._beat)}))
        return updates
