"""Daily snapshots: the folded records up to the end of each day (UTC).

For offsets and statuses a snapshot holds the rows that may still count, tombstones included. For
topics in which every record may count, it holds the frozen state of each release. Each snapshot is
made from the one before and the records since. A snapshot stands for exactly the records before its
cut. A record that arrives later, even with an earlier timestamp, lies after the cut.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from operator import itemgetter

import numpy as np
import pyarrow as pa

from controlplane.core.order import time_limit
from controlplane.core.releases.profiles import Profile
from controlplane.logs.end_vectors import FittedEnds
from replay.archive import layout
from replay.archive.archived_cluster import ArchivedCluster, ArchivedPartition
from replay.archive.manifest import Snapshot, SnapshotRows, StoredFile, TopicRows
from replay.archive.segments.segment_files import EncodedFile, encoded_rows, opened, row_groups
from replay.archive.segments.segment_writer import add_file
from replay.archive.segments.winners import reducible, winners
from replay.engine.partition_reader import PartitionReader
from replay.engine.plans.moment_cut import ends_within
from replay.engine.plans.read_plan import PlanStart, ReadPlan, planned
from replay.engine.snapshots.topic_snapshot import READERS, Readers, TopicStates, frozen, thawed
from replay.engine.states.state_builder import FoldOptions, ReducedTopic, parts
from replay.errors import ArchiveCorrupt
from replay.kernels.batches import batch
from replay.kernels.row_runs import running_times

DAY_MS = 86_400_000

DAYS_AT_ONCE = 400
"""Greatest number of snapshots per append; days before them get none. With wrong clocks, the
records of a log can lie on very many days."""

_EPOCH = date(1970, 1, 1)
_LAST_DAY = (date.max - _EPOCH).days


def daily(cluster: ArchivedCluster) -> Iterator[Snapshot]:
    """Write and yield snapshots of the finished days since the last one, the oldest first.

    A day is finished once any record of a later day is archived. After a damaged snapshot, the next
    one is made from the segments.

    Raises:
        ArchiveCorrupt: another file that a snapshot needs is damaged.
    """
    previous = next(iter(reversed(list(cluster.snapshots))), None)
    last_day = -1 if previous is None else (date.fromisoformat(previous.day) - _EPOCH).days
    last_day = max(last_day, _retained_day(cluster))
    days = sorted(
        {day for part in cluster.parts.values() for day in _days(cluster, part, last_day)}
    )
    for day in [finished for finished in days[:-1] if finished > last_day][-DAYS_AT_ONCE:]:
        limit = time_limit((day + 1) * DAY_MS - 1)
        ends = ends_within(cluster, cluster.ends, limit)
        name = (_EPOCH + timedelta(days=day)).isoformat()
        try:
            previous = snapshot_at(cluster, previous, name, ends)
        except ArchiveCorrupt:  # perhaps the earlier snapshot: the segments have all of its records
            previous = snapshot_at(cluster, None, name, ends)
        yield previous


def _retained_day(cluster: ArchivedCluster) -> int:
    """Last day (since 1970) before the cut of a retention; states up to it are not certain."""
    cuts = (part.removed.cut_ms for part in cluster.parts.values() if part.removed)
    return max(cuts, default=0) // DAY_MS - 1


def _days(cluster: ArchivedCluster, part: ArchivedPartition, last_day: int) -> set[int]:
    """Days since 1970 with records of a partition; days before `last_day` may be left out."""
    days: set[int] = set()
    before_ms = 0
    for segment in part.segments:
        first, last = max(before_ms, segment.first_ms) // DAY_MS, segment.latest_ms // DAY_MS
        if first == last or last <= last_day:  # the usual case: no file is read
            days.add(last)
        else:
            groups = list(row_groups(opened(cluster.store, segment.stored)))
            for times in running_times(groups):
                days.update(np.unique(np.maximum(times, before_ms) // DAY_MS).tolist())
        before_ms = max(before_ms, segment.latest_ms)
    return {day for day in days if day <= _LAST_DAY}


def snapshot_at(
    cluster: ArchivedCluster,
    previous: Snapshot | None,
    name: str,
    ends: dict[str, list[int]],
    readers: Readers = READERS,
) -> Snapshot:
    """Write a snapshot of the records before a cut, made from an earlier one.

    `name` is the day of the snapshot, or another name. `readers`: releases whose states it holds.
    """
    every = [topic for topic in ends if not reducible(topic, cluster.topics)]
    # With several partitions, the state depends on their order, which no snapshot stores.
    whole = [topic for topic in every if len(ends[topic]) == 1]
    states = {
        topic: _topic_states(cluster, previous, topic, ends[topic], readers=readers)
        for topic in whole
    }
    folded = _written_states(cluster, name, states)
    plan = planned(cluster, FittedEnds(ends), PlanStart(previous))
    rows = [_rows(cluster, plan, name, topic) for topic in ends if topic not in every]
    return Snapshot(name, ends, tuple(row for row in rows if row is not None), folded)


def _rows(cluster: ArchivedCluster, plan: ReadPlan, name: str, topic: str) -> TopicRows | None:
    """Write the rows of a topic that may still count."""
    reader = PartitionReader(cluster.store, cluster.topics, ())
    tables: dict[int, pa.Table] = {
        part.partition: winners(reader.runs(part), topic, cluster.topics, None)
        for part in plan.parts_of(topic)
        if part.rows
    }
    if not tables:
        return None
    stored = _stored_file(
        cluster, f"{name}-{topic}", "parquet", encoded_rows(list(tables.values()))
    )
    partitions = (
        SnapshotRows(partition, table.num_rows, sum(table.column("aborted").to_pylist()))
        for partition, table in tables.items()
    )
    return TopicRows(topic, stored, tuple(partitions))


def _written_states(
    cluster: ArchivedCluster, name: str, states: Mapping[str, list[TopicStates]]
) -> StoredFile | None:
    """Write the state of each release for topics in which every record may count."""
    if not states:
        return None
    return _stored_file(
        cluster, f"{name}-states", "msgpack.zst", EncodedFile.of(frozen(cluster.topics, states))
    )


def _topic_states(
    cluster: ArchivedCluster,
    previous: Snapshot | None,
    topic: str,
    ends: Sequence[int],
    *,
    readers: Readers,
) -> list[TopicStates]:
    """States of each release for a topic, without and with exactly-once support."""
    known_to = partial(_reader_states, cluster, previous, topic, ends)
    if any(segment.aborted for part in cluster.parts_of(topic) for segment in part.segments):
        return list(map(known_to, readers.items()))
    # Without aborted records both kinds of readers have the same states, so one fold serves both.
    alike = known_to(min(readers.items(), key=itemgetter(0)))
    return [
        TopicStates(reads, {profile: alike.parts[profile] for profile in readers[reads]})
        for reads in readers
    ]


def _reader_states(
    cluster: ArchivedCluster,
    previous: Snapshot | None,
    topic: str,
    ends: Sequence[int],
    readers: tuple[bool, Sequence[Profile]],
) -> TopicStates:
    """States that some releases have, with exactly-once support or without."""
    store, topics, (exactly_once, profiles) = cluster.store, cluster.topics, readers
    begun = {}
    if previous is not None and previous.folded is not None:
        earlier = thawed(store, previous.folded, topics, profiles, exactly_once=exactly_once)
        begun = earlier.get(topic, {})
    plan = planned(
        cluster, FittedEnds({topic: ends}), PlanStart(previous, (topic,) if begun else ())
    )
    reader = PartitionReader(store, topics, profiles, exactly_once=exactly_once)
    rows = [(part, reader.reduced(part)) for part in plan.parts if part.rows]
    batches = [batch(topic, part.partition, table) for part, table in rows]
    question = FoldOptions(topics, profiles, {topic: ends}, exactly_once)
    topic_states = parts(question, ReducedTopic(topic, batches, list, begun))
    return TopicStates(exactly_once, dict(zip(profiles, topic_states, strict=True)))


def _stored_file(cluster: ArchivedCluster, stem: str, ending: str, file: EncodedFile) -> StoredFile:
    stored = file.stored(layout.snapshot(cluster.name, stem, file.sha256, ending))
    add_file(cluster.store, stored.file, file)
    return stored
