"""Law: an answer marked as certain equals the answer from the full log.

The full log has every record that a worker would have read since the first look (capture).
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from controlplane.core.entry import Entry
from controlplane.core.fold import Fold
from controlplane.core.moments import UnknownMoment
from controlplane.core.order import Ends, before, in_order
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.logs.end_vectors import FittedEnds
from replay.archive.archived_cluster import ArchivedCluster, PartitionId, open_cluster
from replay.archive.merges.merge import Merger
from replay.archive.readings.archived_readings import ArchivedReadings
from replay.archive.readings.reading_columns import PartitionReadings
from replay.archive.stores.store import FolderStore
from replay.doubts import DoubtKind
from replay.engine.coverage.certainty import ArchiveCertainty
from replay.engine.local_engine import LocalEngine
from replay.engine.plans.read_plan import ReadPlan
from tests.conftest import PROVE, sampled
from tests.replay.archive.merges import earlier_merge
from tests.replay.certainty.lossy_archive import PARTITIONS, TOPICS, LossyArchive, lossy_archive

pytestmark = pytest.mark.slow

PER_TEST = 10 if PROVE else 5

PROFILES = [Profile.of("2.3"), Profile.of("3.9"), Profile.of("kip")]
VECTOR = '{"connect-configs":[0]}'
"""Moment passed to `doubts`. Any vector would do: with a vector, the ends of the cut are exact."""


def cuts(cluster: ArchivedCluster, random: Random) -> Iterator[Ends]:
    """Yield cuts: the end, ends of readings, and a mixture of ends and any offsets."""
    yield cluster.ends
    reached = {place: readings_of(cluster, place).ends.tolist() for place in cluster.parts}
    for share in (0.2, 0.4, 0.6, 0.8):
        number = int(len(cluster.chain.manifests) * share)
        yield {
            topic: [reached[topic, at][: number + 1][-1] for at in range(len(ends))]
            for topic, ends in cluster.ends.items()
        }
        yield {
            topic: [int(end * share) if random.random() < 0.7 else end for end in ends]
            for topic, ends in cluster.ends.items()
        }


def has_unknown_records(certainty: ArchiveCertainty, place: PartitionId, end: int) -> bool:
    """True if the last record of a key may be missing at an end of a partition."""
    doubts = certainty.of_partition(place, end)
    return any(doubt.kind is not DoubtKind.DERIVED for doubt in doubts)


def readings_of(cluster: ArchivedCluster, place: PartitionId) -> PartitionReadings:
    return ArchivedReadings(cluster.store, cluster.chain).of(place)


def answers(state: ClusterState) -> Mapping[str, Any]:
    """Content of each topic. Keys of removed offsets, whose value is None, are left out."""
    rows = state.offsets.get(TOPICS.offsets)
    offsets = rows.values.items() if rows else ()
    return {
        TOPICS.config: _content(state.config),
        TOPICS.status: _content(state.status),
        TOPICS.offsets: {key: value for key, value in offsets if value is not None},
    }


def _content(part: Any) -> Any:
    tables = {field: getattr(part, field) for field in part.__struct_fields__}
    return {
        field: {**table} if isinstance(table, Mapping) else table for field, table in tables.items()
    }


def folded(entries: Iterable[Entry], profile: Profile) -> ClusterState:
    """State of a worker that reads these entries."""
    fold = Fold(profile)
    fold.apply_all(in_order(entries))
    return fold.snapshot()


def check(archive: LossyArchive, random: Random) -> Counter[tuple[str, bool]]:
    """Compare certain answers with those of the full log; count answers by topic and certainty."""
    certainty, local = ArchiveCertainty(archive.cluster), LocalEngine(archive.cluster)
    counted: Counter[tuple[str, bool]] = Counter()
    for ends in cuts(archive.cluster, random):
        doubtful = {doubt.topic for doubt in certainty.doubts(ends, VECTOR)}
        states = local.states(local.plan_at(FittedEnds(ends), PROFILES), PROFILES)
        entries = list(before(archive.reference, ends))
        for profile, state in zip(PROFILES, states, strict=True):
            ours, theirs = answers(state), answers(folded(entries, profile))
            for topic in ends:
                counted[topic, topic not in doubtful] += 1
                assert topic in doubtful or ours[topic] == theirs[topic]
    return counted


@pytest.mark.parametrize("first", sampled(range(0, 40, PER_TEST), 0))
def test_certain_answers_are_correct(first: int, tmp_path: Path) -> None:
    """Certain answers equal those of the full log, for random compactions and captures."""
    counted: Counter[tuple[str, bool]] = Counter()
    for seed in range(first, first + PER_TEST):
        counted += check(lossy_archive(seed, str(tmp_path / str(seed))), Random(seed))
    assert len(counted) == 2 * len(PARTITIONS)  # each topic is certain at some cuts only


@pytest.mark.parametrize("first", sampled(range(0, 40, PER_TEST), 0))
def test_the_certain_moment_is_the_earliest(first: int, tmp_path: Path) -> None:
    """From it on, the last record of each key is known up to the cut, and not one offset before."""
    counted: Counter[bool] = Counter()
    for seed in range(first, first + PER_TEST):
        archive = lossy_archive(seed, str(tmp_path / str(seed)), is_losing=seed % 2 == 1)
        certainty, local = ArchiveCertainty(archive.cluster), LocalEngine(archive.cluster)
        for ends in cuts(archive.cluster, Random(seed)):
            for is_past in (False, True):
                plan = local.plan(json.dumps(ends), PROFILES[:1], past=is_past)
                counted[plan.certain_from is None] += 1
                check_certain_from(certainty, plan, is_past=is_past)
    assert len(counted) == 2  # some cuts have a certain moment after them, others have none


def check_certain_from(certainty: ArchiveCertainty, plan: ReadPlan, *, is_past: bool) -> None:
    """Check the certain moment of a plan at each offset of each partition."""
    end_of_archive = certainty.cluster.ends
    for topic, topic_ends in plan.ends.items():
        for number, end in enumerate(topic_ends):
            place = topic, number
            if plan.certain_from is None:
                continue
            since = plan.certain_from[topic][number]
            begin = 0 if is_past else end
            assert begin <= since <= end_of_archive[topic][number]
            assert since == begin or has_unknown_records(certainty, place, since - 1)
            later = range(since, max(since, end) + 1)
            assert not any(has_unknown_records(certainty, place, offset) for offset in later)
    if plan.certain_from is None and not plan.gaps:
        kinds = {doubt.kind for doubt in plan.doubts if doubt.until is None}
        assert kinds & {DoubtKind.STATE, DoubtKind.DELETIONS}


@pytest.mark.parametrize("seed", sampled(range(8), 0, 1, 2, 3))
def test_an_earlier_merge_keeps_the_looks(seed: int, tmp_path: Path) -> None:
    """A merge by an earlier version keeps the looks, but may count more as late (`PROMPT_MS`)."""
    cluster = lossy_archive(seed, str(tmp_path)).cluster
    before = {place: readings_of(cluster, place).looks for place in cluster.parts}
    earlier_merge(cluster.store, "c")
    after = open_cluster(cluster.store, "c")
    for place, looks in before.items():
        merged = readings_of(after, place).looks
        for column in ("starts", "ends", "whole"):
            assert getattr(merged, column).tolist() == getattr(looks, column).tolist()
        assert {*looks.late.tolist()} <= {*merged.late.tolist()}


@pytest.mark.parametrize("seed", sampled(range(8), 0, 1, 2, 3))
def test_a_merge_changes_no_doubt(seed: int, tmp_path: Path) -> None:
    """Doubts at sampled cuts and times stay equal, although a merge moves borders of segments."""
    lossy_archive(seed, str(tmp_path))
    store = FolderStore(str(tmp_path))
    before = open_cluster(store, "c")
    ends = [*cuts(before, Random(seed))]
    times = [str(ms) for ms in range(0, 50, 7)]
    expected = doubts_at(before, ends, times)
    Merger(store, "c").run()
    assert doubts_at(open_cluster(store, "c"), ends, times) == expected


def doubts_at(cluster: ArchivedCluster, ends: Iterable[Ends], times: Iterable[str]) -> list[Any]:
    """Doubts at these offsets and times."""
    local, certainty = LocalEngine(cluster), ArchiveCertainty(cluster)
    answers: list[Any] = [certainty.doubts(cut, VECTOR) for cut in ends]
    for moment in times:
        try:
            answers.append(local.plan(moment, PROFILES).doubts)
        except UnknownMoment as error:
            answers.append(str(error))
    return answers
