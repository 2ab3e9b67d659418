"""How the folders and files of an archive are called.

Only manifests decide which files count. Who reads the folders as one table does not ask them: he
wants `segment-*.parquet`, for in each folder the files whose names begin with `_` repeat records.
Spark and Arrow pass those over by themselves, DuckDB does not.
"""

import re
from collections.abc import Iterator, Sequence

from replay.archive.store import Store
from replay.errors import NoArchive, no_archive

_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
"""Names of clusters are made like those of topics: a folder is called after them."""

_OFFSET_DIGITS = 19
_HASH_DIGITS = 12
"""Of a file's hash in its name: two appends that wrote differently never meet in one file."""


def check_cluster(cluster: str) -> None:
    """Raise `NoArchive` unless a cluster can be called so."""
    if not _NAME.fullmatch(cluster):
        raise NoArchive(
            f"{cluster[:60]!r} cannot be the name of a cluster: take letters, digits, '.', '_', '-'"
        )


def clusters(store: Store) -> list[str]:
    """The clusters in an archive, those that cannot be read included."""
    folders = (name.partition("cluster=") for name in store.names(""))
    found = (name for before, cluster, name in folders if cluster and not before)
    return [name for name in found if _is_begun(store, name)]


def _is_begun(store: Store, cluster: str) -> bool:
    """Whether a cluster has a manifest, or files that a manifest has to name."""
    try:
        named = any(map(is_manifest, store.names(manifests(cluster))))
        return named or has_files(store, cluster)
    except NoArchive:  # whoever reads on is told why
        return True


def has_files(store: Store, cluster: str) -> bool:
    """Whether a cluster has segments, winners or snapshots, whatever manifests it has."""
    beside = manifests(cluster) + "/"
    return any(not name.startswith(beside) for name in store.walk(folder(cluster)))


def asked_for(store: Store, names: Sequence[str] = ()) -> list[str]:
    """These clusters, each once; all in an archive, if none is named.

    Raises:
        NoArchive: it has none.
    """
    found = [*dict.fromkeys(names)] or clusters(store)
    if not found:
        raise no_archive(store.where)
    return found


def is_manifest(name: str) -> bool:
    """Whether a file in the folder of manifests is one: drafts and claims are none."""
    return name.endswith(".json")


def folder(cluster: str) -> str:
    """Where everything of a cluster lies."""
    return f"cluster={cluster}"


def manifests(cluster: str) -> str:
    """Where the manifests of a cluster lie."""
    return f"{folder(cluster)}/_manifest"


def manifest(cluster: str, number: int) -> str:
    """The name of a manifest, numbered from 1."""
    return f"{manifests(cluster)}/{number:010}.json"


def segment(cluster: str, topic: str, partition: int, span: range, sha256: str) -> str:
    """The name of a segment of these offsets."""
    return (
        f"{_part(cluster, topic, partition)}/segment-{_span(span)}-{sha256[:_HASH_DIGITS]}.parquet"
    )


def winners(cluster: str, topic: str, partition: int, span: range, sha256: str) -> str:
    """The name of a segment's winners."""
    return (
        f"{_part(cluster, topic, partition)}/_winners-{_span(span)}-{sha256[:_HASH_DIGITS]}.parquet"
    )


def snapshot(cluster: str, what: str, sha256: str, ending: str) -> str:
    """The name of a part of a snapshot: rows of a topic, or what is folded of it."""
    return f"{folder(cluster)}/_snapshots/{what}-{sha256[:_HASH_DIGITS]}.{ending}"


def named_wrongly(cluster: str, names: Iterator[str]) -> str | None:
    """The first of these names that lies elsewhere than in its cluster's folder."""
    inside = folder(cluster) + "/"
    return next((one for one in names if not one.startswith(inside) or ".." in one), None)


def _part(cluster: str, topic: str, partition: int) -> str:
    return f"{folder(cluster)}/topic={topic}/partition={partition}"


def _span(span: range) -> str:
    return f"{span.start:0{_OFFSET_DIGITS}}-{span.stop:0{_OFFSET_DIGITS}}"
