"""Formats of dumps: detection of the format, and reading of a whole file."""

from collections.abc import Callable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from controlplane.core.topic_names import is_legal
from controlplane.logs.dumps.console import ConsoleReader
from controlplane.logs.dumps.dump import Collector, Dump, DumpReader, Problem
from controlplane.logs.dumps.histories import HistoriesReader
from controlplane.logs.dumps.kcat import KcatReader
from controlplane.logs.dumps.lines import CutOff, read_lines
from controlplane.logs.log import LogNotUsable

FORMATS: dict[str, Callable[[bytes], bool]] = {
    reader.format: reader.recognises for reader in (HistoriesReader, KcatReader, ConsoleReader)
}
"""Formats by name, each with a function that recognises its lines."""

SAMPLE_LINES = 20
"""Number of first lines that show the format: warnings of a tool may precede the records."""


class _ConsoleFacts(NamedTuple):
    """Options for facts that the output of the console consumer may lack."""

    topic: str | None
    partition: int
    null: str


def read_dump(
    path: Path,
    *,
    format: str | None = None,  # noqa: A002 - name of the option
    topic: str | None = None,
    partition: int = 0,
    null: str = "null",
) -> Dump:
    """Read a whole file of records.

    Args:
        path: the file, plain or gzipped.
        format: a name in `FORMATS`; default: detected from the first lines.
        topic: topic of the records, for a format that does not contain it (`console`).
        partition: partition of the records, if the lines do not contain it.
        null: text that the console consumer printed for null (its `null.literal`).

    Raises:
        LogNotUsable: the file is missing, empty or without any record, the format is unknown, or an
            option is missing.
    """
    lines = read_lines(path)
    try:
        head = list(islice(lines, SAMPLE_LINES))
    except CutOff as error:
        raise LogNotUsable(f"{path} is damaged ({error}): compress or copy it again") from error
    sample = [line.text for line in head if line.text.strip()]
    facts = _ConsoleFacts(topic, partition, null)
    reader = _reader(format or detect(path, sample), sample, path, facts)
    collector = Collector(reader)
    try:
        for line in chain(head, lines):
            collector.add(line)
    except CutOff as error:
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
    """Return the dump; raise `LogNotUsable` if it has lines, but no record.

    A file of another kind must not count as an empty log.
    """
    if dump.entries or not (dump.problems or dump.remarks):
        return dump
    remarks = (Problem(remark.line, f"is a remark of {remark.tool}") for remark in dump.remarks)
    first = next(chain(dump.problems, remarks))
    raise LogNotUsable(
        f"{path} was read as {dump.format}, but none of its lines is a record: "
        f"line {first.line} {first.reason}"
    )
