"""Records of one cluster, of a log or of an archive: the input of audits and assessments."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from controlplane.core.entry import Entry
from controlplane.core.state import Topics
from replay.doubts import AnswerDoubts, MayBeOlder, never_older
from replay.gaps import OffsetGap


class ClusterRecords(NamedTuple):
    """Records of one cluster, ready to be read."""

    cluster: str
    topics: Topics
    exactly_once: bool
    entries: Callable[[], Iterable[Entry]]
    """Entries in order (`core.order`); those of an archive are read during the iteration."""
    head: str | None = None
    """Hash of the archive's last manifest; None for a log, which may grow."""
    gaps: tuple[OffsetGap, ...] = ()
    """Gaps of an archive that may affect the entries."""
    doubts: AnswerDoubts = AnswerDoubts()
    """Doubts about the state at the chosen moment."""
    past_doubts: AnswerDoubts = AnswerDoubts()
    """Doubts about the records before that moment."""
    may_be_older: MayBeOlder = never_older
