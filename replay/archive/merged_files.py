"""Files that a merge has put in the place of others: seen by a reader that opened it before."""

from replay.archive.manifest import StoredFile, read_chain
from replay.archive.store import ArchiveStore
from replay.errors import ArchiveBusy


def check_current(store: ArchiveStore, absent: StoredFile) -> None:
    """Raise `ArchiveBusy` if a file is absent because a merge has replaced it.

    Raises:
        ArchiveCorrupt: the manifests are damaged.
    """
    cluster = absent.file.partition("/")[0].partition("=")[2]
    chain = read_chain(store, cluster)
    named = (file.file for file in chain.files)
    if chain.manifests and absent.file not in named:
        raise ArchiveBusy(
            f"{absent.file} was merged into another file since cluster {cluster} was opened: "
            "run it again"
        )
