"""How the parts of plans become tasks: small ones together, large ones in slices."""

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from replay.archive.cluster import Cluster
from replay.archive.winners import reducible
from replay.engine.asked import Asked
from replay.engine.plan import PartPlan, Piece
from replay.engine.tasks import Numbered


class Limits(NamedTuple):
    """How much one task reads."""

    task_rows: int = 10_000_000
    """Partitions with fewer rows share a task with others, until it has so many."""
    slice_rows: int = 50_000_000
    """A partition with more rows is read by several tasks, and what they leave is merged."""
    job_rows: int = 1_000_000_000
    """Clusters with more rows together are several jobs: of one the driver has what is left."""


LIMITS = Limits()


def in_jobs(asked: Sequence[Asked], limits: Limits = LIMITS) -> Iterator[list[Asked]]:
    """Questions in jobs of at most so many rows, or of one question."""
    some: list[Asked] = []
    rows = 0
    for one in asked:
        more = sum(part.rows for part in one.plan.busy)
        if some and rows + more > limits.job_rows:
            yield some
            some, rows = [], 0
        some.append(one)
        rows += more
    if some:
        yield some


class Slice(NamedTuple):
    """Some pieces of a partition, one behind the other."""

    part: PartPlan
    before_ms: int | None
    """The greatest timestamp of the partition before them; None: there is nothing before."""


def slices(cluster: Cluster, part: PartPlan, limits: Limits = LIMITS) -> list[Slice]:
    """A part in slices of at most so many rows, or of one piece; one slice, if it stays whole.

    Topics in which every record may count stay whole: there is nothing to be merged.
    """
    if part.rows <= limits.slice_rows or not reducible(part.topic, cluster.topics):
        return [Slice(part, None)]
    groups: list[list[Piece]] = [[]]
    for piece in part.pieces:
        rows = sum(one.end - one.begin for one in (*groups[-1], piece))
        if groups[-1] and rows > limits.slice_rows:
            groups.append([])
        groups[-1].append(piece)
    before = _before(cluster, part)
    return [
        Slice(replace(part, pieces=tuple(some)), before.get(some[0].stored.file)) for some in groups
    ]


def _before(cluster: Cluster, part: PartPlan) -> dict[str, int]:
    """By file of a partition, the greatest timestamp before it: manifests tell."""
    found: dict[str, int] = {}
    latest_ms: int | None = None
    for segment in cluster.parts[part.topic, part.partition].segments:
        for stored in (segment.stored, segment.winners):
            if stored is not None and latest_ms is not None:
                found[stored.file] = latest_ms
        latest_ms = segment.latest_ms
    return found


def bundles(works: Sequence[Numbered], slots: int, limits: Limits) -> list[list[Numbered]]:
    """Works in tasks of about equal size, as many as slots or a multiple of it; none is empty."""
    if not works:
        return []
    rows = sum(one.work.part.rows for one in works)
    rounds = max(1, -(-rows // (limits.task_rows * slots)))  # the last is no shorter than others
    count = min(len(works), rounds * slots)
    heap = [(0, number) for number in range(count)]
    found: list[list[Numbered]] = [[] for _ in range(count)]
    for one in sorted(works, key=lambda one: -one.work.part.rows):
        taken, number = heapq.heappop(heap)
        found[number].append(one)
        heapq.heappush(heap, (taken + one.work.part.rows, number))
    return [bundle for bundle in found if bundle]
