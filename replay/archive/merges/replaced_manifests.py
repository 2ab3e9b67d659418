"""Manifests that merges have replaced: their bytes, unchanged, in compressed files (`.tar.zst`).

The bytes keep the hash chain complete: any hash that `verify` or `capture` ever printed still
belongs to a manifest. The first file begins with the first manifest of the archive. Each later file
begins with the manifest of a merge, which names the previous file.
"""

import tarfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from io import BytesIO
from typing import NamedTuple

import pyarrow as pa
from msgspec import UNSET

from replay.archive import layout
from replay.archive.integrity import differing, read_whole
from replay.archive.manifest import (
    Chain,
    Manifest,
    StoredFile,
    check_link,
    decoded,
    read_chain,
)
from replay.archive.segments.segment_files import EncodedFile
from replay.archive.stores.concurrent_requests import concurrently
from replay.archive.stores.store import ArchiveStore
from replay.errors import ArchiveBusy, ArchiveCorrupt

FILE_BYTES = 4 * 1024 * 1024
"""Compressed bytes up to which the next merge extends a file instead of beginning another."""


class ReplacedManifest(NamedTuple):
    """A manifest that a merge has replaced."""

    manifest: Manifest
    content: bytes

    @property
    def sha256(self) -> str:
        """Hash of the manifest, as `verify` once printed it."""
        return sha256(self.content).hexdigest()


class ReplacedFile(NamedTuple):
    """A file with replaced manifests, the oldest first."""

    stored: StoredFile
    manifests: Sequence[ReplacedManifest]


def packed(store: ArchiveStore, cluster: str, chain: Chain, writer: str) -> tuple[str, EncodedFile]:
    """Encode the manifests of a chain for the merge that replaces them; return name and file.

    `writer` is a part of the name that no other merge uses.

    Raises:
        ArchiveBusy: another merge has removed a manifest since the chain was read.
    """
    first = chain.manifests[0]
    contents = _contents(store, cluster, chain)
    start = first.number
    if first.merge is not UNSET and first.merge.replaced.bytes < FILE_BYTES:
        earlier = _manifests_in(store, cluster, first.merge.replaced)
        contents[:0] = [replaced_one.content for replaced_one in earlier]
        start = earlier[0].manifest.number
    file = EncodedFile.of(_compressed(start, contents), len(contents))
    numbers = range(start, chain.next_number)
    return layout.replaced_manifests(cluster, numbers, file.sha256, writer), file


def _contents(store: ArchiveStore, cluster: str, chain: Chain) -> list[bytes]:
    """Bytes of the manifests of a chain, compared with their hashes."""
    following = [*(manifest.previous for manifest in chain.manifests[1:]), chain.head]
    contents: list[bytes] = []
    with suppress(FileNotFoundError):
        names = [layout.manifest(cluster, manifest.number) for manifest in chain.manifests]
        contents.extend(concurrently(store.read, names))
    if [sha256(content).hexdigest() for content in contents] != following:
        raise ArchiveBusy(
            f"the manifests of {cluster} have changed meanwhile: run the command again"
        )
    return contents


def replaced_files(store: ArchiveStore, chain: Chain) -> Iterator[ReplacedFile]:
    """Read the replaced manifests file by file, the latest file first, and check the chain.

    Raises:
        ArchiveBusy: a merge has removed a file since the chain was read.
        ArchiveCorrupt: a file is missing or altered, or its manifests do not form the chain.
    """
    following = chain.manifests[0] if chain.manifests else None
    while following is not None and following.merge is not UNSET:
        stored = following.merge.replaced
        try:
            manifests = _manifests_in(store, following.cluster, stored)
        except ArchiveBusy:
            # `check_current` blames another merge for every missing file that no present manifest
            # names. Present manifests name only the latest file with replaced manifests. So if an
            # earlier one is missing and no merge ran meanwhile, the archive is damaged.
            if read_chain(store, following.cluster).base == chain.base:
                raise differing(stored, "is missing") from None
            raise
        if manifests[-1].sha256 != following.previous:
            raise ArchiveCorrupt(
                f"{stored.file} does not end with the manifest before "
                f"{layout.manifest(following.cluster, following.number)}: restore it"
            )
        yield ReplacedFile(stored, manifests)
        following = manifests[0].manifest


def merged_manifests(store: ArchiveStore, chain: Chain) -> Iterator[Manifest]:
    """Manifests that merges have replaced.

    Raises:
        ArchiveBusy: as `replaced_files`.
        ArchiveCorrupt: as `replaced_files`.
    """
    for file in replaced_files(store, chain):
        yield from (replaced.manifest for replaced in file.manifests)


def _manifests_in(store: ArchiveStore, cluster: str, stored: StoredFile) -> list[ReplacedManifest]:
    manifests: list[ReplacedManifest] = []
    for content in _unpacked(stored.file, read_whole(store, stored)):
        manifest = decoded(stored.file, content)
        number, previous = manifest.number, manifest.previous
        if manifests:
            number, previous = manifests[-1].manifest.number + 1, manifests[-1].sha256
        elif manifest.merge is UNSET:  # then it is the first manifest of the archive
            number, previous = 1, ""
        check_link(stored.file, manifest, cluster, number, previous)
        manifests.append(ReplacedManifest(manifest, content))
    if not manifests or len(manifests) != stored.records:
        raise ArchiveCorrupt(
            f"{stored.file} has {len(manifests)} manifests and not {stored.records}: restore it"
        )
    return manifests


def _compressed(start: int, contents: Sequence[bytes]) -> bytes:
    sink = pa.BufferOutputStream()
    with (
        pa.CompressedOutputStream(sink, "zstd") as packing,
        tarfile.open(fileobj=packing, mode="w|") as archive,
    ):
        for number, content in enumerate(contents, start):
            member = tarfile.TarInfo(f"{number:010}.json")
            member.size = len(content)
            archive.addfile(member, BytesIO(content))
    return bytes(sink.getvalue())


def _unpacked(name: str, content: bytes) -> list[bytes]:
    try:
        with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as unpacking:
            packed_files = BytesIO(unpacking.read())
        with tarfile.open(fileobj=packed_files) as archive:
            files = (archive.extractfile(member) for member in archive)
            return [file.read() for file in files if file is not None]
    except (pa.ArrowException, OSError, tarfile.TarError) as error:
        raise ArchiveCorrupt(f"{name} cannot be unpacked ({error}): restore it") from None
