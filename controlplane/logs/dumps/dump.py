"""Contents of a dump, and the protocol of a reader of one format.

Remarks are messages of a tool between the records of a file. A line is a remark only if a pattern
matches all of it. Any other line without a record may be a part of a record. Messages about errors
do not count as remarks: after an error, records may be missing.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec

from controlplane.core.entry import Entry, Position
from controlplane.core.moments import position_text
from controlplane.core.topic_names import is_legal

_REMARKS: dict[str, re.Pattern[bytes]] = {
    "the console consumer": re.compile(
        rb"Option --[a-z.-]+ is deprecated and will be removed in a future version\."
        rb" Use --[a-z-]+ instead\.\r?"
        rb"|Processed a total of (?P<total>\d{1,18}) messages\r?"
    ),
    "kcat": re.compile(
        rb"% Reached end of topic \S+ \[\d+\] at offset \d+(: exiting)?\r?"
        rb"|% Auto-selecting [^{}]*\r?"
        rb"|% Waiting for group rebalance\r?"
        rb"|% Group \S+ rebalanced [^{}]*\r?"
    ),
}
"""Patterns of remarks by tool. Source for kcat: `kcat.c` (to standard error). Sources for the
consumer: `ConsoleConsumer`, and from 4.2 on `ConsoleConsumerOptions` and `CommandLineUtils` (to
standard output, KIP-1147)."""


class Remark(NamedTuple):
    """Message of a tool in the file; `line` is its number, from 1."""

    line: int
    tool: str
    total: int = 0
    """Number of records that the tool reports; 0 if it reports none."""


def remark(number: int, line: bytes) -> Remark | None:
    """Return the remark in a line; None if the line is no known remark."""
    for tool, pattern in _REMARKS.items():
        match = pattern.fullmatch(line)
        if match:
            return Remark(number, tool, int(match.groupdict().get("total") or 0))
    return None


REPLACEMENT = "\ufffd".encode()
"""U+FFFD: some tools write it in place of bytes that are not UTF-8; these bytes are lost."""


class Problem(NamedTuple):
    """A line that could not be read, or that raises a doubt; `line` is its number, from 1."""

    line: int
    reason: str
    taken: bool = False
    """True if the line was read nevertheless: its entry was stored, or it is a remark."""
    assumed: bool = False
    """True if no content is lost: the format lacks a fact, and the reason names the assumption."""


class Dump(msgspec.Struct, frozen=True):
    """Contents of a file of records.

    Each non-empty line is an entry, a problem, a remark or the description of the file.
    `entries` are sorted by topic, partition and offset; each position occurs once (equal entries
    of a position count once). `about` holds the description in the file, or the detected columns.
    """

    format: str
    entries: list[Entry]
    problems: list[Problem]
    about: dict[str, Any]
    remarks: list[Remark] = []
    """Messages of tools between the records; skipping them loses no record."""

    @property
    def partitions(self) -> dict[str, int]:
        """Number of partitions by topic; {} if the description lacks the ends (`about["end"]`)."""
        ends = self.about.get("end")
        if not isinstance(ends, dict):
            return {}
        return {
            topic: len(parts)
            for topic, parts in ends.items()
            if is_legal(topic) and isinstance(parts, list) and parts
        }


class DumpLine(NamedTuple):
    """Line of a file, without its line break. `number` counts from 1."""

    number: int
    text: bytes
    whole: bool = True
    """True if the line had a line break. The last line of a cut-off file has none."""


class DumpLineError(Exception):
    """A line is no record; the message is the reason, and continues `line 7 …`."""


class DumpReader(Protocol):
    """Reader of the lines of one file in one format."""

    format: ClassVar[str]
    is_exact: ClassVar[bool]
    """True if the format has its own field for bytes that are not UTF-8 (Base64).

    Then U+FFFD is a real character. In other formats a tool may have replaced bytes by it.
    """
    about: dict[str, Any]

    def entry(self, line: DumpLine) -> Entry | None:
        """Parse the record in a line; None if the line describes the file.

        Raises:
            DumpLineError: the line holds no record, or only a part of one.
        """
        ...

    def doubts(self) -> Iterable[Problem]:
        """Report doubts about the file as a whole. Call it after the last line."""
        ...


class Collector:
    """Collects entries, problems and remarks of a file; the records may come in any order."""

    def __init__(self, reader: DumpReader) -> None:
        self._reader = reader
        self._taken: dict[Position, tuple[int, Entry]] = {}
        self._problems: list[Problem] = []
        self._remarks: list[Remark] = []
        self._records = 0
        self.lines = 0
        """Number of the last line read."""

    def add(self, line: DumpLine) -> None:
        """Read one line: store its entry, remark or problem."""
        self.lines = line.number
        if not line.text.strip():
            return
        tool_remark = remark(line.number, line.text)
        if tool_remark:
            self._remarks.append(tool_remark)
            return
        try:
            entry = self._reader.entry(line)
        except DumpLineError as error:
            reason = str(error) if line.whole else f"{error}; the file ends within this line"
            self.problem(Problem(line.number, reason))
            return
        if entry is not None:
            self._records += 1
            self._take(line.number, entry)

    def problem(self, problem: Problem) -> None:
        """Add a problem to the contents of the dump."""
        self._problems.append(problem)

    def _take(self, number: int, entry: Entry) -> None:
        first, present = self._taken.setdefault(entry.position, (number, entry))
        if present != entry:
            position = position_text(entry.position)
            reason = f"holds another record at {position}: the one in line {first} was taken"
            self.problem(Problem(number, reason))
        elif not self._reader.is_exact and REPLACEMENT in (entry.key or b"") + (entry.value or b""):
            self.problem(Problem(number, _MAY_BE_LOST, taken=True))

    def dump(self) -> Dump:
        """Return the collected contents, with all entries and problems sorted."""
        problems = sorted([*self._problems, *self._reader.doubts(), *self._missing()])
        entries = [self._taken[position][1] for position in sorted(self._taken)]
        about = self._reader.about
        return Dump(self._reader.format, entries, problems, about, self._remarks)

    def _missing(self) -> Iterator[Problem]:
        """Report that the tool counted more records than the file has."""
        total_remarks = [noted for noted in self._remarks if noted.total]
        total = sum(noted.total for noted in total_remarks)
        if total > self._records:
            reason = f"reports {total} records, but the file has {self._records}"
            yield Problem(total_remarks[-1].line, reason, taken=True)


_MAY_BE_LOST = "holds U+FFFD: if a tool wrote it for bytes that are not UTF-8, those bytes are lost"
