"""Archives of random logs that are compacted between looks, each with its full log.

A look is a capture up to the end of the log. The full log has every record that a worker would have
read since the first look.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from controlplane.core.entry import Entry, batch_of
from controlplane.core.state import Topics
from replay.archive import layout
from replay.archive.appender import Appender
from replay.archive.archived_cluster import ArchivedCluster, PartitionId, open_cluster
from replay.archive.manifest import encoded
from replay.archive.segments.segment_files import SegmentSizes
from replay.archive.stores.store import ArchiveStore, FolderStore
from tests.core.logs import KeyValue

TOPICS = Topics()
NAME = "c"
PARTITIONS = {TOPICS.config: 1, TOPICS.status: 2, TOPICS.offsets: 2}


def _status(state: str) -> bytes:
    return b'{"state":"%b","trace":null,"worker_id":"w","generation":1}' % state.encode()


CONFIGS: tuple[KeyValue, ...] = (
    (b"connector-a", b'{"properties":{"v":"1"}}'),
    (b"connector-a", b'{"properties":{"v":"2"}}'),
    (b"connector-a", None),
    (b"connector-b", b'{"properties":{}}'),
    (b"target-state-a", b'{"state":"PAUSED"}'),
    (b"target-state-a", None),
    (b"task-a-0", b'{"properties":{"t":"1"}}'),
    (b"task-a-0", b'{"properties":{"t":"2"}}'),
    (b"commit-a", b'{"tasks":1}'),
    (b"commit-a", b'{"tasks":0}'),
)
STATUSES: tuple[KeyValue, ...] = (
    (b"status-connector-a", _status("RUNNING")),
    (b"status-connector-a", None),
    (b"status-task-a-0", _status("RUNNING")),
    (b"status-task-a-0", _status("FAILED")),
    (b"status-task-a-0", None),
)
OFFSETS: tuple[KeyValue, ...] = (
    (b'["a",{"p":1}]', b'{"o":1}'),
    (b'["a",{"p":1}]', b'{"o":2}'),
    (b'["a",{"p":1}]', None),
    (b'["a",{"p":2}]', b'{"o":1}'),
    (b'["a",{"p":2}]', None),
    (b'["a",{"p":3}]', b'{"o":1}'),
)

MARKERS = 0.1
"""Share of records before which an offset is skipped, as if it held a transaction marker."""

LOSING = 0.3
"""Share of partitions that lose records each time that the log loses records."""

HOUR_MS = 3_600_000
TOMBSTONE_MS = 24 * HOUR_MS
"""Default of Kafka's `delete.retention.ms`, in milliseconds."""

PAUSES_HOURS = ((0, 0, 0, 1), (0, 0, 0, 0, 0, 1, 5, 30))
"""Pauses between two writes: of a busy cluster, and of one that sometimes rests for 30 hours."""


RECORDS = (
    *[(TOPICS.config, key, value) for key, value in CONFIGS],
    *[(TOPICS.status, key, value) for key, value in STATUSES],
    *[(TOPICS.offsets, key, value) for key, value in OFFSETS],
)


def random_log(random: Random, size: int = 50) -> list[Entry]:
    """Random writes under few keys, so that records replace each other.

    Each key has one partition. Some offsets are skipped, as if they held transaction markers.
    """
    ends: dict[PartitionId, int] = defaultdict(int)
    log = []
    for at in range(size):
        topic, key, value = random.choice(RECORDS)
        place = topic, sum(key or b"") % PARTITIONS[topic]
        offset = ends[place] + (random.random() < MARKERS)
        ends[place] = offset + 1
        log.append(Entry(*place, offset, at, key, value))
    return log


def random_log_anywhere(seed: int, size: int = 50) -> list[Entry]:
    """Random writes under few keys, in any partition of their topic, ordered by time."""
    random = Random(seed)
    ends: dict[PartitionId, int] = defaultdict(int)
    log = []
    for at in range(size):
        topic, key, value = random.choice(RECORDS)
        place = topic, random.randrange(PARTITIONS[topic])
        log.append(Entry(*place, ends[place], at, key, value))
        ends[place] += 1
    return log


class LossyArchive(NamedTuple):
    """Archive, and the full log that a worker would have read since the first look."""

    cluster: ArchivedCluster
    reference: list[Entry]


Upkeep = Callable[[ArchiveStore], object]
"""Work on the archive after each append, for example a merge."""


