"""Daily snapshots: what the records up to the end of each day (UTC) amount to.

Of offsets and statuses a snapshot has the rows that may still count, tombstones too; of the topics
in which every record may count, what each release knows, frozen. Each is made of the one before and
of what came since. A snapshot stands for the records before its cut and for no others, so a
record that comes late does no harm: it lies behind the cut.
"""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

import numpy as np
import pyarrow as pa

from controlplane.core.order import time_limit
from controlplane.logs.cuts import Cut
from replay.archive import layout
from replay.archive.cluster import Cluster, Part
from replay.archive.filling import add_file
from replay.archive.manifest import Rows, Snapshot, Stored, TopicRows
from replay.archive.segments import Written, opened, row_groups, written
from replay.archive.winners import reducible, winners
from replay.engine.folded import READERS, Known, frozen, thawed
from replay.engine.folding import Question, Reduced, parts
from replay.engine.moments import ends_within
from replay.engine.plan import Begun, Plan, planned
from replay.engine.reading import Reader
from replay.kernels.batches import batch
from replay.kernels.rows import running_times

DAY_MS = 86_400_000

DAYS_AT_ONCE = 400
"""Snapshots that one append makes at most, the latest: clocks in a log may say anything."""

_EPOCH = date(1970, 1, 1)
_LAST_DAY = (date.max - _EPOCH).days


def daily(cluster: Cluster) -> Iterator[Snapshot]:
    """The snapshots that an archive lacks, the oldest first; their files are written.

    A day is over as soon as any record is of a later one.
    """
    previous = next(iter(reversed(list(cluster.snapshots))), None)
    done = -1 if previous is None else (date.fromisoformat(previous.day) - _EPOCH).days
    days = sorted({day for part in cluster.parts.values() for day in _days(cluster, part, done)})
    for day in [one for one in days[:-1] if one > done][-DAYS_AT_ONCE:]:
        limit = time_limit((day + 1) * DAY_MS - 1)
        ends = {topic: ends_within(cluster, topic, limit) for topic in cluster.ends}
        previous = _snapshot(cluster, previous, day, ends)
        yield previous


def _days(cluster: Cluster, part: Part, done: int) -> set[int]:
    """The days, counted from 1970, of the records of a partition; earlier ones may be left out."""
    days: set[int] = set()
    before_ms = 0
    for segment in part.segments:
        first, last = max(before_ms, segment.first_ms) // DAY_MS, segment.latest_ms // DAY_MS
        if first == last or last <= done:  # as nearly all are: nothing has to be read
            days.add(last)
        else:
            groups = list(row_groups(opened(cluster.store, segment.stored)))
            for times in running_times(groups):
                days.update(np.unique(np.maximum(times, before_ms) // DAY_MS).tolist())
        before_ms = max(before_ms, segment.latest_ms)
    return {day for day in days if day <= _LAST_DAY}


def _snapshot(
    cluster: Cluster, previous: Snapshot | None, day: int, ends: dict[str, list[int]]
) -> Snapshot:
    name = (_EPOCH + timedelta(days=day)).isoformat()
    every = [topic for topic in ends if not reducible(topic, cluster.topics)]
    whole = [topic for topic in every if len(ends[topic]) == 1]  # else the order decides
    folded = _folded(cluster, previous, name, {topic: ends[topic] for topic in whole})
    plan = planned(cluster, Cut(ends), Begun(previous))
    rows = [_rows(cluster, plan, name, topic) for topic in ends if topic not in every]
    return Snapshot(name, ends, tuple(one for one in rows if one is not None), folded)


def _rows(cluster: Cluster, plan: Plan, day: str, topic: str) -> TopicRows | None:
    """The rows of a topic that may still count, as a file."""
    reader = Reader(cluster.store, cluster.topics, ())
    tables: dict[int, pa.Table] = {
        part.partition: winners(reader.runs(part), topic, cluster.topics, None)
        for part in plan.parts_of(topic)
        if part.rows
    }
    if not tables:
        return None
    stored = _kept(cluster, f"{day}-{topic}", "parquet", written(list(tables.values())))
    partitions = (
        Rows(partition, table.num_rows, sum(table.column("aborted").to_pylist()))
        for partition, table in tables.items()
    )
    return TopicRows(topic, stored, tuple(partitions))


def _folded(
    cluster: Cluster, previous: Snapshot | None, day: str, ends: dict[str, list[int]]
) -> Stored | None:
    """What every release knows of these topics, as a file."""
    known = {topic: _known(cluster, previous, topic, ends[topic]) for topic in ends}
    if not known:
        return None
    return _kept(cluster, f"{day}-states", "msgpack.zst", Written.of(frozen(cluster.topics, known)))


def _known(
    cluster: Cluster, previous: Snapshot | None, topic: str, ends: Sequence[int]
) -> list[Known]:
    """What every release knows of a topic, without and with exactly-once support."""
    if not any(segment.aborted for part in cluster.parts_of(topic) for segment in part.segments):
        alike = _known_to(cluster, previous, topic, ends, exactly_once=False)
        return [
            Known(reads, {one: alike.parts[one] for one in READERS[reads]}) for reads in READERS
        ]
    return [_known_to(cluster, previous, topic, ends, exactly_once=reads) for reads in READERS]


def _known_to(
    cluster: Cluster,
    previous: Snapshot | None,
    topic: str,
    ends: Sequence[int],
    *,
    exactly_once: bool,
) -> Known:
    store, topics, profiles = cluster.store, cluster.topics, READERS[exactly_once]
    begun = {}
    if previous is not None and previous.folded is not None:
        earlier = thawed(store, previous.folded, topics, profiles, exactly_once=exactly_once)
        begun = earlier.get(topic, {})
    plan = planned(cluster, Cut({topic: ends}), Begun(previous, (topic,) if begun else ()))
    reader = Reader(store, topics, profiles, exactly_once=exactly_once)
    rows = [(part, reader.reduced(part)) for part in plan.parts if part.rows]
    batches = [batch(topic, part.partition, table) for part, table in rows]
    question = Question(topics, profiles, {topic: ends}, exactly_once)
    found = parts(question, Reduced(topic, batches, list, begun))
    return Known(exactly_once, dict(zip(profiles, found, strict=True)))


def _kept(cluster: Cluster, what: str, ending: str, file: Written) -> Stored:
    stored = file.stored(layout.snapshot(cluster.name, what, file.sha256, ending))
    add_file(cluster.store, stored.file, file)
    return stored
