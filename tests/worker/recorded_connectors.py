"""Twins in Python of the connectors that the recorded workers ran."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from controlplane.connect import ConnectError, SourceConnector, SourceRecord, SourceTask
from controlplane.connectors import FileStreamSink, FileStreamSource
from controlplane.connectors.file_access import FileAccess
from controlplane.core.releases.profiles import KIP
from controlplane.worker.connector_classes import AnyConnectorClass, ConnectorClasses
from tests.worker.recorded_mirrors import recorded_mirrors

PAGES = "lab.PagesSourceConnector"
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"

EMOJI = '\U0001f600\x1f"\\'


class PagesTask(SourceTask):
    """Writes `rows` rows of each of its `pages` pages; each poll has one row per page."""

    def start(self, config: Mapping[str, str]) -> None:
        """Read the committed row of each page; fail if the config says so."""
        self._fail = config.get("fail", "")
        if self._fail == "start":
            raise ConnectError("told to fail in task start")
        self._polls, self._rows = 0, int(config.get("rows", "5"))
        self._topics = config["topics"].split(",")
        self._is_rich = config.get("shape") == "rich"
        pages = int(config.get("pages", "3"))
        self._first = int(config["task.number"]) * pages
        self._written: dict[int, int] = {}
        for page in range(self._first, self._first + pages):
            offset = self.context.offset(self._partition(page))
            self._written[page] = 0 if offset is None else int(str(offset["row"]))

    def poll(self) -> Sequence[SourceRecord]:
        """Return the next row of each page, or fail."""
        self._polls += 1
        if self._fail == f"poll:{self._polls}":
            raise ConnectError(f"told to fail in poll {self._polls}")
        pages = [page for page, rows in self._written.items() if rows < self._rows]
        return [self._next_row(page) for page in pages]

    def _next_row(self, page: int) -> SourceRecord:
        row = self._written[page] = self._written[page] + 1
        return SourceRecord(
            topic=self._topics[page % len(self._topics)],
            value=f"page {page} row {row}",
            source_partition=self._partition(page),
            source_offset=self._offset(row),
        )

    def _partition(self, page: int) -> dict[str, Any]:
        if not self._is_rich:
            return {"page": page}
        names = {"schéma": "öffentlich/ä", "shard": page}
        is_replica = (page - self._first) % 2 == 0
        return {**names, "replica": is_replica, "emoji": EMOJI, "none": None}

    def _offset(self, row: int) -> dict[str, Any]:
        rich = {"ratio": 0.5, "big": 1e10, "last": row == self._rows, "note": None}
        return {"row": row} | (rich if self._is_rich else {})


class PagesSource(SourceConnector):
    """Makes as many tasks as allowed; fails where the config says so."""

    java_name = PAGES
    version = "1.0"
    task = PagesTask

    def start(self, config: Mapping[str, str]) -> None:
        """Fail if the config says so."""
        if config.get("fail") == "connector":
            raise ConnectError("told to fail in connector start")
        self._config = config

    def task_configs(self, limit: int) -> Sequence[Mapping[str, str]]:
        """Return a config for each task, or fail."""
        if self._config.get("fail") == "tasks":
            raise ConnectError("told to fail in task configs")
        return [{**self._config, "task.number": str(number)} for number in range(limit)]

    def stop(self) -> None:
        """Do nothing: the source holds nothing."""


class FolderAccess(FileAccess):
    """File access that maps a path in a config to the file of that name in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        super().__init__((self._folder,))

    def path(self, text: str) -> Path:
        """Return the file with this name."""
        return self._folder / Path(text).name


class EarlierFileSource(FileStreamSource):
    """Makes the task configs that the file source of 2.8 made."""

    def split(self, config: Mapping[str, str], limit: int) -> Sequence[Mapping[str, str]]:
        """Return file, topic and batch size."""
        del limit
        return [{"file": config["file"], "topic": config["topic"], "batch.size": "2000"}]


class EarlierFileSink(FileStreamSink):
    """Makes the task configs that the file sink of 2.8 made."""

    def split(self, config: Mapping[str, str], limit: int) -> Sequence[Mapping[str, str]]:
        """Return the file; Connect adds the topics."""
        return [{"file": config["file"]}] * limit


def recorded_classes(folder: Path, release: str = KIP) -> ConnectorClasses:
    """Twins by their recorded class names; files lie in this folder."""
    earlier = release.startswith("2.")
    twins: Mapping[str, type[FileStreamSource | FileStreamSink]] = {
        FILE_SOURCE: EarlierFileSource if earlier else FileStreamSource,
        FILE_SINK: EarlierFileSink if earlier else FileStreamSink,
    }
    named: dict[str, AnyConnectorClass] = {PAGES: PagesSource}
    named |= recorded_mirrors()
    for java_name, twin in twins.items():
        fields: dict[str, Any] = {"access": FolderAccess(folder), "java_name": java_name}
        if earlier:
            # Our worker does not store declared defaults; the worker of 2.8 stored them.
            fields["config"] = ()
        named[java_name] = type(java_name.rpartition(".")[2], (twin,), fields)
    return ConnectorClasses(named=named)
