"""Chain of manifests: each describes one append and holds the hash of the manifest before it.

An alteration, addition or removal in the middle invalidates every later manifest. Only a cut-off
end stays undetected: `verify` prints the hash of the last manifest, to be stored elsewhere and
compared.

The manifest of a merge describes the whole archive and replaces the earlier manifests. A reader of
the archive begins with the last manifest of a merge. This manifest continues the chain: it holds
the hash of its predecessor. It also names a file with the replaced manifests
(`merges.replaced_manifests`).
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Annotated, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from controlplane.core.state import Topics
from replay.archive import layout
from replay.archive.stores.concurrent_requests import concurrently
from replay.archive.stores.store import ArchiveStore
from replay.errors import ArchiveCorrupt, NoArchive

FORMAT = 1
MERGE_FORMAT = 2
"""Format of a `Signpost`. Earlier versions also wrote the manifest of a merge in this format.
Versions of `replay` that know only format 1 refuse it."""

RETENTION_FORMAT = 3
"""Format in which earlier versions wrote the manifest of a merge if retention had removed records.
Versions without retention would take the removed offsets for holes that the log cleaner has left.
So they must refuse this format."""

READINGS_FORMAT = 4
"""Format of the manifest of a merge that names a file with readings (`StoredReadings`). A *reading*
is the range that one append has read of a partition. A *look* reads a partition up to its end. The
manifest itself joins the ranges of several looks. Earlier versions would take a joined range for
one look, so they must refuse this format."""

FORMATS = (FORMAT, MERGE_FORMAT, RETENTION_FORMAT, READINGS_FORMAT)
"""Formats that this version reads, the oldest first."""

_LISTINGS = 5
"""Maximum listings of the manifests per read, because a merge may remove listed ones."""

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Number within a manifest: each fits into 64 bits, as the columns of a segment do."""


class StoredFile(msgspec.Struct, frozen=True):
    """A file: its name within the archive, its size, its hash and its number of records."""

    file: str
    bytes: Int64
    sha256: str
    records: Int64


class ReadRange(msgspec.Struct, frozen=True):
    """Offsets of one partition that an append has read, and whose records it has archived.

    In the manifest of a merge, a range may join those of several appends. Offsets between two
    ranges are a gap: they were removed from the captured log before a capture read them. Offsets
    that Kafka itself skips (markers, compaction) are not a gap.
    """

    topic: str
    partition: Int64
    start: Int64
    end: Int64
    partial: bool | None = None
    """True if the append ended before the end that the log had then: the next append continues.

    None: written by a version that did not record it.
    """
    read_at_ms: Int64 | None = None
    """Time of the last append that read the range, if a merge has taken the range over. None: the
    time of the manifest applies."""


class Segment(msgspec.Struct, frozen=True):
    """Records of one partition, at least one."""

    topic: str
    partition: Int64
    start: Int64
    """Offset of the first record."""
    end: Int64
    """Offset after the last record."""
    first_ms: Int64
    """Time of the first record that has one, in ms since 1970; -1 if none has."""
    latest_ms: Int64
    """Greatest timestamp of the partition up to the segment's end.

    The order between records of different partitions depends on it (`core.order`).
    """
    aborted: Int64
    """Number of records of aborted transactions."""
    stored: StoredFile
    winners: StoredFile | None = None
    """File with the winners: the rows on which a state may depend (`segments.winners`).

    None if they are more than half of the rows, or if every record of the topic may count.
    """
    content: str | UnsetType = UNSET
    """Hash of the records, the same in any file (`record_hash`); earlier versions wrote none."""

    @property
    def is_dense(self) -> bool:
        """True if no offset between the first and the last record is missing."""
        return self.stored.records == self.end - self.start


class SnapshotRows(msgspec.Struct, frozen=True):
    """Number of one partition's rows in a snapshot file.

    The file holds one partition's rows after the other's, in the order of `TopicRows.partitions`.
    """

    partition: Int64
    rows: Int64
    aborted: Int64


class TopicRows(msgspec.Struct, frozen=True):
    """Rows of a topic on which a state at the cut of a snapshot, or later, may depend."""

    topic: str
    stored: StoredFile
    partitions: tuple[SnapshotRows, ...]


