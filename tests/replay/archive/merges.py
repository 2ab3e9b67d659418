"""Merged archives for tests, and all answers that an archive gives."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from controlplane.core.entry import Entry, batch_of
from controlplane.core.moments import UnknownMoment
from controlplane.core.releases.profiles import PROFILES, Profile
from controlplane.core.state import Topics
from replay.archive import layout
from replay.archive.appender import Appender
from replay.archive.archived_cluster import ArchivedCluster, open_cluster
from replay.archive.manifest import MERGE_FORMAT, RETENTION_FORMAT, encoded, read_chain
from replay.archive.merges.merge import Merger, MergeResult
from replay.archive.merges.unnamed_files import Removal, remove_replaced
from replay.archive.readings.archived_readings import is_partial, read_at_ms
from replay.archive.segments.segment_files import SegmentSizes
from replay.archive.stores.store import ArchiveStore, FolderStore
from replay.archive.verification import verified
from replay.audit import ClusterLog, audit
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.engine.ordered_records import records
from replay.engine.states.state_digest import digest
from replay.timeline.passes import digests, timelines
from replay.timeline.work_shares import TimelineJob, TimelineQuery
from tests.replay.archive.archives import NAME, SMALL, capture, capture_into, log_of, replayed

KIP = [Profile.of("kip")]
_CONFIG = Topics().config

LARGER = SegmentSizes(40, 16)
"""Sizes for merges: several segments of the sizes `archives.SMALL` become one."""


def merge(store: ArchiveStore, sizes: SegmentSizes = LARGER) -> tuple[MergeResult, Removal]:
    """Merge the archive of a cluster and remove the replaced files."""
    return Merger(store, NAME, sizes).run(), remove_replaced(store, NAME, 0)


def merged(folder: Path, sizes: SegmentSizes = LARGER) -> tuple[MergeResult, Removal]:
    """Merge an archive in a folder."""
    return merge(FolderStore(str(folder)), sizes)


def earlier_merge(store: ArchiveStore, name: str) -> None:
    """Merge as earlier versions did: the manifest lists the offsets that each append has read.

    The archive must contain no merged manifest in the form of the current version.
    """
    reaches = tuple(
        replace(reach, partial=is_partial(manifest, reach), read_at_ms=read_at_ms(manifest, reach))
        for manifest in read_chain(store, name).manifests
        for reach in manifest.reaches
    )
    Merger(store, name).run()
    (made,) = read_chain(store, name).manifests
    if made.merge is UNSET or made.merge.readings is UNSET:  # nothing was merged
        return
    earlier = replace(
        made,
        format=MERGE_FORMAT if made.removed is UNSET else RETENTION_FORMAT,
        reaches=reaches,
        merge=replace(made.merge, readings=UNSET),
    )
    store.remove(made.merge.readings.stored.file)
    store.replace(layout.manifest(name, made.number), encoded(earlier))


def looks(folder: Path, entries: Sequence[Entry], number: int) -> None:
    """Capture a growing log several times; each capture is a look, up to the end of the log."""
    for look in range(1, number + 1):
        capture(folder, log_of(entries[: len(entries) * look // number]))


def two_looks(store: ArchiveStore, entries: Sequence[Entry]) -> ArchiveStore:
    """Capture the first 30 entries, then the next 30."""
    for end in (30, 60):
        capture_into(store, log_of(entries[:end]))
    return store


def next_config(store: ArchiveStore) -> tuple[Appender, Entry]:
    """Appender with one more record, not yet committed, and this record."""
    appender = Appender(store, NAME, Topics(), "kept", SMALL)
    end = appender.end_of(_CONFIG, 0)
    assert end is not None
    entry = Entry(_CONFIG, 0, end, 2_000_000_000_000, b"k", b"{}")
    assert appender.add(batch_of([entry])) == 1
    appender.reached(_CONFIG, 0, end, end + 1)
    return appender, entry


def sound_records(store: ArchiveStore) -> int:
    """Number of archived records; fails if the archive is damaged or has leftover files."""
    result = verified(open_cluster(store, NAME))
    assert (result.flaws, result.leftovers, result.replaced) == ((), (), 0)
    return result.records


def held(store: ArchiveStore) -> dict[str, bytes]:
    """Content of every file of an archive."""
    return {name: store.read(name) for name in store.walk("")}


def states_at(cluster: ArchivedCluster, moment: str | None) -> Any:
    """States at a moment, with and without files derived from segments; else the error's text."""
    try:
        return [
            replayed(cluster, moment, PROFILES, LocalOptions(derived=derived))
            for derived in (True, False)
        ]
    except UnknownMoment as error:
        return str(error)


def merge_answers(cluster: ArchivedCluster) -> list[Any]:
    """Records, timeline, config digests, findings, state digests, gaps and ends of a cluster."""
    local = LocalEngine(cluster, LocalOptions(derived=False))
    plan = local.plan(None, PROFILES)
    query = TimelineQuery(PROFILES, offsets=True)
    job = TimelineJob(cluster, plan, query)
    findings = audit([ClusterLog("lab", records(cluster, None), KIP[0])])
    return [
        list(records(cluster, None)),
        [interval for _, interval in timelines([job], lambda _: None)],
        [shared for _, shared in digests([job], lambda _: None)],
        findings,
        [digest(state) for state in replayed(cluster, None, PROFILES)],
        list(cluster.gaps),
        cluster.ends,
    ]
