"""What must be archived where captures are killed: neither less than the topics hold, nor twice."""

from collections.abc import Mapping, Sequence

from controlplane.core.entry import Entry
from replay.archive.archived_cluster import ArchivedCluster, parts_in
from replay.archive.manifest import read_chain
from replay.archive.verification import verified
from replay.capture.log_capture import CaptureTarget
from tests.kafka.writing import in_order
from tests.replay.test_appending import archived


def left_in(target: CaptureTarget, there: Sequence[Entry]) -> ArchivedCluster:
    """What the dead have left: of each partition all that is `there`, up to some offset."""
    chain = read_chain(target.store, target.cluster)
    left = ArchivedCluster(target.store, target.cluster, chain, parts_in(chain))
    ends = {place: part.end for place, part in left.parts.items()}
    assert archived(left) == [
        entry for entry in there if entry.offset < ends.get((entry.topic, entry.partition), 0)
    ]
    assert not chain.manifests or verified(left).flaws == ()
    return left


def check_whole(
    whole: ArchivedCluster,
    left: ArchivedCluster,
    there: Sequence[Entry],
    starts: Mapping[str, Sequence[int]],
) -> None:
    """Whoever went on has added what is `there` now; what the broker had removed by then is told.

    `starts`: where the topics begin now.
    """
    assert archived(whole) == in_order({*archived(left), *there})
    assert [*whole.gaps] == [
        (topic, partition, range(part.end, starts[topic][partition]))
        for (topic, partition), part in left.parts.items()
        if part.end < starts[topic][partition]
    ]
    assert verified(whole).flaws == ()
