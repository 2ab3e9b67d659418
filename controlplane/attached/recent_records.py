"""Records that the follower has folded lately: a comparison need not read them again."""

from bisect import insort
from collections import deque
from collections.abc import Iterable

from controlplane.core.entry import Entry, TopicPartition
from controlplane.core.order import Ends

RECORDS_KEPT = 10_000
"""Maximum number of records that are kept: those of some minutes in a large cluster."""

BYTES_KEPT = 16 << 20
"""Maximum size of all keys and values that are kept."""


class RecentRecords:
    """The last records of each partition, in a bounded buffer.

    The records of a partition begin at its offset in `start`; other topics begin at 0.
    """

    def __init__(
        self, start: Ends, records_kept: int = RECORDS_KEPT, bytes_kept: int = BYTES_KEPT
    ) -> None:
        self._first = {
            (topic, number): end for topic, ends in start.items() for number, end in enumerate(ends)
        }
        """Per partition, the offset from which on all records are kept."""
        self._partitions: dict[str, list[TopicPartition]] = {}
        """Partitions of each topic, in order."""
        for place in sorted(self._first):
            self._partitions.setdefault(place[0], []).append(place)
        self._records: dict[TopicPartition, deque[Entry]] = {}
        self._arrived: deque[TopicPartition] = deque()
        self._records_kept = records_kept
        self._bytes_kept = bytes_kept
        self._bytes = 0
        self._is_broken = False

    def add(self, entries: Iterable[Entry]) -> None:
        """Add records; those of one partition come in the order of their offsets."""
        for entry in entries:
            place = entry.topic, entry.partition
            records = self._records.get(place)
            if records is None:
                records = self._records[place] = deque()
                self._note(place)
            records.append(entry)
            self._arrived.append(place)
            self._bytes += _size(entry)
        while len(self._arrived) > self._records_kept or self._bytes > self._bytes_kept:
            place = self._arrived.popleft()
            oldest = self._records[place].popleft()
            self._first[place] = oldest.offset + 1
            self._bytes -= _size(oldest)

    def break_off(self) -> None:
        """Discard all records for good: the log was replaced, so offsets name other records."""
        self._is_broken = True
        self._records.clear()
        self._arrived.clear()
        self._bytes = 0

    def since(self, topics: Iterable[str], since: Ends) -> list[Entry] | None:
        """Records of the topics from the given end offsets on; None if the buffer lacks some."""
        if self._is_broken:
            return None
        entries: list[Entry] = []
        for topic in topics:
            start = since.get(topic, ())
            for place in self._partitions.get(topic, ()):
                first = start[place[1]] if place[1] < len(start) else 0
                if first < self._first.get(place, 0):
                    return None
                entries += self._behind(place, first)
        return entries

    def _note(self, place: TopicPartition) -> None:
        """Add a partition with records to those of its topic."""
        partitions = self._partitions.setdefault(place[0], [])
        if place not in partitions:
            insort(partitions, place)

    def _behind(self, place: TopicPartition, first: int) -> list[Entry]:
        """Records of a partition from an offset on; searched from the end, as few are needed."""
        entries: list[Entry] = []
        for entry in reversed(self._records.get(place, ())):
            if entry.offset < first:
                break
            entries.append(entry)
        return entries[::-1]


def _size(entry: Entry) -> int:
    return len(entry.key or b"") + len(entry.value or b"")
