"""Adding to the archive of a cluster: records in, then one manifest that makes them count.

Whoever is killed on the way leaves files that no manifest names, or a manifest that names files
which are all there. What is archived already is compared and not added again.
"""

from collections.abc import Callable, Iterable
from time import time

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from controlplane.core.entry import Batch
from controlplane.core.state import Topics
from replay.archive import layout
from replay.archive.cluster import Cluster, Part, Place, parts_in
from replay.archive.manifest import (
    Chain,
    Manifest,
    Reach,
    Segment,
    Snapshot,
    Stored,
    encoded,
    read_chain,
)
from replay.archive.segments import (
    SCHEMA,
    SIZES,
    Sizes,
    Written,
    opened,
    row_groups,
    table_of,
    written,
)
from replay.archive.store import Store
from replay.archive.winners import WORTH_IT, reducible, winners
from replay.errors import ArchiveBusy, ArchiveConflict, ArchiveCorrupt
from replay.kernels.rows import Held

SEGMENT_BYTES = 256 * 1024 * 1024
"""Bytes of keys and values after which a segment ends, however few records they are."""

WAITING_BYTES = 512 * 1024 * 1024
"""Bytes that wait in all partitions together; then the one with the most becomes a segment."""

NOTHING = Part(0, 0, (), ())

Snapshots = Callable[[Cluster], Iterable[Snapshot]]
"""Makes the snapshots that a cluster lacks: files of theirs are written, a manifest names them."""


class Appending:
    """One append to the archive of a cluster: `add` batches, say what was `reached`, `commit`.

    Raises as `read_chain`, and `ArchiveConflict` where the archive is of other topics or keeps
    secrets otherwise.
    """

    def __init__(
        self, store: Store, name: str, topics: Topics, secrets: str = "kept", sizes: Sizes = SIZES
    ) -> None:
        layout.check_cluster(name)
        self._store = store
        self._name = name
        self._topics = topics
        self._secrets = secrets
        self._sizes = sizes
        self._waiting: dict[Place, _Waiting] = {}
        self._segments: list[Segment] = []
        self._reaches: dict[Place, Reach] = {}
        self._chain = read_chain(store, name)
        self.cluster = Cluster(store, name, self._chain, parts_in(self._chain))
        if self._chain.manifests:
            self._check_alike()

    def end_of(self, topic: str, partition: int) -> int | None:
        """Where reading goes on; None: nothing of this partition is archived."""
        part = self.cluster.parts.get((topic, partition))
        return None if part is None else part.end

    def add(self, batch: Batch) -> int:
        """Take in records, which follow those before; answers how many are new.

        Raises:
            ArchiveConflict: another record is archived at a place, or none where the archive has
                gone on.
        """
        place = batch.topic, batch.partition
        table = table_of([batch])
        part = self.cluster.parts.get(place, NOTHING)
        known = int(pc.sum(pc.less(table.column("offset"), part.end)).as_py() or 0)
        if known:
            _check_archived(self._store, place, part, table.slice(0, known))
        fresh = table.slice(known)
        for start in range(0, fresh.num_rows, self._sizes.segment_records):
            self._take(place, fresh.slice(start, self._sizes.segment_records))
        return int(fresh.num_rows)

    def reached(self, topic: str, partition: int, start: int, end: int) -> None:
        """Say that everything from `start` (where the source begins) to `end` was added.

        What lies between the archive and a source that begins later is lost: a gap.
        """
        there = self.end_of(topic, partition)
        begin = start if there is None else max(start, there)
        if there is None or end > there:
            self._reaches[topic, partition] = Reach(topic, partition, begin, max(begin, end))

    def commit(self, snapshots: Snapshots | None = None) -> Manifest | None:
        """Make all of it count; None: there is nothing new. Snapshots are made of the whole.

        Raises:
            ArchiveBusy: somebody else has appended since this began.
        """
        for place in list(self._waiting):
            self._write(place)
        made = self._manifest()
        if snapshots is not None:
            whole = Chain((*self._chain.manifests, made), "")
            found = snapshots(Cluster(self._store, self._name, whole, parts_in(whole)))
            made = self._manifest(tuple(found))
        if not (made.reaches or made.segments or made.snapshots):
            return None
        if not self._store.add(layout.manifest(self._name, made.number), encoded(made)):
            raise ArchiveBusy(
                f"somebody else has appended to the archive of {self._name} meanwhile: run it again"
            )
        return made

    def _manifest(self, snapshots: tuple[Snapshot, ...] = ()) -> Manifest:
        return Manifest(
            self._name,
            len(self._chain.manifests) + 1,
            self._chain.head,
            self._topics,
            self._secrets,
            int(time() * 1_000),
            tuple(self._reaches[place] for place in sorted(self._reaches)),
            tuple(sorted(self._segments, key=lambda one: (one.topic, one.partition, one.start))),
            snapshots,
        )

    def _check_alike(self) -> None:
        if self.cluster.topics != self._topics:
            raise ArchiveConflict(
                f"the archive of {self._name} is of the topics {', '.join(_names(self.cluster))}: "
                "name these, or archive another cluster under another name"
            )
        if self.cluster.secrets != self._secrets:
            raise ArchiveConflict(
                f"secrets in the archive of {self._name} are {self.cluster.secrets}, not "
                f"{self._secrets}: go on like that, or archive it anew under another name"
            )

    def _take(self, place: Place, rows: pa.Table) -> None:
        """Let rows wait until they are a segment, or until too much waits."""
        waiting = self._waiting.setdefault(place, _Waiting())
        if waiting.rows + rows.num_rows > self._sizes.segment_records and waiting.rows:
            self._write(place)
            waiting = self._waiting.setdefault(place, _Waiting())
        waiting.take(rows)
        if waiting.bytes >= SEGMENT_BYTES:
            self._write(place)
        elif sum(one.bytes for one in self._waiting.values()) > WAITING_BYTES:
            self._write(max(self._waiting, key=lambda one: self._waiting[one].bytes))

    def _write(self, place: Place) -> None:
        """Write what waits of a partition as a segment."""
        topic, partition = place
        table = self._waiting.pop(place).table
        earlier = [one for one in self._segments if (one.topic, one.partition) == place]
        before = earlier or self.cluster.parts.get(place, NOTHING).segments
        latest_ms = before[-1].latest_ms if before else None
        offsets = table.column("offset")
        span = range(offsets[0].as_py(), offsets[-1].as_py() + 1)
        whole = written([table], self._sizes.row_group_rows)
        stored = whole.stored(layout.segment(self._name, topic, partition, span, whole.sha256))
        add_file(self._store, stored.file, whole)
        kept = self._write_winners(place, table, span, latest_ms)
        self._segments.append(described(place, table, latest_ms, stored, kept))

    def _write_winners(
        self, place: Place, table: pa.Table, span: range, before_ms: int | None
    ) -> Stored | None:
        """Write the rows of a segment that may still count, if they are few."""
        topic, partition = place
        if not reducible(topic, self._topics):
            return None
        found = winners([Held(table)], topic, self._topics, before_ms)
        if found.num_rows > WORTH_IT * table.num_rows:
            return None
        some = written([found])
        stored = some.stored(layout.winners(self._name, topic, partition, span, some.sha256))
        add_file(self._store, stored.file, some)
        return stored


