"""Files that no present manifest names: search, and removal of those that merges leave behind.

**Replaced files**: a replaced manifest names them, so files of an append in progress are never
among them. A removal that is interrupted is completed by the next one.

**Leftovers** of killed processes: a merge writes its files before the manifest that names them. The
files of a merge in progress therefore look like those of a dead one. Three facts make the removal
safe:

- Only drafts, claims of object stores, and files whose name belongs to one merge are removed. None
  of these is the only copy of a record. Files of a killed capture stay, because a capture that
  writes the same records again uses them.
- The files must be older than `AGE_S`, by the clock of the store. A merge that runs longer than
  half of `AGE_S` does not write its manifest (`merge.LONGEST_S`).
- No present or replaced manifest names them. So no reader has opened them.
"""

from time import time
from typing import NamedTuple

from msgspec import UNSET

from replay.archive import layout
from replay.archive.manifest import Chain, Signpost, encoded, read_chain, signpost_in
from replay.archive.merges.replaced_manifests import replaced_files
from replay.archive.stores.concurrent_requests import concurrently
from replay.archive.stores.store import ArchiveStore

AGE_S = 24 * 60 * 60
"""Least age, in seconds, of the leftovers that are removed: 24 hours.

No manifest names a leftover. The process that wrote a leftover of this age must have died. A merge
of one cluster takes minutes, and rarely hours. After `merge.LONGEST_S` it gives up.
"""


class UnnamedFiles(NamedTuple):
    """Files of a cluster that its present manifests do not name."""

    replaced: tuple[str, ...]
    """Files that a merge has replaced: manifests first, then others."""
    leftovers: tuple[str, ...]
    """Files that no manifest ever named: an append or a merge died, or is in progress."""


def unnamed_files(store: ArchiveStore, cluster: str, chain: Chain) -> UnnamedFiles:
    """Find the files that do not count; without any, no packed manifest is read.

    Raises:
        ArchiveCorrupt: packed manifests are missing or altered.
    """
    named = {file.file for file in chain.files}
    named |= {layout.manifest(cluster, manifest.number) for manifest in chain.manifests}
    named |= {*_signposts(store, cluster, chain)}
    unnamed = [name for name in store.walk(layout.folder(cluster)) if name not in named]
    manifests: dict[str, bytes] = {}
    others: set[str] = set()
    if unnamed and chain.base is not UNSET:
        for packed in replaced_files(store, chain):
            named.add(packed.stored.file)
            for manifest, content in packed.manifests:
                manifests[layout.manifest(cluster, manifest.number)] = content
                others |= {file.file for file in manifest.files}
    unnamed = [name for name in unnamed if name not in named]
    present = [name for name in unnamed if name in manifests]
    same = concurrently(lambda name: _is_unchanged(store, name, manifests[name]), present)
    replaced = [name for name, is_same in zip(present, same, strict=True) if is_same]
    replaced += [name for name in unnamed if name in others]
    leftovers = {*unnamed} - {*replaced}
    return UnnamedFiles(tuple(replaced), tuple(name for name in unnamed if name in leftovers))


def _is_unchanged(store: ArchiveStore, name: str, content: bytes) -> bool:
    """Compare a manifest; a late append may have reused the name of a removed manifest."""
    try:
        return store.read(name) == content
    except FileNotFoundError:
        return False


def _signposts(store: ArchiveStore, cluster: str, chain: Chain) -> list[str]:
    if chain.base is UNSET:
        return []
    first = layout.manifest(cluster, 1)
    try:
        return [] if signpost_in(store.read(first)) is None else [first]
    except FileNotFoundError:
        return []


class Removal(NamedTuple):
    """Numbers of replaced files: removed ones, and ones that remain for the grace period."""

    removed: int
    remaining: int


def remove_replaced(store: ArchiveStore, cluster: str, grace_s: float) -> Removal:
    """Remove the replaced files of a cluster.

    They remain for `grace_s` seconds after the last merge, for commands that are reading them.

    Raises:
        ArchiveCorrupt: the manifests are damaged; nothing is removed.
        NotWritable: a file cannot be removed.
    """
    chain = read_chain(store, cluster)
    replaced = unnamed_files(store, cluster, chain).replaced
    if chain.base is UNSET or not replaced:
        return Removal(0, 0)
    if chain.manifests[0].written_at_ms > (time() - grace_s) * 1_000:
        return Removal(0, len(replaced))
    first = layout.manifest(cluster, 1)
    if first in replaced:
        # Older versions begin reading here, so the signpost comes before any removal.
        store.replace(first, encoded(Signpost(cluster, chain.base)))
    for _ in concurrently(store.remove, (name for name in replaced if name != first)):
        pass
    return Removal(len(replaced), 0)


def leftovers(store: ArchiveStore, cluster: str, age_s: float = AGE_S) -> list[str]:
    """Transient files of a cluster that are old enough: killed processes have left them.

    Raises:
        ArchiveCorrupt: the manifests are damaged.
    """
    unnamed = unnamed_files(store, cluster, read_chain(store, cluster)).leftovers
    names = [name for name in unnamed if layout.is_transient(name)]
    latest_s = time() - age_s
    times = concurrently(store.modified_s, names)
    return [
        name
        for name, modified_s in zip(names, times, strict=True)
        if modified_s is not None and modified_s <= latest_s
    ]


def remove_leftovers(store: ArchiveStore, cluster: str, age_s: float = AGE_S) -> int:
    """Remove the files that `leftovers` finds; return their number.

    Raises:
        ArchiveCorrupt: the manifests are damaged; nothing is removed.
        NotWritable: a file cannot be removed.
    """
    names = leftovers(store, cluster, age_s)
    for _ in concurrently(store.remove, names):
        pass
    return len(names)
