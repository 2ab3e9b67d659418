"""Names of the folders and files of an archive.

Only manifests decide which files count. A tool that reads the folders as one table must select
`segment-*.parquet`. Files that begin with `_` repeat records, or hold only offsets. Spark and Arrow
skip them by default, DuckDB does not.
"""

import re
from collections.abc import Iterator, Sequence

from controlplane.private_files import is_draft
from replay.archive.stores.concurrent_requests import concurrently
from replay.archive.stores.object_store import CLAIMS
from replay.archive.stores.store import ArchiveStore
from replay.errors import NoArchive, no_archive, no_clusters

_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,247}")
"""Cluster names follow the rules of topic names, because folders are named after them.

A file system allows 255 bytes, and 8 of them are `cluster=`.
"""

_OFFSET_DIGITS = 19
_HASH_DIGITS = 12
"""Digits of the content hash in a file name; appends with different content never share a name."""

_STEM = 200
"""Greatest number of letters before the hash in the name of a snapshot."""

WRITER_DIGITS = 8
"""Digits of the random part of file names that keeps the files of two merges apart."""

_MANIFEST = re.compile(r"[0-9]{10}\.json")
"""Other programs may leave copies beside the manifests, such as `0000000001 (1).json`."""

_NUMBER = re.compile(r"(?<![0-9])[0-9]{10}(?![0-9])")

_OF_MERGE = re.compile(rf"-[0-9a-f]{{{_HASH_DIGITS}}}-[0-9a-f]{{{WRITER_DIGITS}}}\.[a-z.]+$")


def check_cluster(cluster: str) -> None:
    """Raise `NoArchive` for an invalid cluster name."""
    if not _NAME.fullmatch(cluster):
        raise NoArchive(
            f"{cluster[:60]!r} cannot be the name of a cluster: use up to 247 letters, digits, "
            "'.', '_', '-'"
        )


def clusters(store: ArchiveStore) -> list[str]:
    """Names of the archived clusters, including unreadable ones."""
    folders = (name.partition("cluster=") for name in store.names(""))
    cluster_names = [name for before, cluster, name in folders if cluster and not before]
    begun = concurrently(lambda name: _is_begun(store, name), cluster_names)
    return [name for name, is_begun in zip(cluster_names, begun, strict=True) if is_begun]


def _is_begun(store: ArchiveStore, cluster: str) -> bool:
    """True if a cluster has a manifest, or files that a manifest must name."""
    try:
        named = any(map(is_manifest, store.names(manifests(cluster))))
        return named or has_files(store, cluster)
    except NoArchive:  # opening the cluster reports the reason
        return True


def has_files(store: ArchiveStore, cluster: str) -> bool:
    """True if a cluster has segments, winners or snapshots, with or without manifests."""
    beside = manifests(cluster) + "/"
    return any(not name.startswith(beside) for name in store.walk(folder(cluster)))


def is_merged(store: ArchiveStore, cluster: str) -> bool:
    """True if a merge has left files beside the manifests, so there was a manifest."""
    beside = store.names(manifests(cluster))
    return any(name.startswith(("replaced-", "readings-")) for name in beside)


def selected_clusters(store: ArchiveStore, names: Sequence[str] = ()) -> list[str]:
    """The given names, each once and unchecked; without names, all clusters of the archive.

    Raises:
        NoArchive: no name is given, and the archive has no cluster.
    """
    cluster_names = [*dict.fromkeys(names)] or clusters(store)
    if not cluster_names:
        raise no_archive(store.where)
    return cluster_names


def check_any_archived(store: ArchiveStore, names: Sequence[str]) -> None:
    """Check that the archive has one of the named clusters; others may be unreadable later.

    Raises:
        NoArchive: none of the clusters is archived, or no name is valid.
    """
    valid = [name for name in names if _NAME.fullmatch(name)]
    if not valid:
        check_cluster(names[0])
    if not any(_is_begun(store, name) for name in valid):
        existing = clusters(store)
        raise no_clusters(store.where, names, existing) if existing else no_archive(store.where)


def is_manifest(name: str) -> bool:
    """True for a manifest; drafts, claims and foreign files in its folder are not."""
    return _MANIFEST.fullmatch(name) is not None


