"""Reads skip files, row groups and everything before a snapshot."""

from itertools import pairwise
from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from controlplane.core.moments import UnknownMoment
from controlplane.core.releases.profiles import PROFILES, Profile
from controlplane.logs.end_vectors import FittedEnds
from replay.archive.archived_cluster import ArchivedCluster
from replay.archive.segments.segment_files import SegmentSizes, opened, row_groups
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.engine.plans.plan_summary import explained
from replay.engine.plans.row_lookup import end_inside
from replay.engine.states.state_digest import digest
from replay.errors import ArchiveCorrupt
from tests.replay.archive.archives import archive, capture, cluster_in, log_of, replayed, served

HOUR_MS = 3_600_000
FIRST_MS = 1_700_006_400_000
"""Time at which a day begins, in ms."""

KIP = [Profile.of("kip")]
WHOLE = LocalOptions(derived=False)


def long_log(days: int) -> list[Entry]:
    """Log of a connector with a new config, and two new source offsets, every hour."""
    log = []
    for hour in range(24 * days):
        time_ms = FIRST_MS + hour * HOUR_MS
        config = b'{"properties":{"name":"a","n":"%d"}}' % hour
        log.append(Entry("connect-configs", 0, hour, time_ms, b"connector-a", config))
        for partition in range(2):
            key, value = b'["a",{"p":%d}]' % partition, b'{"o":%d}' % hour
            log.append(Entry("connect-offsets", partition, hour, time_ms, key, value))
    return sorted(log, key=lambda entry: (entry.timestamp, entry.topic, entry.partition))


@pytest.fixture(scope="module")
def log() -> list[Entry]:
    """A log that spans four days."""
    return long_log(4)


@pytest.fixture(scope="module")
def cluster(log: list[Entry], tmp_path_factory: pytest.TempPathFactory) -> ArchivedCluster:
    """Archive of the log: segments of eight hours, row groups of four."""
    return archive(tmp_path_factory.mktemp("archive"), log, SegmentSizes(8, 4))


def test_there_is_a_snapshot_at_the_end_of_each_day_that_is_over(cluster: ArchivedCluster) -> None:
    """Each finished day has a snapshot; the last day is not finished."""
    days = [(snapshot.day, snapshot.ends["connect-offsets"]) for snapshot in cluster.snapshots]
    assert days == [
        ("2023-11-15", [24, 24]),
        ("2023-11-16", [48, 48]),
        ("2023-11-17", [72, 72]),
    ]


def test_a_plan_reads_the_nearest_snapshot_and_later_rows(
    cluster: ArchivedCluster, log: list[Entry]
) -> None:
    """The plan reads half a day; a snapshot replaces the rows of the three days before it.

    Winners (rows that may still count) replace a segment of offsets.
    """
    moment = str(FIRST_MS + 84 * HOUR_MS)
    plan = LocalEngine(cluster).plan(moment, KIP)
    explanation = explained(cluster, plan, "local", "", [1 for _ in plan.busy])
    assert (explanation.snapshot, explanation.folded) == ("2023-11-17", ("connect-configs",))
    # One winner of a segment and five rows of the next segment in each of two offsets partitions,
    # and 13 rows of configs.
    assert explanation.rows_by_kind == {"snapshot": 2, "winners": 2, "segment": 13 + 2 * 5}
    assert explanation.rows_archived == len(log)
    assert replayed(cluster, moment, KIP) == served(log_of(log), moment, KIP)


def test_without_snapshots_every_row_before_the_moment_is_read(
    cluster: ArchivedCluster, log: list[Entry]
) -> None:
    """The plan without snapshots reads all rows before the moment, and gives the same answer."""
    moment = str(FIRST_MS + 84 * HOUR_MS)
    plan = LocalEngine(cluster, WHOLE).plan(moment, KIP)
    explanation = explained(cluster, plan, "local", "", [1 for _ in plan.busy])
    assert (explanation.snapshot, explanation.rows_by_kind) == (None, {"segment": 3 * 85})
    assert replayed(cluster, moment, KIP, WHOLE) == served(log_of(log), moment, KIP)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_states_with_and_without_snapshots_are_equal(
    cluster: ArchivedCluster,
    log: list[Entry],
    exactly_once: bool,
) -> None:
    """States with and without snapshots are equal at every seventh hour for three releases.

    At the end they are equal for each release.
    """
    every = [profile for profile in PROFILES if profile.exactly_once_support or not exactly_once]
    for hour in range(0, 96, 7):
        moment = str(FIRST_MS + hour * HOUR_MS)
        expected = served(log_of(log), moment, every[-3:], exactly_once=exactly_once)
        for derived in (True, False):
            states = replayed(cluster, moment, every[-3:], LocalOptions(exactly_once, derived))
            assert states == expected
            assert [*map(digest, states)] == [*map(digest, expected)]
    latest = replayed(cluster, None, every, LocalOptions(exactly_once))
    assert latest == served(log_of(log), None, every, exactly_once=exactly_once)


