"""The same raw key in two partitions of a topic: no log tells which of the two came later.

It happens when partitions are added to a topic, or when another program writes with another
partitioner. Compaction keeps both for ever.
"""

from collections.abc import Iterator

from controlplane.core.entry import Entry
from controlplane.core.safe_text import count
from replay.audit.about import About, Words
from replay.audit.reading import Told
from replay.findings import Finding, Severity

_Parts = dict[int, Entry]
"""Per partition the last record with the key."""


class Keys:
    """One finding for each connector and topic, worse where the two records disagree."""

    concerns = (object,)

    def __init__(self, about: About) -> None:
        self._about = about
        self._split: dict[tuple[str | None, str], dict[bytes | None, _Parts]] = {}

    def see(self, told: Told) -> Iterator[Finding]:
        """Only of keys that lie in several partitions something is kept."""
        entry, previous = told.entry, told.previous
        if previous is not None:
            topic = self._split.get((told.about, entry.topic), {})
            if entry.key in topic:
                topic[entry.key][entry.partition] = entry
            elif previous.entry.partition != entry.partition:
                parts = {previous.entry.partition: previous.entry, entry.partition: entry}
                self._split.setdefault((told.about, entry.topic), {})[entry.key] = parts
        return iter(())

    def end(self) -> Iterator[Finding]:
        """What they hold by now decides how bad it is."""
        for (name, topic), split in self._split.items():
            unlike = [parts for parts in split.values() if _disagree(parts)]
            yield self._finding(name, topic, list(split.values()), unlike)

    def _finding(
        self, name: str | None, topic: str, split: list[_Parts], unlike: list[_Parts]
    ) -> Finding:
        of = "" if name is None else f" of {name}"
        severity = Severity.DANGER if unlike else Severity.INFO
        fate = (
            f"{count(len(unlike), 'key')} with different values: which one counts is a matter of "
            "luck, and may change when a worker starts"
            if unlike
            else "with the same value everywhere"
        )
        lie = "lies" if len(split) == 1 else "lie"
        numbers = ", ".join(map(str, sorted({part for parts in split for part in parts})))
        sentence = (
            f"{count(len(split), 'key')}{of} in {topic} {lie} in several partitions ({numbers}), "
            f"{fate}"
        )
        advice = (
            "Write the right value (for offsets: stop the connector, PATCH its offsets) and a "
            "tombstone for the key into the other partition; never add partitions to this topic."
        )
        shown = sorted(entry.position for parts in unlike or split for entry in parts.values())
        words = Words(sentence, advice if unlike else "")
        return self._about.finding("key-in-two-partitions", severity, name, shown, words)


def _disagree(parts: _Parts) -> bool:
    return len({entry.value for entry in parts.values()}) > 1