def renamed_number(name: str) -> int | None:
    """Number of the manifest that may have been renamed to `name`; None for any other name.

    A copy beside the manifest may have such a name, too. Drafts are hidden files.
    """
    number = _NUMBER.search(name)
    is_renamed = ".json" in name and not name.startswith(".") and not is_manifest(name)
    return int(number[0]) if is_renamed and number else None


def is_transient(name: str) -> bool:
    """True for names that only one process writes: files of a merge, drafts, claims."""
    folder_name, _, base_name = name.rpartition("/")
    is_claim = folder_name.endswith(f"/{CLAIMS}")
    return is_claim or is_draft(base_name) or _OF_MERGE.search(base_name) is not None


def folder(cluster: str) -> str:
    """Folder of a cluster, relative to the archive."""
    return f"cluster={cluster}"


def manifests(cluster: str) -> str:
    """Folder of a cluster's manifests, relative to the archive."""
    return f"{folder(cluster)}/_manifest"


def manifest(cluster: str, number: int) -> str:
    """Name of a manifest; numbers start at 1."""
    return f"{manifests(cluster)}/{number:010}.json"


def replaced_manifests(cluster: str, numbers: range, sha256: str, writer: str) -> str:
    """Name of the file with manifests that a merge has replaced; `writer` as in `segment`."""
    span = f"{numbers.start:010}-{numbers.stop - 1:010}"
    return f"{manifests(cluster)}/replaced-{span}-{sha256[:_HASH_DIGITS]}{writer}.tar.zst"


def readings(cluster: str, number: int, sha256: str, writer: str) -> str:
    """Name of the file with the readings up to a merge; `number` is that of its manifest."""
    return f"{manifests(cluster)}/readings-{number:010}-{sha256[:_HASH_DIGITS]}{writer}.parquet"


def segment(
    cluster: str, place: tuple[str, int], span: range, sha256: str, writer: str = ""
) -> str:
    """Name of the segment with these offsets of a topic and partition.

    `writer` is a part of the name that no other writer uses; empty in segments of a capture.
    """
    stem = f"segment-{_span(span)}-{sha256[:_HASH_DIGITS]}{writer}"
    return f"{_part(cluster, place)}/{stem}.parquet"


def winners(
    cluster: str, place: tuple[str, int], span: range, sha256: str, writer: str = ""
) -> str:
    """Name of a segment's winners; `writer` as in `segment`."""
    stem = f"_winners-{_span(span)}-{sha256[:_HASH_DIGITS]}{writer}"
    return f"{_part(cluster, place)}/{stem}.parquet"


def removed_offsets(
    cluster: str, place: tuple[str, int], span: range, sha256: str, writer: str
) -> str:
    """Name of the file with the offsets that retention has removed; `writer` as in `segment`."""
    stem = f"_removed-{_span(span)}-{sha256[:_HASH_DIGITS]}{writer}"
    return f"{_part(cluster, place)}/{stem}.parquet"


def snapshot(cluster: str, what: str, sha256: str, ending: str) -> str:
    """Name of a snapshot file: the rows of a topic, or folded states.

    A long `what` is cut: a topic has up to 249 letters. The hash keeps the names apart.
    """
    return f"{folder(cluster)}/_snapshots/{what[:_STEM]}-{sha256[:_HASH_DIGITS]}.{ending}"


def is_derived(name: str) -> bool:
    """True if the file repeats what segments hold: winners, or a snapshot."""
    return "/_snapshots/" in name or name.rpartition("/")[2].startswith("_winners-")


def named_wrongly(cluster: str, names: Iterator[str]) -> str | None:
    """The first name outside of the cluster's folder; None if all are inside."""
    inside = folder(cluster) + "/"
    return next((name for name in names if not _lies_in(inside, name)), None)


def _lies_in(inside: str, name: str) -> bool:
    # Names of clusters and topics may contain two dots, so each part of the path is compared whole.
    return name.startswith(inside) and ".." not in name.split("/") and "\0" not in name


def _part(cluster: str, place: tuple[str, int]) -> str:
    topic, partition = place
    return f"{folder(cluster)}/topic={topic}/partition={partition}"


def _span(span: range) -> str:
    return f"{span.start:0{_OFFSET_DIGITS}}-{span.stop:0{_OFFSET_DIGITS}}"
