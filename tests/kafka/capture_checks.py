"""Checks of archives after killed captures: they have all records of the topics, none twice."""

from collections.abc import Mapping, Sequence

from controlplane.core.entry import Entry
from replay.archive.archived_cluster import ArchivedCluster, parts_in
from replay.archive.manifest import read_chain
from replay.archive.verification import verified
from replay.capture.log_capture import CaptureTarget
from tests.logs.reading_contract import by_position
from tests.replay.archive.archives import archived


def left_in(target: CaptureTarget, entries: Sequence[Entry]) -> ArchivedCluster:
    """Archive of killed captures; checks that it has a prefix of each partition of `entries`."""
    chain = read_chain(target.store, target.cluster)
    left = ArchivedCluster(target.store, target.cluster, chain, parts_in(chain))
    ends = {place: part.end for place, part in left.parts.items()}
    assert archived(left) == [
        entry for entry in entries if entry.offset < ends.get((entry.topic, entry.partition), 0)
    ]
    assert not chain.manifests or verified(left).flaws == ()
    return left


def check_whole(
    whole: ArchivedCluster,
    left: ArchivedCluster,
    entries: Sequence[Entry],
    starts: Mapping[str, Sequence[int]],
) -> None:
    """Check that the next capture added all of `entries`, and reports the records removed by then.

    `starts` has the present beginning of each partition, by topic.
    """
    assert archived(whole) == by_position({*archived(left), *entries})
    assert [*whole.gaps] == [
        (topic, partition, range(part.end, starts[topic][partition]))
        for (topic, partition), part in left.parts.items()
        if part.end < starts[topic][partition]
    ]
    assert verified(whole).flaws == ()
