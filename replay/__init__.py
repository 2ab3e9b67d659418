"""Archives, queries and audits of many clusters' logs, in this process or in Spark's tasks.

`open` is the Python API.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike

    from pyspark.sql import SparkSession

    from replay.fleet.open_archive import OpenArchive
    from replay.progress import ProgressListener

__all__ = ["open"]


def open(  # noqa: A001, PLR0913 - the name that data engineers expect; each option has its name
    archive: "str | PathLike[str]",
    *,
    clusters: "str | Iterable[str] | None" = None,
    spark: "SparkSession | None" = None,
    exactly_once: bool = False,
    trust: bool = False,
    unreadable: str = "skip",
    from_segments: bool = False,
    conf: "Mapping[str, str] | None" = None,
    progress: "ProgressListener | None" = None,
    jobs: int | None = 1,
) -> "OpenArchive[Any]":
    """Open an archive for queries.

    Args:
        archive: path of a folder, or `s3a://bucket/folder`.
        clusters: only this cluster, or these; by default all.
        spark: session in whose tasks clusters are folded. Tables are then Spark data frames;
            without a session they are Arrow tables.
        exactly_once: skip aborted configs and offsets, as workers with exactly-once support do.
        trust: do not compare files with their hashes in the manifests.
        unreadable: `skip` leaves unreadable clusters out, `raise` ends the query.
        from_segments: read segments only, and no files derived from them (snapshots, winners).
        conf: settings of the object store under Spark's names (`spark.hadoop.fs.s3a.…`).
        progress: listener of the progress of queries; by default none.
        jobs: greatest number of processes that fold the clusters of `summaries`, `write_state` and
            `write_diff`, each with its own memory. They also plan a fleet of 300 clusters or more,
            if `as_of` is a record or a time; four at most do. By default, this process does all.
            None: one process per processor plans, and this one folds. Each process imports the
            program's main module, as with `multiprocessing`. So a script needs
            `if __name__ == "__main__"`.

    Raises:
        NoArchive: the URL is invalid, there is no archive, or it has none of `clusters`.
        BadStoreSetting: a setting of the object store is unknown or invalid.
        ValueError: `unreadable` has another value, `clusters` is empty, or `jobs` is less than 1.
        TypeError: `jobs` is no whole number.
    """
    # Imported on demand: the command line gives help without Arrow.
    from replay.fleet.arguments import check_number, filter_in, member  # noqa: PLC0415
    from replay.fleet.open_archive import ArchiveOptions, OpenArchive  # noqa: PLC0415
    from replay.fleet.table_run import OnUnreadable  # noqa: PLC0415

    treatment = member(OnUnreadable, "unreadable", unreadable)
    names = filter_in(clusters, "clusters")
    check_number(jobs, "jobs")
    options = ArchiveOptions(names, exactly_once, trust, treatment, from_segments, jobs)
    return OpenArchive(archive, options, dict(conf or {}), spark, progress)
