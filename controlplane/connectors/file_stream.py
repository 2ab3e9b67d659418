"""Kafka's first connectors: lines of a file to a topic, and records of topics to a file.

Settings, offsets and values are those of Kafka's `FileStreamSourceConnector` and
`FileStreamSinkConnector`. Without `file` the sink writes to standard output, and the source fails.

The position counts bytes. Kafka counts characters, but takes the position as bytes when a task
starts. So in a file with text beyond ASCII, Kafka repeats or cuts lines after a restart.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO, Any

from controlplane.connect import (
    ConnectError,
    Sink,
    SinkRecord,
    SinkTaskContext,
    Source,
    SourceRun,
    key,
)
from controlplane.connect.data import STRING
from controlplane.connect.data.string_forms import string_form
from controlplane.connect.errors import DataError
from controlplane.connect.source import OffsetPairs
from controlplane.connectors.file_access import FileConnector, check_line_length, file_stamp

FILENAME, POSITION = "filename", "position"
"""Fields of the source partition and of the offset."""

LOOK_AGAIN_S = 1.0
"""Pause before a file is looked at again for new lines."""

CHUNK_BYTES = 65_536
"""Limit of one read: a file may have no line feed at all."""

_LINE = re.compile(rb"([^\r\n]*+)(?:\r\n|\n|\r(?=[\s\S]))")
"""A line and its end, as in `FileStreamSourceTask#extractLine`.