class Snapshot(msgspec.Struct, frozen=True):
    """Folded content of all records before a cut."""

    day: str
    """The day at whose end the cut lies (ISO 8601, UTC)."""
    ends: dict[str, list[Int64]]
    topics: tuple[TopicRows, ...]
    folded: StoredFile | None = None
    """Frozen states of the config and command topics, where a state may depend on every record."""

    @property
    def files(self) -> Iterator[StoredFile]:
        """All files of the snapshot."""
        yield from (topic.stored for topic in self.topics)
        if self.folded is not None:
            yield self.folded


class StoredReadings(msgspec.Struct, frozen=True):
    """Readings up to a merge: how far each append has read each partition (`readings_file`)."""

    stored: StoredFile
    all_read_ms: Int64
    """Time of the last append that read every partition to its end, in ms since 1970; 0: none."""


class Merge(msgspec.Struct, frozen=True):
    """Marks the manifest of a merge, and names the file with the replaced manifests."""

    replaced: StoredFile
    readings: StoredReadings | UnsetType = UNSET
    """Readings that the merge has taken over. Earlier versions left each of them in `reaches`."""


class ExpiredRecords(msgspec.Struct, frozen=True):
    """Records of one partition that one retention has removed."""

    topic: str
    partition: Int64
    start: Int64
    """Offset of the first removed record."""
    end: Int64
    """The cut: every record from this offset on stays."""
    records: Int64
    aborted: Int64
    """Number of removed records of aborted transactions."""
    bytes: Int64
    """Bytes of the removed keys and values."""
    content: str
    """SHA-256 of the removed records: over the `record_hash` of each segment's removed rows."""


class Retention(msgspec.Struct, frozen=True):
    """A merge's removal of the records that were superseded at a cut; part of its manifest."""

    cut_ms: Int64
    """Time of the cut, in ms since 1970: every state from then on is unchanged."""
    age_ms: Int64
    """Age of the cut when the retention ran, as the operator gave it."""
    expired: tuple[ExpiredRecords, ...]


class RemovedRecords(msgspec.Struct, frozen=True):
    """All records of one partition that retention has removed so far."""

    topic: str
    partition: Int64
    start: Int64
    """Offset of the first removed record."""
    end: Int64
    """The latest cut; each record from this offset on is archived."""
    records: Int64
    cut_ms: Int64
    """Time of the latest cut, in ms since 1970."""
    removed_at_ms: Int64
    """Time of the latest removal."""
    offsets: StoredFile
    """File with the ranges of removed offsets (`removed_offsets`)."""