class CleanedCluster:
    """Cluster whose log is written, cleaned and captured in any order.

    `is_losing`: the topics sometimes lose their oldest records, archived or not.
    """

    def __init__(
        self,
        random: Random,
        folder: str,
        upkeep: Upkeep = lambda _: None,
        *,
        is_losing: bool = False,
    ) -> None:
        self._random = random
        self._store = FolderStore(folder)
        self._upkeep = upkeep
        self._now_ms = 0
        self._is_seen = False
        self._losing = 0.5 if is_losing else 0
        self._begins: dict[PartitionId, int] = defaultdict(int)
        self._log: dict[PartitionId, list[tuple[int, Entry]]] = {
            (topic, number): [] for topic, count in PARTITIONS.items() for number in range(count)
        }
        self._ends: dict[PartitionId, int] = dict.fromkeys(self._log, 0)
        self._reference: list[Entry] = []
        self._pauses_hours = random.choice(PAUSES_HOURS)
        self._cleaning = random.choice((0.05, 0.5, 2))
        """Cleanings of the log per look, on average."""

    def live(self, log: Sequence[Entry]) -> LossyArchive:
        """Write a log, with looks and cleaning in between, and a look at the end."""
        for entry in log:
            self._now_ms += self._random.choice(self._pauses_hours) * HOUR_MS
            self._write(entry)
            for act in self._random.choices(
                (self._look, self._clean, self._lose, None), (1, self._cleaning, self._losing, 9)
            ):
                if act is not None:
                    act()
        self._look()
        return LossyArchive(open_cluster(self._store, NAME), self._reference)

    def _write(self, entry: Entry) -> None:
        place = entry.topic, entry.partition
        self._log[place].append((self._now_ms, entry))
        self._ends[place] = entry.offset + 1
        if self._is_seen:
            self._reference.append(entry)

    def _look(self) -> None:
        """Archive the new records, sometimes in two commits as a capture does."""
        if not self._is_seen:
            self._reference = [entry for part in self._log.values() for _, entry in part]
        halves = (0.5, 1.0) if self._random.random() < 0.3 else (1.0,)
        for share in halves:
            appender = Appender(self._store, NAME, TOPICS, sizes=SegmentSizes(4, 2))
            for place, part in self._log.items():
                end = int(self._ends[place] * share)
                begun = appender.end_of(*place) or 0
                fresh = [entry for _, entry in part if begun <= entry.offset < end]
                if fresh:
                    appender.add(batch_of(fresh))
                is_partial = end < self._ends[place]
                appender.reached(*place, self._begins[place], max(begun, end), partial=is_partial)
            self._commit(appender)

    def _commit(self, appender: Appender) -> None:
        if commit_at(self._store, appender, self._now_ms):
            self._is_seen = True
            self._upkeep(self._store)

    def _lose(self) -> None:
        """Remove the oldest records of some partitions."""
        for place, part in self._log.items():
            if self._random.random() < LOSING:
                begin = self._random.randint(self._begins[place], self._ends[place])
                self._begins[place] = begin
                part[:] = [(ms, entry) for ms, entry in part if entry.offset >= begin]

    def _clean(self) -> None:
        """Remove some records that the cleaner may remove."""
        for part in self._log.values():
            part[:] = self._cleaned(part)

    def _cleaned(self, part: list[tuple[int, Entry]]) -> Iterator[tuple[int, Entry]]:
        last = {entry.key: entry.offset for _, entry in part}
        kept: set[bytes | None] = set()
        for written_ms, entry in part:
            is_last = last[entry.key] == entry.offset
            is_old = entry.value is None and self._now_ms - written_ms >= TOMBSTONE_MS
            may_go = not is_last or (is_old and entry.key not in kept)
            if not (may_go and self._random.random() < 0.7):
                kept.add(entry.key)
                yield written_ms, entry


def commit_at(store: ArchiveStore, appender: Appender, ms: int) -> bool:
    """Commit an append, with `ms` as its time of writing; return False if nothing is new."""
    made = appender.commit()
    if made is None:
        return False
    timed = replace(made, written_at_ms=ms)
    store.replace(layout.manifest(made.cluster, made.number), encoded(timed))
    return True


def lossy_archive(
    seed: int, folder: str, upkeep: Upkeep = lambda _: None, *, is_losing: bool = False
) -> LossyArchive:
    """Simulate a cluster and archive it; equal seeds give equal logs and looks."""
    random = Random(seed)
    cluster = CleanedCluster(random, folder, upkeep, is_losing=is_losing)
    return cluster.live(random_log(random))
