"""The chain of manifests: what each append added, and the hash of the manifest before it.

So nothing can be altered, added or taken away in the middle without every later manifest being
wrong. Only the end can be cut off unseen; `verify` tells the hash of the last one, to be kept
elsewhere and compared.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

import msgspec

from controlplane.core.state import Topics
from replay.archive import layout
from replay.archive.store import Store
from replay.errors import ArchiveCorrupt, NoArchive

FORMAT = 1


class Stored(msgspec.Struct, frozen=True):
    """A file: its name within the archive, and what must be in it."""

    file: str
    bytes: int
    sha256: str
    records: int


class Reach(msgspec.Struct, frozen=True):
    """Of a partition, the offsets that an append has read: all records there were are archived.

    Where one does not begin at the end of the one before, offsets are missing that the source had
    lost by then. Kafka leaves offsets out by itself (markers, compaction); those are no gaps.
    """

    topic: str
    partition: int
    start: int
    end: int


class Segment(msgspec.Struct, frozen=True):
    """Records of one partition, at least one."""

    topic: str
    partition: int
    start: int
    """The offset of the first one."""
    end: int
    """The offset behind the last one."""
    first_ms: int
    """The time of the first record that has one, in ms since 1970; -1: none has."""
    latest_ms: int
    """The greatest timestamp of the partition up to here: so goes the order between partitions."""
    aborted: int
    """How many records are of aborted transactions."""
    stored: Stored
    winners: Stored | None = None
    """Those of its rows that may still count, where they are far fewer."""


class Rows(msgspec.Struct, frozen=True):
    """The rows of one partition in a snapshot's file, which follow those of the one before."""

    partition: int
    rows: int
    aborted: int


class TopicRows(msgspec.Struct, frozen=True):
    """The rows of a topic that may still count at a snapshot."""

    topic: str
    stored: Stored
    partitions: tuple[Rows, ...]


class Snapshot(msgspec.Struct, frozen=True):
    """What the records before a cut amount to."""

    day: str
    """The day at whose end it was (ISO 8601, UTC)."""
    ends: dict[str, list[int]]
    topics: tuple[TopicRows, ...]
    folded: Stored | None = None
    """What releases know of the topics in which every record may count, frozen."""


class Manifest(msgspec.Struct, frozen=True):
    """One append."""

    cluster: str
    number: int
    previous: str
    """The hash of the manifest before it; empty for the first."""
    topics: Topics
    secrets: str
    """What becomes of secrets on the way: `kept`, `dropped`, or `encrypted` with which key."""
    written_at_ms: int
    reaches: tuple[Reach, ...] = ()
    segments: tuple[Segment, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    format: int = FORMAT

    @property
    def files(self) -> Iterator[Stored]:
        """Every file that it vouches for."""
        for segment in self.segments:
            yield segment.stored
            if segment.winners is not None:
                yield segment.winners
        for snapshot in self.snapshots:
            yield from (one.stored for one in snapshot.topics)
            if snapshot.folded is not None:
                yield snapshot.folded


class Chain(NamedTuple):
    """The manifests of a cluster, the first first, and the hash of the last."""

    manifests: tuple[Manifest, ...]
    head: str


_DECODER = msgspec.json.Decoder(Manifest)


def encoded(manifest: Manifest) -> bytes:
    """A manifest as a file, which people can read."""
    return msgspec.json.format(msgspec.json.encode(manifest, order="sorted"), indent=1) + b"\n"


def read_chain(store: Store, cluster: str) -> Chain:
    """The manifests of a cluster, each of which vouches for the one before.

    Raises:
        ArchiveCorrupt: one is missing, altered, or none.
        NoArchive: they are of a format that is not known here.
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
    elsewhere = layout.named_wrongly(cluster, (one.file for one in manifest.files))
    if elsewhere is not None:
        raise ArchiveCorrupt(f"{name} names a file elsewhere ({elsewhere[:80]!r}): restore it")
    return manifest


def _decoded(name: str, content: bytes) -> Manifest:
    try:
        found = msgspec.json.decode(content)
        written_as = found.get("format") if isinstance(found, dict) else None
        if isinstance(written_as, int) and written_as > FORMAT:
            raise NoArchive(
                f"{name} has format {written_as}, known here is {FORMAT}: use a newer replay"
            )
        return _DECODER.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ArchiveCorrupt(f"{name} is no manifest ({error}): restore it") from None
