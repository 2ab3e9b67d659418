"""Removal of the files that killed merges have left.

A merge writes its files before the manifest that names them. The files of a merge in progress
therefore look like those of a dead one. Three facts make the removal safe:

- Only drafts, claims of object stores, and files whose name belongs to one merge are removed. None
  of these is the only copy of a record. Files of a killed capture stay, because a capture that
  writes the same records again uses them.
- The files must be older than `AGE_S`, by the clock of the store. A merge that runs longer than
  half of `AGE_S` does not write its manifest (`merge.LONGEST_S`).
- No present or replaced manifest names them. So no reader has opened them.
"""

from time import time

from replay.archive import layout
from replay.archive.manifest import read_chain
from replay.archive.merges.replaced_files import unnamed_files
from replay.archive.stores.concurrent_requests import concurrently
from replay.archive.stores.store import ArchiveStore

AGE_S = 24 * 60 * 60
"""Age in seconds at which a file of a merge without a manifest belongs to a dead one.

A merge of one cluster takes minutes, and rarely hours. Longer merges give up.
"""


def leftovers(store: ArchiveStore, cluster: str, age_s: float = AGE_S) -> list[str]:
    """Files of a cluster that killed merges have left, and that are old enough.

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
    """Remove what killed merges have left; return the number of files.

    Raises:
        ArchiveCorrupt: the manifests are damaged; nothing is removed.
        NotWritable: a file cannot be removed.
    """
    names = leftovers(store, cluster, age_s)
    for _ in concurrently(store.remove, names):
        pass
    return len(names)
