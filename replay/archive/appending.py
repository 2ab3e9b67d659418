"""Adding to the archive of a cluster: records in, then one manifest that makes them count.

Whoever is killed on the way leaves files that no manifest names, or a manifest that names files
which are all there. What is archived already is compared and not added again.
"""

from collections.abc import Callable, Iterable
from time import time

import msgspec

from controlplane.core.entry import Batch
from controlplane.core.state import Topics
from replay.archive import layout
from replay.archive.cluster import Cluster, Part, Place, parts_in
from replay.archive.filling import NOTHING, Filling, Into
from replay.archive.manifest import Chain, Manifest, Reach, Segment, Snapshot, encoded, read_chain
from replay.archive.segments import SIZES, Sizes, table_of
from replay.archive.store import Store
from replay.errors import ArchiveBusy, ArchiveConflict

WAITING_BYTES = 512 * 1024 * 1024
"""Bytes that wait in all partitions together; then the one with the most becomes a segment."""

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
        self._fillings: dict[Place, Filling] = {}
        self._written: list[Segment] = []
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
        filling = self._filling((batch.topic, batch.partition))
        fresh = filling.add(table_of([batch]))
        if sum(one.waiting_bytes for one in self._fillings.values()) > WAITING_BYTES:
            max(self._fillings.values(), key=lambda one: one.waiting_bytes).write()
        return fresh

    def filling(self, place: Place, start: int) -> Filling:
        """What takes in the records of a partition from `start` on, elsewhere (`take_over`)."""
        part = self.cluster.parts.get(place, NOTHING)
        touched = tuple(one for one in part.segments if one.end > start) or part.segments[-1:]
        return self._new(place, part._replace(segments=touched))

    def take_over(self, segments: Iterable[Segment]) -> None:
        """Have segments count that a filling has written elsewhere."""
        self._written += segments

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
        for filling in self._fillings.values():
            filling.write()
        made = self._manifest()
        if snapshots is not None:
            whole = Chain((*self._chain.manifests, made), "")
            found = snapshots(Cluster(self._store, self._name, whole, parts_in(whole)))
            made = self._manifest(tuple(found))
        if not (made.reaches or made.segments or made.snapshots):
            return None
        if not self._store.take(layout.manifest(self._name, made.number), encoded(made)):
            raise ArchiveBusy(
                f"somebody else has appended to the archive of {self._name} meanwhile: run it again"
            )
        return made

    def _manifest(self, snapshots: tuple[Snapshot, ...] = ()) -> Manifest:
        filled = (one for filling in self._fillings.values() for one in filling.segments)
        segments = [*self._written, *filled]
        return Manifest(
            self._name,
            len(self._chain.manifests) + 1,
            self._chain.head,
            self._topics,
            self._secrets,
            int(time() * 1_000),
            tuple(self._reaches[place] for place in sorted(self._reaches)),
            tuple(sorted(segments, key=lambda one: (one.topic, one.partition, one.start))),
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

    def _filling(self, place: Place) -> Filling:
        if place not in self._fillings:
            self._fillings[place] = self._new(place, self.cluster.parts.get(place, NOTHING))
        return self._fillings[place]

    def _new(self, place: Place, part: Part) -> Filling:
        return Filling(Into(self._store, self._name, self._topics, self._sizes), place, part)


def _names(cluster: Cluster) -> tuple[str, ...]:
    return tuple(msgspec.structs.astuple(cluster.topics))
