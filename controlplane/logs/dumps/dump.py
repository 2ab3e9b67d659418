"""What reading a dump answers, and what a reader of one format has to do."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec

from controlplane.core.entry import Entry, Position
from controlplane.core.moments import position_text
from controlplane.core.topic_names import is_legal
from controlplane.logs.dumps.remarks import Remark, remark

REPLACEMENT = "\ufffd".encode()
"""What a tool writes where it found bytes that are no UTF-8; the bytes themselves are lost."""


class Problem(NamedTuple):
    """A line that could not be read, or not without doubt. `line` counts from 1 (of the file)."""

    line: int
    reason: str
    taken: bool = False
    """Whether there is an entry from this line all the same."""
    assumed: bool = False
    """Whether nothing is lost by it: the file leaves something open that its form never tells, and
    the reason says what was assumed."""


class Dump(msgspec.Struct, frozen=True):
    """A file of records, read whole: each line with text in it is an entry, a problem, or a remark.

    `entries` are in order of topic, partition, offset; each place occurs once (a line that says
    the same as another adds nothing). `about` is what the file says of itself, and how it was
    understood.
    """

    format: str
    entries: list[Entry]
    problems: list[Problem]
    about: dict[str, Any]
    remarks: list[Remark] = []
    """What tools said about themselves in between: nothing is lost by it."""

    @property
    def partitions(self) -> dict[str, int]:
        """Number of partitions by topic, where the file tells it (`end`: ends by partition)."""
        ends = self.about.get("end")
        if not isinstance(ends, dict):
            return {}
        return {
            topic: len(parts)
            for topic, parts in ends.items()
            if is_legal(topic) and isinstance(parts, list) and parts
        }


class Line(NamedTuple):
    """One line of a file, without its end. `number` counts from 1."""

    number: int
    text: bytes
    whole: bool = True
    """Whether its end was there. A file that was cut off has a last line without one."""


class Unreadable(Exception):
    """This line is no record; the message says why, as the end of `line 7 ...`."""


class Reader(Protocol):
    """Reads the lines of one file in one format."""

    format: ClassVar[str]
    is_exact: ClassVar[bool]
    """Whether bytes that are no UTF-8 have a notation, so that U+FFFD can only be meant."""
    about: dict[str, Any]

    def entry(self, line: Line) -> Entry | None:
        """The record in this line; None where the line is about the file, and was understood.

        Raises:
            Unreadable: it holds no record, or not all of it.
        """
        ...

    def doubts(self) -> Iterable[Problem]:
        """What is doubtful about the file as a whole, after its last line."""
        ...


class Collector:
    """Gathers what a reader finds in a file; the order of the lines does not matter."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._taken: dict[Position, tuple[int, Entry]] = {}
        self._problems: list[Problem] = []
        self._remarks: list[Remark] = []
        self._records = 0
        self.lines = 0  # read so far

    def add(self, line: Line) -> None:
        """Read one line."""
        self.lines = line.number
        if not line.text.strip():
            return
        said = remark(line.number, line.text)
        if said:
            self._remarks.append(said)
            return
        try:
            entry = self._reader.entry(line)
        except Unreadable as error:
            reason = str(error) if line.whole else f"{error}; the file ends within this line"
            self.problem(Problem(line.number, reason))
            return
        if entry is not None:
            self._records += 1
            self._take(line.number, entry)

    def problem(self, problem: Problem) -> None:
        """Note a problem that came up outside of a line's reading."""
        self._problems.append(problem)

    def _take(self, number: int, entry: Entry) -> None:
        first, present = self._taken.setdefault(entry.position, (number, entry))
        if present != entry:
            place = position_text(entry.position)
            reason = f"holds another record at {place} than line {first}, which was taken"
            self.problem(Problem(number, reason))
        elif not self._reader.is_exact and REPLACEMENT in (entry.key or b"") + (entry.value or b""):
            self.problem(Problem(number, _MAY_BE_LOST, taken=True))

    def dump(self) -> Dump:
        """Everything that was gathered."""
        problems = sorted([*self._problems, *self._reader.doubts(), *self._missing()])
        entries = [self._taken[position][1] for position in sorted(self._taken)]
        about = self._reader.about
        return Dump(self._reader.format, entries, problems, about, self._remarks)

    def _missing(self) -> Iterator[Problem]:
        """Records that a tool says it has read, and that are not there: it passed over them."""
        told = [one for one in self._remarks if one.total]
        total = sum(one.total for one in told)
        if total > self._records:
            reason = f"tells of {total} records, and {self._records} are there"
            yield Problem(told[-1].line, reason, taken=True)


_MAY_BE_LOST = (
    "holds U+FFFD: if some tool wrote that for bytes that are no UTF-8, those bytes are lost"
)
