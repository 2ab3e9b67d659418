"""Summary of a plan before it runs: files, rows, snapshot, tasks and shuffles."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from replay.archive.archived_cluster import ArchivedCluster
from replay.engine.plans.read_plan import ReadPlan


class PlanSummary(NamedTuple):
    """Numbers of a read plan, as `--explain` prints them."""

    cluster: str
    backend: str
    why: str
    snapshot: str | None
    """Day of the snapshot that the plan starts from."""
    folded: tuple[str, ...]
    """Topics whose frozen state is taken from the snapshot."""
    files: int
    rows: int
    rows_by_kind: dict[str, int]
    """Rows to read, by kind: segment, winners, snapshot."""
    rows_archived: int
    """All archived rows, before and after the cut: the work of a plain fold."""
    tasks: int
    """Number of units of work (partitions, topics or clusters), or of slices of them."""
    shuffles: int
    """Slices that are merged again; whole partitions need no shuffle."""
    ends: dict[str, list[int]]


def explained(
    cluster: ArchivedCluster, plan: ReadPlan, backend: str, why: str, slices: Sequence[int]
) -> PlanSummary:
    """Summarise a plan; `slices`: number of slices of each unit of work, 1 for a whole one."""
    kinds: Counter[str] = Counter()
    for part in plan.parts:
        for piece in part.pieces:
            kinds[piece.kind] += piece.end - piece.begin
    archived = sum(
        segment.stored.records for part in cluster.parts.values() for segment in part.segments
    )
    return PlanSummary(
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
        sum(number for number in slices if number > 1),
        plan.ends,
    )
