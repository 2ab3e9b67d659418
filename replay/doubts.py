"""Doubts: what an archive does not know, because offsets are missing in it.

An offset is missing for one of three reasons:

- Kafka has no record there: the log cleaner has removed it, or a transaction marker has the offset.
- The beginning of Kafka's log was removed before a capture read it: a *gap* (`replay.gaps`).
- Retention has removed the record from the archive.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from controlplane.core.entry import Position
from controlplane.core.moments import time_text
from controlplane.core.order import Ends
from controlplane.core.text.safe_text import count

MayBeOlder = Callable[[Position], bool]
"""Tells if records directly before an archived record may be missing.

The argument is the position of the archived record. True has two consequences. A connector may be
older than its first archived config. A source may have made progress between two archived offsets.
"""


def never_older(_: Position) -> bool:
    """`MayBeOlder` of a log in which nothing is known to be missing: False."""
    return False


PROMPT_MS = 12 * 60 * 60 * 1000
"""Limit of the time between two looks at a partition: 12 hours, in ms.

A *look* reads a partition up to the end of the log. If the next look ends within the limit, it
misses no tombstone: by default, Kafka keeps one for 24 hours (`delete.retention.ms`). A manifest
stores the end time of a look, not its start. So the limit is half of the 24 hours: the other half
allows for a look of up to 12 hours.
"""


SHOWN = 5
"""Gaps or doubts listed in a message about a cluster. `replay timeline -o json` has all of both."""


class DoubtKind(Enum):
    """Kinds of doubts, the gravest first."""

    RETENTION = "removed by retention"
    """Retention has removed records on which the state at the moment depended."""
    STATE = "state unknown"
    """The last record of a key may be missing."""
    DELETIONS = "deletions unknown"
    """A tombstone may be missing: a key without a record after the missing offsets may have been
    deleted."""
    DERIVED = "earlier records unknown"
    """The last record of each key is known, but facts that need earlier records are not."""


UNKNOWN_KINDS = frozenset({DoubtKind.STATE, DoubtKind.DELETIONS})
"""Kinds of doubts in which the last record of a key may never have been archived."""


class RetentionTimes(NamedTuple):
    """Times of the latest retention of a partition, in ms since 1970."""

    removed_at_ms: int
    certain_from_ms: int
    """Time of the cut: no state from then on depends on a removed record."""

    @property
    def sentence(self) -> str:
        """Date of the removal and the earliest certain moment, for people."""
        day, moment = time_text(self.removed_at_ms)[:10], time_text(self.certain_from_ms)
        return f"removed by retention on {day}: the earliest certain moment is {moment}"


class Doubt(NamedTuple):
    """Doubt about one partition at a moment."""

    topic: str
    partition: int
    kind: DoubtKind
    after: int
    """Last offset before the missing ones; -1 if nothing before is known.

    For `DELETIONS`: the last offset before the reading that may have missed a tombstone.
    """
    until: int | None
    """End of the doubt: states that end at this offset or later do not have it. None: no end."""
    missing: int
    """Number of missing offsets."""
    retention: RetentionTimes | None = None
    """Times of the retention that has removed them; None: they were never archived."""

    @property
    def sentence(self) -> str:
        """The doubt as a sentence for people, with topic and partition."""
        return f"{self.topic} partition {self.partition}: {_SENTENCES[self.kind](self)}"

    @property
    def document(self) -> dict[str, Any]:
        """The doubt as a JSON document."""
        document = self._asdict() | {"kind": self.kind.value, "sentence": self.sentence}
        del document["retention"]
        return document | (self.retention._asdict() if self.retention else {})


EndVector = dict[str, list[int]]
"""End offsets by topic and partition."""


class AnswerDoubts(NamedTuple):
    """Doubts about an answer, and the earliest moment without them."""

    doubts: tuple[Doubt, ...] = ()
    certain_from: EndVector | None = None
    """See `certain_from`; None if no moment is certain."""

    @property
    def documents(self) -> dict[str, Any]:
        """The doubts and the moment as members of a JSON document."""
        documents = [doubt.document for doubt in self.doubts]
        return {"doubts": documents, "certain_from": self.certain_from}

    @property
    def certain_sentence(self) -> str:
        """Earliest certain moment, for people; empty without a doubt of `UNKNOWN_KINDS`.

        A doubt of kind `RETENTION` names a moment in its own sentence.
        """
        is_unknown = any(doubt.kind in UNKNOWN_KINDS for doubt in self.doubts)
        return certain_sentence(self.certain_from) if is_unknown else ""


def beginning(ends: Ends) -> EndVector:
    """End offsets before the first record of each partition."""
    return {topic: [0] * len(topic_ends) for topic, topic_ends in ends.items()}


def certain_from(begin: Ends, doubts: Iterable[Doubt], *, has_gaps: bool) -> EndVector | None:
    """Earliest certain moment: the first at which no doubt about a key's last record is left.

    Return the end offsets of this moment, which is not before `begin`; None if no such moment is
    certain. `has_gaps`: records were lost before a capture read them. Each key may have had its
    last record there. A key without a later record stays in doubt, so no moment is certain.

    Doubts of kind `DERIVED` are ignored: they concern only facts that need earlier records.
    """
    if has_gaps:
        return None
    ends = {topic: [*topic_ends] for topic, topic_ends in begin.items()}
    for doubt in doubts:
        if doubt.kind is DoubtKind.DERIVED:
            continue
        if doubt.until is None:
            return None
        end = ends[doubt.topic][doubt.partition]
        ends[doubt.topic][doubt.partition] = max(end, doubt.until)
    return ends


def certain_sentence(ends: EndVector | None) -> str:
    """Earliest certain moment as a sentence for people, with a vector for `--as-of`."""
    if ends is None:
        return (
            "the state stays uncertain up to the end of the archive: offsets were removed between "
            "two captures, or the last capture did not reach the end of the log"
        )
    return f"certain from {msgspec.json.encode(ends).decode()}"


class UncertainAnswer(UserWarning):
    """An answer about a cluster is not certain, because records are missing in the archive.

    The message has the lines that commands print: gaps, doubts, and the earliest certain moment.
    """


def gap_sentences(gaps: Sequence[str]) -> list[str]:
    """Sentences about the gaps of a cluster, for people; at most `SHOWN` gaps are listed."""
    rest = len(gaps) - SHOWN
    ending = f"… and {rest} more gaps; `replay verify -o json` has all"
    return [*gaps[:SHOWN], *([ending] if rest > 0 else [])]


def doubt_sentences(answers: Sequence[AnswerDoubts]) -> list[str]:
    """Doubts about the answers of a cluster, then the earliest certain moments, for people.

    At most `SHOWN` doubts are listed. Doubts of kind `DERIVED` are left out: they concern only
    facts that need earlier records. A cluster that uses transactions always has such doubts.
    """
    every = dict.fromkeys(doubt for answer in answers for doubt in answer.doubts)
    grave = [doubt.sentence for doubt in every if doubt.kind is not DoubtKind.DERIVED]
    rest = len(grave) - SHOWN
    ending = f"… and {rest} more like these; `replay timeline -o json` has all"
    moments = dict.fromkeys(answer.certain_sentence for answer in answers)
    return [*grave[:SHOWN], *([ending] if rest > 0 else []), *filter(None, moments)]


def _removed(doubt: Doubt) -> str:
    assert doubt.retention is not None
    records = count(doubt.missing, "record")
    verb = "was" if doubt.missing == 1 else "were"
    return f"{records} after {_begin(doubt)} {verb} {doubt.retention.sentence}"


def _begin(doubt: Doubt) -> str:
    return "the beginning" if doubt.after < 0 else f"offset {doubt.after}"


def _state_unknown(doubt: Doubt) -> str:
    begin = _begin(doubt)
    end = "the end" if doubt.until is None else f"offset {doubt.until - 1}"
    return f"the state between {begin} and {end} is unknown: {_missing(doubt)}"


def _deletions_unknown(doubt: Doubt) -> str:
    hours = PROMPT_MS // 3_600_000
    return (
        f"a key without a record after offset {doubt.after} may have been deleted. "
        f"{_missing(doubt)}, and the captures around them lie {hours} hours or more apart"
    )


def _earlier_unknown(doubt: Doubt) -> str:
    return (
        f"from offset {doubt.after} on, only the last record of each key is known. Tasks and "
        f"statuses may depend on earlier ones: {_missing(doubt)}"
    )


def _missing(doubt: Doubt) -> str:
    offsets = count(doubt.missing, "offset")
    verb = "is" if doubt.missing == 1 else "are"
    return f"{offsets} {verb} not archived (compacted, or markers of transactions)"


_SENTENCES = {
    DoubtKind.RETENTION: _removed,
    DoubtKind.STATE: _state_unknown,
    DoubtKind.DELETIONS: _deletions_unknown,
    DoubtKind.DERIVED: _earlier_unknown,
}
