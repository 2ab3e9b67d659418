"""What a plan comes to, before it is carried out: files, rows, the snapshot, expected shuffles."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from replay.archive.cluster import Cluster
from replay.engine.plan import Plan


class Explained(NamedTuple):
    """A plan in numbers."""

    cluster: str
    backend: str
    why: str
    snapshot: str | None
    """The day at whose end the snapshot was made that is begun with."""
    folded: tuple[str, ...]
    """Topics of which that snapshot's state is taken."""
    files: int
    rows: int
    rows_by_kind: dict[str, int]
    """Of segments, of their winners, of the snapshot."""
    rows_archived: int
    """How many there are before the cut and behind it: what a plain fold would read."""
    tasks: int
    """Partitions, or slices of one: they are reduced beside each other."""
    shuffles: int
    """Slices that have to meet again; whole partitions need none."""
    ends: dict[str, list[int]]


def explained(
    cluster: Cluster, plan: Plan, backend: str, why: str, slices: Sequence[int]
) -> Explained:
    """The numbers of a plan; `slices` are those of each busy part, 1 where it stays whole."""
    kinds: Counter[str] = Counter()
    for part in plan.parts:
        for piece in part.pieces:
            kinds[piece.kind] += piece.end - piece.begin
    archived = sum(one.stored.records for part in cluster.parts.values() for one in part.segments)
    return Explained(
        plan.cluster,
        backend,
        why,
        plan.snapshot.day if plan.snapshot else None,
        plan.folded,
        len(plan.stored),
        kinds.total(),
        dict(kinds),
        archived,
        sum(slices),
        sum(some for some in slices if some > 1),
        plan.ends,
    )
