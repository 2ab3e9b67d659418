"""Archived clusters as inputs; imported on demand, because it needs an extra."""

from replay.archive import layout
from replay.cli.inputs.log_input import LogInput, ReadOptions
from replay.cli.inputs.store import store_named
from replay.cluster_records import ClusterRecords
from replay.fleet.archive_source import ArchiveSource
from replay.without_pandas import leave_out_pandas

leave_out_pandas()  # commands that also read other logs import pyarrow only here


def clusters_of(where: str, reading: ReadOptions) -> list[LogInput]:
    """Clusters of an archive.

    Raises:
        NoArchive: the archive has none.
    """
    store = store_named(where)
    return [
        LogInput(where, name, reading, archived=True, settings=store.settings)
        for name in layout.selected_clusters(store)
    ]


def open_archived(log_input: LogInput) -> ClusterRecords:
    """Open a cluster with a store that refuses altered files.

    Raises:
        ReplayError: its manifests are altered.
        UnknownMoment: the archive has no record at the chosen moment.
    """
    _, exactly_once, moment = log_input.reading
    source = ArchiveSource(log_input.where, log_input.settings, exactly_once=exactly_once)
    return source.records(log_input.cluster, moment)
