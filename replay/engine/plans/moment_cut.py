"""Cut through all partitions at a moment; `controlplane` cuts a log at the same offsets.

A time selects a prefix of the one order (`core.order`). A filter on timestamps would be wrong,
because timestamps can go back.

The *rank* of a record is its place in the one order. A rank begins with the running maximum: the
greatest timestamp of the partition up to the record. The partition and the offset follow. The
search for the records up to a rank reads little of each partition:

- The manifests have the running maximum and the offset of the last record of each segment. So the
  search opens at most one segment, concurrently with those of other partitions.
- A row group stores its greatest timestamp. So the search skips the row groups before the time of
  the rank, and reads the next one. If the running maximum at its end equals this time, the search
  reads the row group after it, too.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest

from controlplane.core.entry import Position
from controlplane.core.moments import (
    UnknownMoment,
    check_length,
    check_not_future,
    is_vector,
    position_text,
    quoted,
    read_position,
    read_time_ms,
    read_vector,
    time_text,
    too_early,
)
from controlplane.core.order import Ends, Rank, time_limit
from controlplane.core.text.safe_text import count
from controlplane.event_loop import now_ms
from controlplane.logs.end_vectors import FittedEnds, fitted
from replay.archive.archived_cluster import ArchivedCluster, ArchivedPartition, PartitionId
from replay.archive.manifest import Segment
from replay.archive.segments.removed_offsets import read_offsets
from replay.archive.segments.segment_files import opened
from replay.archive.stores.concurrent_requests import concurrently_in_plan
from replay.doubts import RetentionTimes
from replay.engine.plans.row_lookup import UNKNOWN_MS, end_inside, time_of_offset
from replay.errors import ArchiveBusy

OwnTopics = Callable[[Sequence[int]], Iterable[str]]
"""Finds the dedicated offsets topics that configs before these end offsets name."""

_TOPICS_NAMED = 20
"""Maximum number of topics that the error about a missing topic lists."""


def cut_at(cluster: ArchivedCluster, moment: str | None, own_topics: OwnTopics) -> FittedEnds:
    """Find the cut at a moment (see `core.order.ends_at`); None is the end of the archive.

    Raises:
        UnknownMoment: an invalid moment, or the archive has nothing there.
        ArchiveCorrupt: a file with the moment in it is missing or damaged.
    """
    names = _named(cluster)
    ends = cluster.ends
    if ends.keys() <= {*names}:  # then the configs need not be read
        own_topics = _no_topics
    if moment is None:
        return FittedEnds(_with_own(cluster, {name: ends[name] for name in names}, own_topics))
    check_length(moment)
    if is_vector(moment):
        return _fitted(cluster, moment, names)
    now = _with_own(cluster, {name: ends[name] for name in names}, own_topics)
    limit = _limit(cluster, moment, list(now))
    config = cluster.topics.config
    cut_ends = ends_within(cluster, names, limit)
    own = [
        topic for topic in own_topics(cut_ends[config]) if topic in ends.keys() - cut_ends.keys()
    ]
    cut = FittedEnds(cut_ends | ends_within(cluster, own, limit))
    # A record after the cut proves, by the clock of its writer, that the moment is past.
    if all(topic_ends == ends[topic] for topic, topic_ends in cut.ends.items()):
        check_not_future(moment, now_ms())
    return cut


def _no_topics(_config_ends: Sequence[int]) -> Iterable[str]:
    """Name no topics: the archive has none but Connect's."""
    return ()


def check_reaches(cluster: ArchivedCluster, ends: Ends) -> None:
    """Check that an archive has all records before the ends that an earlier plan has found.

    Raises:
        ArchiveBusy: it does not; a shared file system may show an earlier archive for a while.
    """
    for topic, topic_ends in ends.items():
        archived = zip_longest(topic_ends, cluster.ends.get(topic, []), fillvalue=0)
        if any(end > archived_end for end, archived_end in archived):
            raise ArchiveBusy(
                f"the archive of {cluster.name} ends before the records of {topic} that were "
                "planned: run the command again"
            )


def _named(cluster: ArchivedCluster) -> list[str]:
    """Archived topics of the workers, without dedicated offsets topics of connectors.

    The config topic is required.
    """
    topics, archived_ends = cluster.topics, cluster.ends
    if topics.config not in archived_ends:
        raise UnknownMoment(f"the archive of {cluster.name} has no {topics.config}: capture it")
    connect_topics = (topics.config, topics.offsets, topics.status, topics.commands)
    return [topic for topic in connect_topics if topic in archived_ends]


def _with_own(
    cluster: ArchivedCluster, ends: dict[str, list[int]], own_topics: OwnTopics
) -> dict[str, list[int]]:
    """Add the dedicated offsets topics of connectors."""
    archived_ends = cluster.ends
    own = own_topics(ends[cluster.topics.config])
    return ends | {
        topic: archived_ends[topic] for topic in own if topic in archived_ends and topic not in ends
    }


def _no_topic(cluster: ArchivedCluster, topic: str, topics: Sequence[str]) -> UnknownMoment:
    """Error for a moment in a topic that is not one of these."""
    ellipsis = ["…"] if len(topics) > _TOPICS_NAMED else []
    return UnknownMoment(
        f"the archive of {cluster.name} has no topic {quoted(topic)}: it has "
        f"{', '.join([*topics[:_TOPICS_NAMED], *ellipsis])}"
    )


def _fitted(cluster: ArchivedCluster, moment: str, names: list[str]) -> FittedEnds:
    """Cut at a vector of end offsets."""
    vector, archived_ends = read_vector(moment), cluster.ends
    unknown = sorted(vector.keys() - archived_ends.keys())
    if unknown:
        raise _no_topic(cluster, unknown[0], [*dict.fromkeys([*names, *archived_ends])])
    ends = {topic: archived_ends[topic] for topic in dict.fromkeys([*names, *vector])}
    cut = fitted(vector, ends, cluster.topics.config)
    _check_begun(cluster, cut.ends[cluster.topics.config])
    return cut


