"""Merge of the small segments and the manifests of a cluster's archive.

The order of writes makes a merge whole or absent:

1. Segments of two or more original ones are written, and a file with the manifests so far.
2. One manifest makes them count. Its name exists once: of two merges, or of a merge and an append,
   one gets it. An append does not change what is merged, so the merge takes the next name. After
   another merge it ends, and removes its files.
3. Then the originals are removed (`replaced_files`). A merge that was killed before is completed by
   the next one.

Records, their order, read ranges and gaps stay as they are, so no answer changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from time import time
from typing import NamedTuple
from uuid import uuid4

import msgspec
import pyarrow as pa
from msgspec import UNSET

from replay.archive import layout
from replay.archive.archived_cluster import PartitionId, open_cluster
from replay.archive.concurrent_requests import concurrently
from replay.archive.integrity import checked
from replay.archive.looks import is_partial, read_at_ms
from replay.archive.manifest import (
    MERGE_FORMAT,
    Chain,
    Manifest,
    Merge,
    ReadRange,
    Segment,
    encoded,
    read_chain,
)
from replay.archive.replaced_manifests import packed
from replay.archive.segment_groups import groups
from replay.archive.segment_writer import SegmentTarget, SegmentWriter, add_file
from replay.archive.segments import SCHEMA, SIZES, SegmentSizes, opened, row_groups
from replay.archive.store import ArchiveStore
from replay.errors import ArchiveBusy, ReplayError
from replay.progress import Advance

ATTEMPTS = 20
"""Maximum attempts to write the manifest; each append in between costs one."""

_WRITER_DIGITS = 8
"""Digits that make the names of the files of one merge its own."""


class MergeResult(NamedTuple):
    """Numbers of a merge: files that count, before and after."""

    cluster: str
    merged: bool
    """False if there was nothing to merge."""
    manifests: tuple[int, int]
    segments: tuple[int, int]
    files: tuple[int, int]
    """Manifests, and the files that they name."""
    bytes: tuple[int, int]
    """Bytes of the files that manifests name."""
    head: str
    """Hash of the last manifest."""


class Merger:
    """Merges the archive of one cluster: `work` is known before `run`.

    Raises the errors of `open_cluster`.
    """

    def __init__(self, store: ArchiveStore, name: str, sizes: SegmentSizes = SIZES) -> None:
        self._store = store
        self._sizes = sizes
        self.cluster = checked(open_cluster(store, name))
        fresh = {
            segment.stored.file
            for manifest in self.cluster.chain.manifests
            if manifest.merge is UNSET
            for segment in manifest.segments
        }
        self._groups = {
            place: chosen
            for place, part in self.cluster.parts.items()
            if (chosen := list(groups(part.segments, fresh, sizes)))
        }

    @property
    def work(self) -> int:
        """Compressed bytes of the segments to merge, as `run` reports them."""
        return sum(
            segment.stored.bytes
            for chosen in self._groups.values()
            for group in chosen
            for segment in group
        )

    def run(self, advance: Advance = lambda _: None) -> MergeResult:
        """Merge, and return the numbers; originals stay for `replaced_files`.

        Raises:
            ArchiveCorrupt: an original is missing or altered; nothing is changed.
            ArchiveBusy: another merge was faster; nothing is changed.
            NotWritable: no room, or no permission; nothing is changed.
        """
        before = self.cluster.chain
        if not self._groups and len(before.manifests) == 1:
            return _result(before, before)
        writer = f"-{uuid4().hex[:_WRITER_DIGITS]}"
        try:
            merged = self._merged_segments(writer, advance)
            return _result(before, self._commit(writer, merged))
        except BaseException:
            self._discard(writer)
            raise

    def _merged_segments(self, writer: str, advance: Advance) -> dict[str, Sequence[Segment]]:
        """Write the merged segments; return the replacement of each original, by its file."""
        store, name, topics = self._store, self.cluster.name, self.cluster.topics
        target = SegmentTarget(store, name, topics, self._sizes, writer)
        replacement: dict[str, Sequence[Segment]] = {}
        for place, chosen in self._groups.items():
            for group in chosen:
                replacement |= {segment.stored.file: () for segment in group}
                written = self._written(target, place, group, advance)
                replacement[group[0].stored.file] = written
        return replacement

    def _written(
        self, target: SegmentTarget, place: PartitionId, group: Sequence[Segment], advance: Advance
    ) -> Sequence[Segment]:
        """Write the records of a group as one segment; very long records make it several."""
        part = self.cluster.parts[place]
        start = group[0].start
        earlier = tuple(segment for segment in part.segments if segment.end <= start)
        into = SegmentWriter(target, place, part._replace(segments=earlier[-1:], end=start))
        for segment, rows in zip(group, concurrently(self._rows, group), strict=True):
            into.add(rows)
            advance(segment.stored.bytes)
        into.write()
        return into.segments

    def _rows(self, segment: Segment) -> pa.Table:
        """Read a segment, whose hash is compared first."""
        groups_of_rows = row_groups(opened(self.cluster.store, segment.stored))
        return pa.concat_tables(rows.read(*SCHEMA.names).cast(SCHEMA) for rows in groups_of_rows)

    def _commit(self, writer: str, replacement: Mapping[str, Sequence[Segment]]) -> Chain:
        """Write the manifest behind the present chain, and return the chain with it."""
        chain, name = self.cluster.chain, self.cluster.name
        for _ in range(ATTEMPTS):
            made = self._manifest_written(writer, chain, replacement)
            chain = read_chain(self._store, name)
            if made is not None and chain.manifests[0] == made:
                return chain
            if made is not None:  # under the name of a manifest that another merge has removed
                self._store.remove(layout.manifest(name, made.number))
            if chain.base != self.cluster.chain.base:
                raise ArchiveBusy(
                    f"another process has merged the archive of {name} meanwhile: this merge has "
                    "changed nothing and removed its files"
                )
        raise ArchiveBusy(f"others keep appending to the archive of {name}: merge it later")

    def _manifest_written(
        self, writer: str, chain: Chain, replacement: Mapping[str, Sequence[Segment]]
    ) -> Manifest | None:
        """Write the manifest behind a chain; return None if another process has changed it."""
        name = self.cluster.name
        try:
            replaced_name, file = packed(self._store, name, chain, writer)
        except ArchiveBusy:
            return None
        add_file(self._store, replaced_name, file)
        made = _whole(chain, replacement, Merge(file.stored(replaced_name)))
        if self._store.take(layout.manifest(name, made.number), encoded(made)):
            return made
        self._store.remove(replaced_name)
        return None

    def _discard(self, writer: str) -> None:
        """Remove the files of this merge that do not count; no other writer can name them."""
        with suppress(ReplayError):  # of a store that fails, the first error is told
            chain = read_chain(self._store, self.cluster.name)
            named = {file.file for file in chain.files}
            for file in self._store.walk(layout.folder(self.cluster.name)):
                if writer in file and file not in named:
                    self._store.remove(file)


def _result(before: Chain, after: Chain) -> MergeResult:
    return MergeResult(
        after.manifests[0].cluster,
        before.head != after.head,
        (len(before.manifests), len(after.manifests)),
        (_segments(before), _segments(after)),
        (_number_of_files(before), _number_of_files(after)),
        (sum(_files(before).values()), sum(_files(after).values())),
        after.head,
    )


def _segments(chain: Chain) -> int:
    return sum(len(manifest.segments) for manifest in chain.manifests)


def _number_of_files(chain: Chain) -> int:
    return len(_files(chain)) + len(chain.manifests)


def _files(chain: Chain) -> dict[str, int]:
    """Sizes of the files that a chain names."""
    return {file.file: file.bytes for file in chain.files}


def _read_ranges(chain: Chain) -> Iterator[ReadRange]:
    """Read ranges in the order of their appends, with the time of each and the end of its look.

    They are not joined: what is certain depends on where looks ended (`looks.py`).
    """
    for manifest in chain.manifests:
        for reach in manifest.reaches:
            yield msgspec.structs.replace(
                reach,
                partial=is_partial(manifest, reach),
                read_at_ms=read_at_ms(manifest, reach),
            )


def _whole(chain: Chain, replacement: Mapping[str, Sequence[Segment]], merge: Merge) -> Manifest:
    """Describe everything that a chain describes, with merged segments in place of originals."""
    first, number = chain.manifests[0], chain.next_number
    segments = [
        segment
        for manifest in chain.manifests
        for original in manifest.segments
        for segment in replacement.get(original.stored.file, (original,))
    ]
    return Manifest(
        first.cluster,
        number,
        chain.head,
        first.topics,
        first.secrets,
        int(time() * 1_000),
        tuple(_read_ranges(chain)),
        tuple(sorted(segments, key=attrgetter("topic", "partition", "start"))),
        tuple(snapshot for manifest in chain.manifests for snapshot in manifest.snapshots),
        format=MERGE_FORMAT,
        base=number,
        merge=merge,
    )