def test_releases_that_read_alike_share_a_snapshot(cluster: ArchivedCluster) -> None:
    """The plan of each release uses folded configs from the snapshot.

    The snapshot has them once for all releases that read alike.
    """
    for release in ("2.3", "3.4", "3.9", "3.9.1", "4.3"):
        plan = LocalEngine(cluster).plan(None, [Profile.of(release)])
        assert plan.folded == ("connect-configs",), release


def test_folded_configs_are_not_read_for_offsets(tmp_path: Path, log: list[Entry]) -> None:
    """A snapshot has its offsets as rows, and the configs as states in a file of its own.

    A plan for offsets alone does not read that file, which may be missing.
    """
    cluster = archive(tmp_path, log, SegmentSizes(8, 4))
    snapshots = list(cluster.snapshots)
    assert len(snapshots) == 3
    for snapshot in snapshots:
        assert snapshot.folded is not None
        (tmp_path / snapshot.folded.file).unlink()
    cut = FittedEnds({"connect-offsets": cluster.ends["connect-offsets"]})
    assert LocalEngine(cluster).plan_at(cut, KIP).folded == ()
    with pytest.raises(ArchiveCorrupt):
        LocalEngine(cluster).plan(None, KIP)


def test_different_states_have_different_digests(cluster: ArchivedCluster) -> None:
    """Every fifth hour of the log has a state with a digest of its own."""
    states = [replayed(cluster, f"config@{hour}", KIP)[0] for hour in range(0, 96, 5)]
    assert all(digest(earlier) != digest(later) for earlier, later in pairwise(states))
    assert len({digest(state) for state in states}) == len(states)


def test_a_time_reads_one_row_group_of_each_partition(cluster: ArchivedCluster) -> None:
    """Statistics rule out the other row groups without reading them."""
    segment = cluster.parts["connect-offsets", 0].segments[1]
    file = opened(cluster.store, segment.stored)
    groups = list(row_groups(file))
    assert [len(group) for group in groups] == [4, 4]
    limit = (FIRST_MS + 9 * HOUR_MS, float("inf"))
    before_ms = cluster.parts["connect-offsets", 0].segments[0].latest_ms
    assert end_inside(file, segment, limit, before_ms) == 10
    assert groups[0].greatest_time_ms == FIRST_MS + 11 * HOUR_MS


def test_a_record_that_comes_late_lies_behind_the_snapshot(
    tmp_path: Path, log: list[Entry]
) -> None:
    """A late record has an offset after the snapshot; plans with and without snapshots read it."""
    archive(tmp_path, log, SegmentSizes(8, 4))
    late = [
        Entry("connect-offsets", 2, 0, FIRST_MS + HOUR_MS, b'["a",{"p":9}]', b'{"o":9}'),
        Entry("connect-offsets", 0, 96, FIRST_MS + HOUR_MS, b'["a",{"p":0}]', None),
    ]
    whole = log_of([*log, *late])
    capture(tmp_path, whole)
    cluster = cluster_in(tmp_path)
    for moment in (str(FIRST_MS + 26 * HOUR_MS), str(FIRST_MS + 90 * HOUR_MS), None):
        for options in (None, WHOLE):
            assert replayed(cluster, moment, KIP, options) == served(whole, moment, KIP)


def test_a_frozen_state_is_not_used_once_its_topic_has_two_partitions(
    tmp_path: Path, log: list[Entry]
) -> None:
    """A late record of a new partition may precede the frozen ones, so all configs are read."""
    archive(tmp_path, log, SegmentSizes(8, 4))
    late = Entry(
        "connect-configs", 1, 0, FIRST_MS + HOUR_MS, b"connector-a", b'{"properties":{"name":"b"}}'
    )
    whole = log_of([*log, late])
    capture(tmp_path, whole)
    cluster = cluster_in(tmp_path)
    assert len(list(cluster.snapshots)) == 3
    before = '{"connect-configs":[90,0],"connect-offsets":[90,90]}'
    assert LocalEngine(cluster).plan(before, KIP).folded == ("connect-configs",)
    assert LocalEngine(cluster).plan(None, KIP).folded == ()
    for moment in (before, None):
        for options in (None, WHOLE):
            assert replayed(cluster, moment, KIP, options) == served(whole, moment, KIP)


def test_no_moment_lies_before_the_first_record(tmp_path: Path) -> None:
    """A time before the first record is refused, also if a later segment has an earlier time."""
    times = [FIRST_MS + 9, *(FIRST_MS + 9 for _ in range(7)), FIRST_MS]
    log = [Entry("connect-configs", 0, at, ms, b"k", b"{}") for at, ms in enumerate(times)]
    cluster = archive(tmp_path, log, SegmentSizes(8, 4))
    for moment in (FIRST_MS, FIRST_MS + 8):
        with pytest.raises(UnknownMoment, match="is before the first record"):
            replayed(cluster, str(moment), KIP)
    assert replayed(cluster, str(FIRST_MS + 9), KIP) == served(log_of(log), None, KIP)