class Manifest(msgspec.Struct, frozen=True):
    """Description of one append, or of the whole archive after a merge."""

    cluster: str
    number: Int64
    previous: str
    """Hash of the previous manifest; empty in the first."""
    topics: Topics
    secrets: str
    """Policy for secrets: `kept`, `dropped`, or `encrypted` with the id of the key."""
    written_at_ms: Int64
    reaches: tuple[ReadRange, ...] = ()
    segments: tuple[Segment, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    format: Int64 = FORMAT
    base: Int64 | UnsetType = UNSET
    """Number of the last merge's manifest, at which reading begins; unset before the first."""
    merge: Merge | UnsetType = UNSET
    retention: Retention | UnsetType = UNSET
    """Records that this merge removed by age; unset without any."""
    removed: tuple[RemovedRecords, ...] | UnsetType = UNSET
    """Records that retention has removed so far. Unset if none, and in manifests of appends."""
    reads_all: bool | UnsetType = UNSET
    """False if this append left out a partition, or did not read one to its end.

    `reaches` then names each partition that was read. Unset in all other manifests, also in those
    of earlier versions.
    """

    @property
    def readings(self) -> StoredReadings | UnsetType:
        """Readings that a merge has taken over; unset if they are in `reaches`."""
        return UNSET if self.merge is UNSET else self.merge.readings

    @property
    def removed_records(self) -> tuple[RemovedRecords, ...]:
        """Records that retention has removed so far, by partition."""
        return () if self.removed is UNSET else self.removed

    @property
    def files(self) -> Iterator[StoredFile]:
        """All files that the manifest names."""
        for segment in self.segments:
            yield from filter(None, (segment.stored, segment.winners))
        for snapshot in self.snapshots:
            yield from snapshot.files
        if self.merge is not UNSET:
            yield self.merge.replaced
        if self.readings is not UNSET:
            yield self.readings.stored
        yield from (removed.offsets for removed in self.removed_records)


class Signpost(msgspec.Struct, frozen=True):
    """Takes the place of manifest 1 after a merge, for versions that begin reading there.

    These versions refuse its format with a clear message; this version skips it.
    """

    cluster: str
    merged_into: int
    """Number of the manifest that replaced the first one."""
    format: int = MERGE_FORMAT


class Chain(NamedTuple):
    """Manifests of a cluster from its last merge on, the oldest first, and the hash of the last."""

    manifests: tuple[Manifest, ...]
    head: str

    @property
    def files(self) -> Iterator[StoredFile]:
        """All files that the manifests name, in the order of the manifests."""
        for manifest in self.manifests:
            yield from manifest.files

    @property
    def base(self) -> int | UnsetType:
        """Number of the last merge's manifest; unset before the first merge."""
        return self.manifests[0].base if self.manifests else UNSET

    @property
    def removed(self) -> tuple[RemovedRecords, ...]:
        """Records that retention has removed so far, by partition."""
        return self.manifests[0].removed_records if self.manifests else ()

    @property
    def next_number(self) -> int:
        """Number of the manifest that continues the chain."""
        return self.manifests[-1].number + 1 if self.manifests else 1


_DECODER = msgspec.json.Decoder(Manifest)
_SIGNPOST = msgspec.json.Decoder(Signpost)


def encoded(manifest: Manifest | Signpost) -> bytes:
    """Encode a manifest as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(manifest, order="sorted"), indent=1) + b"\n"


def read_chain(store: ArchiveStore, cluster: str) -> Chain:
    """Read the manifests of a cluster, from the last merge on, and check the hash chain.

    Raises:
        ArchiveCorrupt: a manifest is missing, altered or invalid.
        NoArchive: the format is unknown.
    """
    names = _listed(store, cluster)
    for _ in range(_LISTINGS):
        try:
            return _read(store, cluster, names)
        except (ArchiveCorrupt, FileNotFoundError):
            before, names = names, _listed(store, cluster)
            if names == before:  # else a merge has removed manifests meanwhile
                break
    try:
        return _read(store, cluster, names)
    except FileNotFoundError:
        raise ArchiveCorrupt(
            f"{layout.manifests(cluster)} changes while it is read: run the command again"
        ) from None


def is_last(store: ArchiveStore, cluster: str, number: int) -> bool:
    """True if no manifest has a greater number, not even a renamed one."""
    last = layout.manifest(cluster, number).rpartition("/")[2]
    return all(
        name <= last if layout.is_manifest(name) else layout.renamed_number(name) != number + 1
        for name in _listed(store, cluster)
    )


def _listed(store: ArchiveStore, cluster: str) -> list[str]:
    """Names of the manifests, and of files that may be renamed manifests."""
    names = store.names(layout.manifests(cluster))
    return [
        name
        for name in names
        if layout.is_manifest(name) or layout.renamed_number(name) is not None
    ]


def _read(store: ArchiveStore, cluster: str, names: list[str]) -> Chain:
    """Read the manifests with these names. Raises `FileNotFoundError` if one was removed."""
    manifests = [name for name in names if layout.is_manifest(name)]
    renamed = [name for name in names if not layout.is_manifest(name)]
    chain = _read_manifests(store, cluster, manifests, renamed)
    number = chain.next_number
    expected = layout.manifest(cluster, number)
    for name in renamed:
        if layout.renamed_number(name) != number:
            continue
        # Without this check, the archive would silently end before the renamed manifest.
        path = f"{layout.manifests(cluster)}/{name}"
        if _continues(chain, cluster, path, store.read(path)):
            base_name = expected.rpartition("/")[2]
            raise ArchiveCorrupt(f"{expected} is missing: rename {path} to {base_name}")
    return chain


def _continues(chain: Chain, cluster: str, name: str, content: bytes) -> bool:
    """True if the content is the next manifest of the chain: it has the hash of the last one."""
    try:
        check_link(name, decoded(name, content), cluster, chain.next_number, chain.head)
    except (ArchiveCorrupt, NoArchive):
        return False
    return True


def _read_manifests(
    store: ArchiveStore, cluster: str, names: list[str], renamed: list[str]
) -> Chain:
    if not names:
        return Chain((), "")
    last_name = f"{layout.manifests(cluster)}/{names[-1]}"
    last = store.read(last_name)
    newest = _last_manifest(cluster, last_name, last, renamed)
    start = 1 if newest.base is UNSET else newest.base
    manifests: list[Manifest] = []
    head = ""
    paths = [f"{layout.manifests(cluster)}/{name}" for name in names if name >= f"{start:010}"]
    contents = concurrently(store.read, paths[:-1], store.requests_at_once)
    for number, path in enumerate(paths, start=start):
        expected = layout.manifest(cluster, number)
        if path != expected:
            raise ArchiveCorrupt(f"{expected} is missing: restore it")
        is_last_name = path == paths[-1]
        content = last if is_last_name else next(contents)
        manifest = newest if is_last_name else decoded(expected, content)
        # The predecessor of a merge's manifest was replaced: `merges.replaced_manifests` checks its
        # hash.
        previous = head if manifests or start == 1 else manifest.previous
        check_link(expected, manifest, cluster, number, previous)
        manifests.append(manifest)
        head = sha256(content).hexdigest()
    _check_base(cluster, start, manifests)
    return Chain(tuple(manifests), head)


def _last_manifest(cluster: str, name: str, content: bytes, renamed: list[str]) -> Manifest:
    """Decode the last manifest. `renamed`: names of files that may be renamed manifests.

    Raises:
        ArchiveCorrupt: the content is invalid, or it is a signpost. In the second case, the
            manifests after the signpost are lost.
        NoArchive: the format is unknown.
    """
    try:
        return decoded(name, content)
    except ArchiveCorrupt:
        signpost = signpost_in(content)
        if signpost is None:
            raise
    expected = layout.manifest(cluster, signpost.merged_into)
    for other in renamed:
        if layout.renamed_number(other) == signpost.merged_into:
            base_name = expected.rpartition("/")[2]
            path = f"{layout.manifests(cluster)}/{other}"
            raise ArchiveCorrupt(
                f"{expected} is missing: if {path} is this file, rename it to {base_name}"
            )
    raise ArchiveCorrupt(f"{expected} is missing: restore it and all manifests after it")


def signpost_in(content: bytes) -> Signpost | None:
    """Decode a signpost; None for anything else."""
    try:
        return _SIGNPOST.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _check_base(cluster: str, start: int, manifests: list[Manifest]) -> None:
    """Raise `ArchiveCorrupt` unless the manifests begin with the merge that all of them name."""
    base = UNSET if start == 1 else start
    if not manifests:
        raise ArchiveCorrupt(f"{layout.manifest(cluster, start)} is missing: restore it")
    for manifest in manifests:
        is_merge = manifest.merge is not UNSET
        if manifest.base != base or is_merge is not (manifest.number == base):
            raise ArchiveCorrupt(
                f"{layout.manifest(cluster, manifest.number)} does not belong to the merge with "
                "which the manifests begin: restore it"
            )


def check_link(name: str, manifest: Manifest, cluster: str, number: int, previous: str) -> None:
    """Check that a manifest is the given link of the chain.

    Raises:
        ArchiveCorrupt: it follows another manifest, belongs elsewhere or names foreign files.
    """
    if manifest.previous != previous:
        raise ArchiveCorrupt(
            f"{name} does not follow the manifest before it: one of them was altered, restore both"
        )
    if (manifest.cluster, manifest.number) != (cluster, number):
        raise ArchiveCorrupt(
            f"{name} is manifest {manifest.number} of cluster {manifest.cluster}: put it back there"
        )
    elsewhere = layout.named_wrongly(cluster, (file.file for file in manifest.files))
    if elsewhere is not None:
        raise ArchiveCorrupt(f"{name} names a file elsewhere ({elsewhere[:80]!r}): restore it")


def decoded(name: str, content: bytes) -> Manifest:
    """Decode a manifest.

    Raises:
        ArchiveCorrupt: the content is no manifest.
        NoArchive: the format is unknown.
    """
    try:
        document = msgspec.json.decode(content)
        written_as = document.get("format") if isinstance(document, dict) else None
        if isinstance(written_as, int) and written_as > FORMATS[-1]:
            raise NoArchive(
                f"{name} has format {written_as}, but only {FORMATS[0]} to {FORMATS[-1]} are "
                "known: use a newer replay"
            )
        return _DECODER.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ArchiveCorrupt(f"{name} is no manifest ({error}): restore it") from None
