"""Files of dumps, plain or gzipped: detection of the format, and reading of all lines."""

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import IO, NamedTuple, cast

from controlplane.core.text.file_errors import unreadable
from controlplane.core.topic_names import is_legal
from controlplane.logs.dumps.console import ConsoleReader
from controlplane.logs.dumps.dump import Collector, Dump, DumpLine, DumpReader, Problem
from controlplane.logs.dumps.histories import HistoriesReader
from controlplane.logs.dumps.kcat import KcatReader
from controlplane.logs.log import LogNotUsable

FORMATS: dict[str, Callable[[bytes], bool]] = {
    reader.format: reader.recognises for reader in (HistoriesReader, KcatReader, ConsoleReader)
}
"""Formats by name, each with a function that recognises its lines."""

SAMPLE_LINES = 20
"""Number of first lines that show the format: warnings of a tool may precede the records."""


LINE_BYTES_MAX = 128 * 1024 * 1024
"""Maximum bytes of a line. Kafka's default limit of a record is 1 MiB, and JSON may need six bytes
for one. A file without line breaks must not fill the memory."""

_GZIP = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class _CutOff(Exception):
    """A compressed file is damaged or incomplete; the lines before the damage were read."""


class _ConsoleFacts(NamedTuple):
    """Options for facts that the output of the console consumer may lack."""

    topic: str | None
    partition: int
    null: str


def read_dump(  # noqa: PLR0913 - options, by name only
    path: Path,
    *,
    format: str | None = None,  # noqa: A002 - name of the option
    topic: str | None = None,
    partition: int = 0,
    null: str = "null",
    stopped: Callable[[], bool] = lambda: False,
) -> Dump:
    """Read a whole file of records.

    Args:
        path: the file, plain or gzipped.
        format: a name in `FORMATS`; default: detected from the first lines.
        topic: topic of the records, for a format that does not contain it (`console`).
        partition: partition of the records, if the lines do not contain it.
        null: text that the console consumer printed for null (its `null.literal`).
        stopped: the reading ends early once this is true; the result is then useless.

    Raises:
        LogNotUsable: the file is missing, empty, or holds neither a record nor a description. Or
            the format is unknown, or an option is missing.
    """
    lines = _read_lines(path)
    try:
        head = list(islice(lines, SAMPLE_LINES))
    except _CutOff as error:
        raise LogNotUsable(f"{path} is damaged ({error}): compress or copy it again") from error
    sample = [line.text for line in head if line.text.strip()]
    facts = _ConsoleFacts(topic, partition, null)
    if not sample:
        raise LogNotUsable(f"{path} begins with blank lines: remove them, or name another file")
    name = format or detect(path, sample)
    reader = _reader(name, sample, path, facts)
    collector = Collector(reader)
    try:
        for line in chain(head, lines):
            if stopped():
                break
            collector.add(line)
    except _CutOff as error:
        collector.problem(
            Problem(collector.lines + 1, f"is missing, and so are all later lines: {error}")
        )
    return _not_empty(path, collector.dump())


def detect(path: Path, sample: Sequence[bytes]) -> str:
    """Return the format of the first lines.

    Raises:
        LogNotUsable: no format matches.
    """
    for line in sample:
        for name, recognises in FORMATS.items():
            if recognises(line):
                return name
    raise LogNotUsable(
        f"{path} has no known format: convert it, or give its format with --format ({_NAMES}). "
        "Known formats are recorded histories, kcat -J, and kafka-console-consumer with "
        "print.timestamp=true and print.key=true"
    )


_NAMES = ", ".join(FORMATS)


def _reader(name: str, sample: Sequence[bytes], path: Path, facts: _ConsoleFacts) -> DumpReader:
    if name not in FORMATS:
        raise LogNotUsable(f"{name!r} is no format of a dump: use one of {_NAMES}")
    if name == HistoriesReader.format:
        return HistoriesReader()
    if name == KcatReader.format:
        return KcatReader()
    if facts.topic and not is_legal(facts.topic):
        raise LogNotUsable(f"{facts.topic!r} is no topic name: name the topic that was dumped")
    if not facts.topic:
        raise LogNotUsable(f"{path} does not tell its topic: name it with --topic")
    return ConsoleReader(sample, facts.topic, facts.partition, facts.null)


def _not_empty(path: Path, dump: Dump) -> Dump:
    """Return the dump; raise `LogNotUsable` if it has problems or remarks, but no record.

    A file of another kind must not count as an empty log. A description alone is an empty log.
    """
    if dump.entries or not (dump.problems or dump.remarks):
        return dump
    remarks = (Problem(remark.line, f"is a remark of {remark.tool}") for remark in dump.remarks)
    first = next(chain(dump.problems, remarks))
    raise LogNotUsable(
        f"{path} was read as {dump.format}, but none of its lines is a record: "
        f"line {first.line} {first.reason}"
    )


# --- lines ---------------------------------------------------------------------------------------


def _read_lines(path: Path) -> Iterator[DumpLine]:
    """Yield all lines of a file.

    Raises:
        LogNotUsable: the file cannot be read, is empty, is UTF-16, or has too long a line.
        _CutOff: the compressed data is damaged or ends early.
    """
    try:
        with path.open("rb") as file:
            start = file.read(len(_UTF8_MARK))
            _check_start(path, start)
            file.seek(0 if start != _UTF8_MARK else len(start))
            yield from _unpacked_lines(path, file, is_gzip=start.startswith(_GZIP))
    except OSError as error:
        raise LogNotUsable(unreadable(path, error)) from error


def _check_start(path: Path, start: bytes) -> None:
    if not start:
        raise LogNotUsable(f"{path} is empty: there are no records in it, name another file")
    if start.startswith(_UTF16_MARKS):
        raise LogNotUsable(f"{path} is UTF-16 text: convert it, as by `iconv -f UTF-16 -t UTF-8`")


def _unpacked_lines(path: Path, file: IO[bytes], *, is_gzip: bool) -> Iterator[DumpLine]:
    if not is_gzip:
        yield from _lines(path, file)
        return
    with closing(gzip.GzipFile(fileobj=file)) as unpacked:
        try:
            yield from _lines(path, cast("IO[bytes]", unpacked))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise _CutOff(str(error)) from error


def _lines(path: Path, file: IO[bytes]) -> Iterator[DumpLine]:
    number = 0
    while text := file.readline(LINE_BYTES_MAX):
        number += 1
        whole = text.endswith(b"\n")
        if not whole and len(text) == LINE_BYTES_MAX:
            raise LogNotUsable(
                f"{path} is no dump (line {number} has more than {LINE_BYTES_MAX} bytes): "
                "name another file"
            )
        yield DumpLine(number, text[:-1] if whole else text, whole)
