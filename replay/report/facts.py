"""What a page is made of: plain values, without secrets, which can be kept and read back.

A place is a record's position as people write it: `config@57`.
"""

from itertools import pairwise
from operator import itemgetter

import msgspec

from controlplane.core.entry import Position
from controlplane.core.shown_records import place
from controlplane.core.state import Topics
from replay.audit.fleet import Shares
from replay.findings import Severity
from replay.report.limits import Limits

MIXED = "MIXED"
"""What stands for a state where several follow each other faster than can be drawn."""


class Time(msgspec.Struct, frozen=True):
    """From when to when there are records."""

    first_ms: int
    last_ms: int
    first: str = ""
    last: str = ""
    """The records of these times."""

    def step_ms(self, steps: int) -> float:
        """How long a step is."""
        return max(1, self.last_ms - self.first_ms) / steps


class Span(msgspec.Struct, frozen=True):
    """Something that was so for a while."""

    begin_ms: int
    end_ms: int
    state: str
    place: str
    """The record that began it; of several the last."""
    words: str
    failed: bool = False
    """Whether it is a failure; of several: whether one is among them."""
    number: int = 1
    """Of several: how many."""


class Mark(msgspec.Struct, frozen=True):
    """Something that happened, or several things of one kind or more, close to each other."""

    at_ms: int
    kind: str
    """`created`, `changed`, `deleted`, `restarted`, `reset`; `several`."""
    place: str
    words: str
    number: int = 1


class Point(msgspec.Struct, frozen=True):
    """An offset: how far a source had come."""

    at_ms: int
    value: float | None
    """None: it was removed."""
    place: str

    def goes_back(self, before: "Point") -> bool:
        """Whether it is less than the one before, or one of them is none."""
        return before.value is None or self.value is None or self.value < before.value


class Line(msgspec.Struct, frozen=True):
    """How one source partition moved."""

    partition: str
    field: str
    """Which number of its offset is drawn."""
    points: tuple[Point, ...]

    @property
    def marked(self) -> list[Point]:
        """Where it begins, goes back, begins again and ends."""
        back = [point for before, point in pairwise(self.points) if point.goes_back(before)]
        return list(dict.fromkeys((self.points[0], *back, self.points[-1])))


class Timeline(msgspec.Struct, frozen=True):
    """A connector over time."""

    wanted: tuple[Span, ...]
    reported: tuple[Span, ...]
    tasks: tuple[Span, ...]
    marks: tuple[Mark, ...]
    lines: tuple[Line, ...]
    undrawn: int
    """Source partitions that are not among the lines."""

    @property
    def extremes(self) -> tuple[Point, ...]:
        """The least and the greatest offset; none where there is none."""
        drawn = [(one.value, one) for line in self.lines for one in line.points]
        some = [(value, one) for value, one in drawn if value is not None]
        if not some:
            return ()
        return min(some, key=itemgetter(0))[1], max(some, key=itemgetter(0))[1]

    @property
    def moves(self) -> bool:
        """Whether there is anything to be drawn of its offsets."""
        return len({point.value for point in self.extremes}) > 1


class Connector(msgspec.Struct, frozen=True):
    """One connector: what it is at the end, and how much has happened to it."""

    name: str
    there: bool
    wanted: str | None
    reported: str | None
    tasks: dict[str, int]
    """How many tasks are reported in which state."""
    numbers: dict[str, int]
    """How often what happened: the kinds of marks, `failed`, and `moved` for offsets."""
    places: dict[str, str]
    """The last record of each of these kinds, and those of `wanted`, `reported` and `tasks`."""
    latest: dict[str, tuple[str, ...]]
    """The last few records of each of these kinds; for `tasks`, the last of each of a few."""
    worst: Severity | None
    """Of the findings about it."""
    verdicts: tuple[int, ...]
    """Of each release that it is compared with."""
    timeline: Timeline | None = None
    """None: it is not drawn."""


class Told(msgspec.Struct, frozen=True):
    """A finding, of an audit or of a rehearsal."""

    kind: str
    severity: Severity
    cluster: str
    connector: str | None
    sentence: str
    advice: str
    places: tuple[str, ...]
    clusters: tuple[str, ...] = ()
    """Where the places lie in several clusters, in which each of them does."""

    @property
    def where(self) -> list[tuple[str, str]]:
        """The places, each with its cluster."""
        clusters = self.clusters or (self.cluster,) * len(self.places)
        return list(zip(clusters, self.places, strict=True))


class Findings(msgspec.Struct, frozen=True):
    """What was found, the worst first."""

    told: tuple[Told, ...]
    numbers: dict[str, int]
    """Of all that was found, by severity."""

    @property
    def more(self) -> int:
        """How many are not told."""
        return sum(self.numbers.values()) - len(self.told)


class Reason(msgspec.Struct, frozen=True):
    """Why a verdict is what it is."""

    severity: Severity
    text: str
    places: tuple[str, ...]


class Judged(msgspec.Struct, frozen=True):
    """A connector that a release is not good for, or the cluster (None)."""

    connector: str | None
    verdict: int
    reasons: tuple[Reason, ...]
    more: int
    """Reasons that are not told."""


class Change(msgspec.Struct, frozen=True):
    """What a change of release would do to a cluster."""

    goal: str
    verdict: int
    judged: tuple[Judged, ...]
    more: int
    """Connectors that are not told."""
    commands: tuple[tuple[str, str, str], ...]
    """What is to be done first: when, the command, why."""


class Part(msgspec.Struct, frozen=True):
    """What was read of one partition."""

    topic: str
    partition: int
    records: int
    first: int
    last: int
    """Offsets."""

    def places(self, topics: Topics) -> tuple[str, str]:
        """The first and the last record."""
        ends = (Position(self.topic, self.partition, offset) for offset in (self.first, self.last))
        first, last = (place(end, topics) for end in ends)
        return first, last


class Missing(msgspec.Struct, frozen=True):
    """Offsets that had been removed before they were archived."""

    sentence: str
    places: tuple[str, ...]
    """The record before them and the one behind, as far as there are such."""


class Shown(msgspec.Struct, frozen=True):
    """A record, without secrets."""

    place: str
    at_ms: int
    key: str
    value: str


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """All that a page tells of one cluster."""

    cluster: str
    topics: Topics
    limits: Limits
    release: str
    """As which it is read."""
    head: str | None
    """The hash of the last manifest; None: it is no archive."""
    time: Time | None
    """None: no record has a time."""
    parts: tuple[Part, ...]
    missing: tuple[Missing, ...]
    connectors: tuple[Connector, ...]
    """The worst first."""
    connectors_more: int
    numbers: dict[str, int]
    """How many connectors there are, and how they are: `there`, `RUNNING`, `FAILED`, …"""
    audited: Findings
    linted: Findings
    shares: Shares
    """What it may have in common with others."""
    changes: tuple[Change, ...]
    """By release."""
    evidence: tuple[Shown, ...]
    evidence_more: int

    @property
    def records(self) -> int:
        """How many records were read."""
        return sum(part.records for part in self.parts)