class _Waiting:
    """Records of one partition that are not written yet."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self.bytes = 0
        self.rows = 0

    def take(self, table: pa.Table) -> None:
        self._tables.append(table)
        self.bytes += table.nbytes
        self.rows += table.num_rows

    @property
    def table(self) -> pa.Table:
        return pa.concat_tables(self._tables)


def described(
    place: Place,
    table: pa.Table,
    before_ms: int | None,
    stored: Stored,
    kept: Stored | None = None,
) -> Segment:
    """What a manifest tells of a segment with these rows; `before_ms` as in `winners`."""
    offsets, times = table.column("offset"), table.column("timestamp")
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    greatest = pc.max(times).as_py()
    timed = times.filter(pc.greater_equal(times, 0))
    return Segment(
        *place,
        start=first,
        end=last + 1,
        first_ms=timed[0].as_py() if len(timed) else -1,
        latest_ms=greatest if before_ms is None else max(before_ms, greatest),
        aborted=pc.sum(table.column("aborted")).as_py(),
        stored=stored,
        winners=kept,
    )


def add_file(store: Store, name: str, file: Written) -> None:
    """Write a file that is named after what is in it, if it is not there from a dead append.

    Raises:
        ArchiveCorrupt: another file has this name.
    """
    if not store.add(name, file.content) and store.read(name) != file.content:
        raise ArchiveCorrupt(f"{name} holds something else than its name says: remove it")


def _check_archived(store: Store, place: Place, part: Part, table: pa.Table) -> None:
    """Raise `ArchiveConflict` unless each of these rows is archived as it is."""
    topic, partition = place
    offsets = table.column("offset")
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    touched = [one for one in part.segments if one.start <= last and first < one.end]
    read = [
        group.read(*SCHEMA.names)
        for one in touched
        for group in row_groups(opened(store, one.stored))
        if group.first_offset <= last and first <= group.last_offset
    ]
    there = pa.concat_tables(one.cast(SCHEMA) for one in read) if read else SCHEMA.empty_table()
    where = pc.index_in(offsets, value_set=there.column("offset"))
    if where.null_count:
        missing = offsets.filter(pc.is_null(where))[0].as_py()
        why = (
            "the archive begins behind it" if missing < part.start else "the archive has none there"
        )
        raise _conflict(topic, partition, missing, why)
    archived = there.take(where)
    if not archived.equals(table):
        rows = zip(archived.to_pylist(), table.to_pylist(), strict=True)
        offset = next(new["offset"] for old, new in rows if old != new)
        raise _conflict(topic, partition, offset, "another record is archived there")


def _conflict(topic: str, partition: int, offset: int, why: str) -> ArchiveConflict:
    return ArchiveConflict(
        f"{topic} partition {partition} offset {offset} cannot be archived: {why}; is it another "
        "cluster, or a topic that was made anew? Then archive it under another name (NAME=LOG)"
    )


def _names(cluster: Cluster) -> tuple[str, ...]:
    return tuple(msgspec.structs.astuple(cluster.topics))
