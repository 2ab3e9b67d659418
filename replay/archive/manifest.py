"""Chain of manifests: each describes one append and holds the hash of the manifest before it.

An alteration, addition or removal in the middle invalidates every later manifest. Only a cut-off
end stays undetected: `verify` prints the hash of the last manifest, to be stored elsewhere and
compared.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

import msgspec

from controlplane.core.state import Topics
from replay.archive import layout
from replay.archive.store import ArchiveStore
from replay.errors import ArchiveCorrupt, NoArchive

FORMAT = 1


class StoredFile(msgspec.Struct, frozen=True):
    """A file: its name within the archive, its size, its hash and its number of records."""

    file: str
    bytes: int
    sha256: str
    records: int


class ReadRange(msgspec.Struct, frozen=True):
    """Offsets of one partition that an append has read; all records in them are archived.

    A range that begins after the end of the range before leaves a gap: the source had lost these
    offsets. Offsets that Kafka itself skips (markers, compaction) are not a gap.
    """

    topic: str
    partition: int
    start: int
    end: int
    partial: bool | None = None
    """True if the append ended before the look, the reading up to the end that the log had then.
    None: written by a version that did not record it."""
    read_at_ms: int | None = None
    """Time of the append that read it, if a merged manifest has taken it over; None: the time of
    its manifest."""


class Segment(msgspec.Struct, frozen=True):
    """Records of one partition, at least one."""

    topic: str
    partition: int
    start: int
    """Offset of the first record."""
    end: int
    """Offset after the last record."""
    first_ms: int
    """Time of the first record that has one, in ms since 1970; -1 if none has."""
    latest_ms: int
    """Greatest timestamp of the partition up to the segment's end; it orders partitions."""
    aborted: int
    """Number of records of aborted transactions."""
    stored: StoredFile
    winners: StoredFile | None = None
    """File with the rows that may still count; None if they are not far fewer."""


class SnapshotRows(msgspec.Struct, frozen=True):
    """Number of one partition's rows in a snapshot file; partitions follow each other."""

    partition: int
    rows: int
    aborted: int


class TopicRows(msgspec.Struct, frozen=True):
    """Rows of a topic that may still count at a snapshot."""

    topic: str
    stored: StoredFile
    partitions: tuple[SnapshotRows, ...]


class Snapshot(msgspec.Struct, frozen=True):
    """Folded content of all records before a cut."""

    day: str
    """The day at whose end the cut lies (ISO 8601, UTC)."""
    ends: dict[str, list[int]]
    topics: tuple[TopicRows, ...]
    folded: StoredFile | None = None
    """Frozen states of topics in which every record may count."""


class Manifest(msgspec.Struct, frozen=True):
    """Description of one append: its segments, read ranges and snapshots."""

    cluster: str
    number: int
    previous: str
    """Hash of the manifest before; empty in the first."""
    topics: Topics
    secrets: str
    """Policy for secrets: `kept`, `dropped`, or `encrypted` with the id of the key."""
    written_at_ms: int
    reaches: tuple[ReadRange, ...] = ()
    segments: tuple[Segment, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    format: int = FORMAT

    @property
    def files(self) -> Iterator[StoredFile]:
        """All files that the manifest names."""
        for segment in self.segments:
            yield segment.stored
            if segment.winners is not None:
                yield segment.winners
        for snapshot in self.snapshots:
            yield from (topic.stored for topic in snapshot.topics)
            if snapshot.folded is not None:
                yield snapshot.folded


class Chain(NamedTuple):
    """Manifests of a cluster, the oldest first, and the hash of the last."""

    manifests: tuple[Manifest, ...]
    head: str


_DECODER = msgspec.json.Decoder(Manifest)


def encoded(manifest: Manifest) -> bytes:
    """Encode a manifest as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(manifest, order="sorted"), indent=1) + b"\n"


def read_chain(store: ArchiveStore, cluster: str) -> Chain:
    """Read the manifests of a cluster and check the hash chain.

    Raises:
        ArchiveCorrupt: a manifest is missing, altered or invalid.
        NoArchive: the format is unknown.
    """
    manifests: list[Manifest] = []
    head = ""
    names = filter(layout.is_manifest, store.names(layout.manifests(cluster)))
    for number, name in enumerate(names, start=1):
        expected = layout.manifest(cluster, number)
        if f"{layout.manifests(cluster)}/{name}" != expected:
            raise ArchiveCorrupt(f"{expected} is missing: restore it")
        content = store.read(expected)
        manifests.append(_checked(expected, content, cluster, number, head))
        head = sha256(content).hexdigest()
    return Chain(tuple(manifests), head)


def _checked(name: str, content: bytes, cluster: str, number: int, previous: str) -> Manifest:
    manifest = _decoded(name, content)
    if manifest.previous != previous:
        raise ArchiveCorrupt(
            f"{name} does not follow the manifest before it: one of the two was altered, restore it"
        )
    if (manifest.cluster, manifest.number) != (cluster, number):
        raise ArchiveCorrupt(
            f"{name} is manifest {manifest.number} of cluster {manifest.cluster}: put it back there"
        )
    elsewhere = layout.named_wrongly(cluster, (file.file for file in manifest.files))
    if elsewhere is not None:
        raise ArchiveCorrupt(f"{name} names a file elsewhere ({elsewhere[:80]!r}): restore it")
    return manifest


def _decoded(name: str, content: bytes) -> Manifest:
    try:
        document = msgspec.json.decode(content)
        written_as = document.get("format") if isinstance(document, dict) else None
        if isinstance(written_as, int) and written_as > FORMAT:
            raise NoArchive(
                f"{name} has format {written_as}, but only {FORMAT} is known: use a newer replay"
            )
        return _DECODER.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ArchiveCorrupt(f"{name} is no manifest ({error}): restore it") from None