def _check_begun(cluster: ArchivedCluster, ends: Sequence[int]) -> None:
    """Raise `UnknownMoment` for ends before the begin of the archived config topic."""
    for part, end in zip(cluster.parts_of(cluster.topics.config), ends, strict=False):
        if 0 < end <= part.start:
            raise UnknownMoment(
                f"the archive of {cluster.name} begins with config@{part.start}: "
                "it has no earlier records"
            )


# --- ranks ----------------------------------------------------------------------------------


def _limit(cluster: ArchivedCluster, moment: str, topics: list[str]) -> Rank:
    """Rank up to which records belong to the cut."""
    if "@" in moment:
        return _rank_of(cluster, moment, topics)
    time_ms = read_time_ms(moment)
    parts = [part for topic in topics for part in cluster.parts_of(topic) if part.segments]
    first_ms = min((ms for part in parts if (ms := _first_ms(part)) is not None), default=None)
    if parts and first_ms is None:
        raise UnknownMoment(
            "the times of these records are unknown: give a record, such as config@57"
        )
    if first_ms is not None and time_ms < first_ms:
        raise _removed(moment, first_ms, parts) or too_early(moment, time_ms, first_ms)
    return time_limit(time_ms)


def _removed(
    moment: str, first_ms: int, parts: Sequence[ArchivedPartition]
) -> UnknownMoment | None:
    """Error for a moment before the first record that retention kept; None without a retention."""
    cuts = [part.removed for part in parts if part.removed is not None]
    if not cuts:
        return None
    latest = max(cuts, key=lambda records: records.cut_ms)
    times = RetentionTimes(latest.removed_at_ms, latest.cut_ms)
    return UnknownMoment(
        f"{quoted(moment)} is before the first remaining record ({time_text(first_ms)}). "
        f"Earlier ones were {times.sentence}"
    )


def _first_ms(part: ArchivedPartition) -> int | None:
    """First known time in a partition; later segments may begin earlier."""
    return next((segment.first_ms for segment in part.segments if segment.first_ms >= 0), None)


def _rank_of(cluster: ArchivedCluster, moment: str, topics: list[str]) -> Rank:
    """Rank of the record that a moment names; raises `UnknownMoment` if there is none."""
    topic, partition, offset = read_position(moment, cluster.topics)
    part = cluster.parts.get((topic, partition))
    if topic not in topics:
        raise _no_topic(cluster, topic, topics)
    if part is None:
        partitions = count(len(cluster.ends[topic]), "partition")
        raise UnknownMoment(f"the archive has no record at {moment}: {topic} has {partitions}")
    at = bisect_left(part.segments, offset + 1, key=lambda segment: segment.end)
    if at < len(part.segments):
        segment = part.segments[at]
        file = opened(cluster.store, segment.stored)
        time_ms = time_of_offset(file, offset, _before_ms(part, at))
        if time_ms is not None:
            return time_ms, partition, offset, topic
    if not part.segments:
        raise UnknownMoment(f"the archive has no record at {moment}: {topic} has none there")
    if part.removed and read_offsets(cluster.store, part.removed).within(offset, offset + 1):
        times = RetentionTimes(part.removed.removed_at_ms, part.removed.cut_ms)
        raise UnknownMoment(f"the record at {moment} was {times.sentence}")
    first, last = (
        position_text(Position(topic, partition, number), cluster.topics)
        for number in (part.segments[0].start, part.segments[-1].end - 1)
    )
    raise UnknownMoment(
        f"the archive has no record at {moment}: {topic} reaches from {first} to {last} there. "
        "Not every offset between them is a record"
    )


def _before_ms(part: ArchivedPartition, at: int) -> int | None:
    """Running maximum of timestamps before a segment."""
    return part.segments[at - 1].latest_ms if at else None


def ends_within(
    cluster: ArchivedCluster, topics: Iterable[str], limit: Rank
) -> dict[str, list[int]]:
    """End offsets of the records of topics up to a rank, within the archive.

    Raises:
        ArchiveCorrupt: a segment with the rank in it is missing or damaged.
    """
    partitions = {topic: len(topic_ends) for topic, topic_ends in cluster.ends.items()}
    places = [(topic, number) for topic in topics for number in range(partitions[topic])]
    end_offsets = concurrently_in_plan(
        lambda place: _end_within(cluster, place, limit), places, cluster.store.requests_at_once
    )
    ends: dict[str, list[int]] = {}
    for (topic, _), end in zip(places, end_offsets, strict=True):
        ends.setdefault(topic, []).append(end)
    return ends


def _end_within(cluster: ArchivedCluster, place: PartitionId, limit: Rank) -> int:
    """End offset of a partition's records up to a rank; at most one segment is opened."""
    part = cluster.parts[place]
    at = bisect_right(part.segments, limit, key=_last_rank)
    end = part.segments[at - 1].end if at else 0
    if at == len(part.segments):
        return end
    topic, partition = place
    if limit[1::2] == (partition, topic):  # the rank of a record of this partition
        return int(limit[2]) + 1
    segment = part.segments[at]
    if segment.stored.records == 1:  # its record comes after the rank
        return end
    file = opened(cluster.store, segment.stored)
    return end_inside(file, segment, limit, _before_ms(part, at)) or end


def _last_rank(segment: Segment) -> Rank:
    """Rank of the last record of a segment."""
    latest_ms = max(segment.latest_ms, UNKNOWN_MS)
    return latest_ms, segment.partition, segment.end - 1, segment.topic
