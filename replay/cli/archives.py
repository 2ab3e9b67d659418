"""Archives named on the command line. Apart from logs: not everybody installs what reads them."""

from functools import partial

from replay.archive import layout
from replay.archive.cluster import open_cluster
from replay.archive.integrity import checked
from replay.archive.store import open_store
from replay.cli.logs import Asked, Log, Reading
from replay.cli.stores import store_named
from replay.engine.records import missing, records


def clusters_of(where: str, reading: Reading) -> list[Asked]:
    """The clusters of an archive.

    Raises:
        NoArchive: there is none.
    """
    store = store_named(where)
    return [
        Asked(where, name, reading, archived=True, settings=store.settings)
        for name in layout.asked_for(store)
    ]


def opened(asked: Asked) -> Log:
    """One cluster, of which no file is read that was altered.

    Raises:
        ReplayError: its manifests are not what they were.
        UnknownMoment: it has nothing there.
    """
    cluster = checked(open_cluster(open_store(asked.where, asked.settings), asked.cluster))
    _, exactly_once, moment = asked.reading
    entries = partial(records, cluster, moment)
    head, gaps = cluster.chain.head, missing(cluster, moment)
    return Log(cluster.name, cluster.topics, exactly_once, entries, head, gaps)