A carriage return ends a line only once the next character is there. If that is a line feed, it
belongs to the same end."""


class FileStreamSource(FileConnector, Source):
    r"""Each line of a file is a record; the offset is the position in bytes after it.

    A line ends with `\n`, `\r` or `\r\n`, and counts once its end has been written. The source
    waits for a file that does not exist yet.
    """

    exactly_once = True
    config = (
        key("file", default=None, doc="Source filename.", valid=()),
        key("topic", doc="The topic to publish data to", valid="non-empty string"),
        key("batch.size", "INT", 2_000, "Maximum number of records in one batch", valid="[1,...]"),
    )

    _stamp: tuple[int, ...] = ()
    """Stamp of the file (`file_stamp`), taken before it was last read to its end."""

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Yield the lines from the committed position on."""
        name = task.config.get("file")
        if not name:
            raise ConnectError("The source reads no standard input here: set file")
        path, partition = self.access.path(name), {FILENAME: name}
        position = _position(task, partition)
        most = int(task.config["batch.size"])
        while True:
            lines = list(self._lines(path, position, most))
            for text, end in lines:
                position = end
                yield task.record(text, partition, {POSITION: end}, value_schema=STRING)
            if len(lines) < most:
                yield task.idle(LOOK_AGAIN_S)

    def _lines(self, path: Path, position: int, most: int) -> Iterator[tuple[str, int]]:
        """Yield whole lines from a position on, each with the position after it.

        An unchanged file is not read again. Otherwise, each call would read an incomplete last line
        from its start, and that line may be long.

        Raises:
            ConnectError: the file may not or cannot be opened, or a line is too long.
        """
        try:
            file = self.access.open(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as failure:
            raise ConnectError(f"The file {path} cannot be read: {failure.strerror}") from failure
        with file:
            stamp = file_stamp(os.fstat(file.fileno()))
            if stamp == self._stamp:
                return
            file.seek(position)
            count = 0
            for line, length in islice(lines_with_lengths(file), most):
                position += length
                count += 1
                yield line.decode("utf-8", "replace"), position
        if count < most:
            self._stamp = stamp

    @staticmethod
    def alter_offsets(config: Any, offsets: OffsetPairs) -> bool:
        """Accept valid positions if the config has the setting `file` (KIP-875).

        A partition may name another file than the config: as in Kafka, they are not compared.

        Raises:
            ValueError: the config names no file, or an offset is invalid.
        """
        if not config.get("file"):
            raise ValueError(
                "Offsets cannot be modified if the 'file' configuration is unspecified. This is "
                "because stdin is used for input and offsets are not tracked."
            )
        for partition, offset in offsets:
            if offset is not None:
                _check_offset(partition, offset)
        return True


def lines_with_lengths(file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield the complete lines from the position on, each with its length including its end.

    Raises:
        ConnectError: a line is too long.
    """
    rest, ends_with_return = bytearray(), False
    while chunk := file.readline(CHUNK_BYTES):
        if not rest and chunk.endswith(b"\n") and b"\r" not in chunk:
            yield chunk[:-1], len(chunk)
            continue
        # Chunks without an end of a line are only gathered. So a long line is searched once.
        may_end = ends_with_return or chunk.endswith(b"\n") or b"\r" in chunk
        ends_with_return = chunk.endswith(b"\r")
        rest += chunk
        if may_end:
            taken = 0
            while line := _LINE.match(rest, taken):
                taken = line.end()
                yield bytes(line[1]), taken - line.start()
            del rest[:taken]
        check_line_length(file, len(rest))


def _position(task: SourceRun, partition: dict[str, Any]) -> int:
    offset = task.offset(partition) or {POSITION: 0}
    position = offset.get(POSITION)
    if not isinstance(position, int):
        raise ConnectError(
            f"The committed offset {dict(offset)} has no position: alter or reset the offsets"
        )
    return position


def _check_offset(partition: Any, offset: Any) -> None:
    """Check an offset in Kafka's words.

    Raises:
        ValueError: it is refused.
    """
    if POSITION not in offset:
        raise ValueError("Offset objects should either be null or contain the key 'position'")
    position = offset[POSITION]
    if not isinstance(position, int) or isinstance(position, bool):
        raise ValueError(  # noqa: TRY004 - the client's fault, in Kafka's words
            "The value for the 'position' key in the offset is expected to be a Long value"
        )
    if position < 0:
        raise ValueError(
            "The value for the 'position' key in the offset should be a non-negative value"
        )
    if FILENAME not in partition:
        raise ValueError("Partition objects should contain the key 'filename'")


class FileStreamSink(FileConnector, Sink):
    """Writes the value of each record as a line."""

    config = (key("file", default=None, doc="Destination filename. If not specified, stdout."),)

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._out: IO[str] = sys.stdout
        self._failure: OSError | None = None
        """Failure of a write. It may have lost lines of earlier calls, too."""

    def start(self, task: SinkTaskContext) -> None:
        """Open the file for appending; without `file`, use standard output."""
        if name := task.config.get("file"):
            path = self.access.path(name)
            try:
                self._out = self._stack.enter_context(self.access.open(path, "a", "utf-8"))
            except OSError as failure:
                raise ConnectError(
                    f"Couldn't find or create file '{name}' for FileStreamSinkTask"
                ) from failure

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Write a line for each record."""
        del task
        try:
            self._out.writelines(f"{_printed_value(record)}\n" for record in records)
        except OSError as failure:
            self._failure = failure
            raise

    def flush(self, task: SinkTaskContext, offsets: Any) -> None:
        """Hand the lines to the system.

        Raises:
            ConnectError: a write has failed, so no offsets may be committed.
            OSError: the lines cannot be written.
        """
        del task, offsets
        if self._failure is not None:
            raise ConnectError("Lines were lost by a failed write") from self._failure
        self._out.flush()

    def stop(self, task: SinkTaskContext) -> None:
        """Close the file; standard output stays open."""
        del task
        self._stack.close()


def _printed_value(record: SinkRecord) -> str:
    """Return the value as Java's `println` shows it; a value with bytes, as Python's `str` does.

    Java would not show the content of the bytes.

    Half of a surrogate pair, which UTF-8 lacks, becomes `?`, as in Java.
    """
    try:
        text = string_form(record.value_schema, record.value)
    except DataError:
        text = str(record.value)
    return text.encode("utf-8", "replace").decode()
