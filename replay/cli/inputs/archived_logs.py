"""Archived clusters as inputs; imported on demand, because it needs an extra."""

from functools import partial

from replay.archive import layout
from replay.archive.archived_cluster import open_cluster
from replay.archive.integrity import checked
from replay.archive.store import open_store
from replay.cli.inputs.log_input import LogInput, OpenedInput, ReadOptions
from replay.cli.inputs.store import store_named
from replay.engine.certainty import ArchiveCertainty
from replay.engine.ordered_records import doubts_at, missing, records


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


def open_archived(log_input: LogInput) -> OpenedInput:
    """Open a cluster with a store that refuses altered files.

    Raises:
        ReplayError: its manifests are altered.
        UnknownMoment: the archive has nothing at the moment.
    """
    cluster = checked(
        open_cluster(open_store(log_input.where, log_input.settings), log_input.cluster)
    )
    _, exactly_once, moment = log_input.reading
    entries = partial(records, cluster, moment)
    certainty = ArchiveCertainty(cluster)
    doubts = doubts_at(certainty, moment)
    return OpenedInput(
        cluster.name,
        cluster.topics,
        exactly_once,
        entries,
        cluster.chain.head,
        missing(cluster, moment),
        doubts.present,
        doubts.past,
        certainty.may_be_older,
    )
