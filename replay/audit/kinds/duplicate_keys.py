"""Duplicate keys: the same raw key in two partitions, so that their order is undefined.

The cause is an increase of partitions, or a program with another partitioner. Compaction keeps both
records forever.
"""

from collections.abc import Iterator

from controlplane.core.entry import Entry
from controlplane.core.text.safe_text import count
from replay.audit.context import AuditContext
from replay.audit.decoded_log import DecodedRecord
from replay.findings import Finding, FindingText, Severity

_EntryByPartition = dict[int, Entry]
"""Last record with the key, by partition."""


class DuplicateKeys:
    """Audit with a finding per connector and topic; worse if values of a key differ."""

    concerns = (object,)  # records of every type

    def __init__(self, about: AuditContext) -> None:
        self._about = about
        self._split: dict[tuple[str | None, str], dict[bytes | None, _EntryByPartition]] = {}

    def see(self, decoded: DecodedRecord) -> Iterator[Finding]:
        """Remember keys that occur in several partitions."""
        entry, previous = decoded.entry, decoded.previous
        if previous is not None:
            topic = self._split.get((decoded.about, entry.topic), {})
            if entry.key in topic:
                topic[entry.key][entry.partition] = entry
            elif previous.entry.partition != entry.partition:
                parts = {previous.entry.partition: previous.entry, entry.partition: entry}
                self._split.setdefault((decoded.about, entry.topic), {})[entry.key] = parts
        return iter(())

    def end(self) -> Iterator[Finding]:
        """Report the keys; their current values decide the severity."""
        for (name, topic), split in self._split.items():
            unlike = [parts for parts in split.values() if _disagree(parts)]
            yield self._finding(name, topic, list(split.values()), unlike)

    def _finding(
        self,
        name: str | None,
        topic: str,
        split: list[_EntryByPartition],
        unlike: list[_EntryByPartition],
    ) -> Finding:
        of = "" if name is None else f" of {name}"
        severity = Severity.DANGER if unlike else Severity.INFO
        values = (
            f"{count(len(unlike), 'key')} with different values" if unlike else "with equal values"
        )
        lie = "lies" if len(split) == 1 else "lie"
        numbers = ", ".join(map(str, sorted({part for parts in split for part in parts})))
        sentence = (
            f"{count(len(split), 'key')}{of} in {topic} {lie} in several partitions ({numbers}), "
            f"{values}"
        )
        advice = (
            "The order of reading decides which value counts, and may change when a worker starts. "
            "Workers write each key into one partition, which Kafka's partitioner selects. For "
            "offsets, stop the connector first. Write a tombstone for the key into all other "
            "partitions that have the key. Then write the correct value into the workers' "
            "partition (for offsets: PATCH them). Until the log cleaner has removed the "
            "tombstones, a starting worker may lose the value. Never add partitions to this topic."
        )
        shown = sorted(entry.position for parts in unlike or split for entry in parts.values())
        words = FindingText(sentence, advice if unlike else "")
        return self._about.finding("key-in-two-partitions", severity, name, shown, words)


def _disagree(parts: _EntryByPartition) -> bool:
    """True if the order between partitions decides the value.

    A tombstone is a value here: a worker that reads it last has no value. A log with a
    value and a tombstone is safe once the log cleaner has removed the tombstone. An archive does
    not show this.
    """
    return len({entry.value for entry in parts.values()}) > 1
