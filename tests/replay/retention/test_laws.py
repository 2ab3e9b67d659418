"""Law: a retention changes no answer about its cut or later.

A retention removes superseded records: no state at or after its cut (a time) depends on them.
"""

from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry
from controlplane.core.moments import time_text
from controlplane.core.order import rank_entries, time_limit
from replay.archive.archived_cluster import ArchivedCluster
from replay.archive.merges.merge import Merger
from replay.archive.stores.store import FolderStore
from replay.archive.verification import verified
from replay.engine.plans.moment_cut import ends_within
from replay.engine.plans.retention_plan import older_than
from tests.conftest import PROVE, examples
from tests.laws.entries import logs
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import NAME, capture, cluster_in, lasting_days, log_of
from tests.replay.archive.merges import LARGER, looks, merged
from tests.replay.retention.retention_archives import answers_from, doubts_at, retained, states_at

pytestmark = pytest.mark.slow

PHASES = [*Phase] if PROVE else [Phase.explicit, Phase.reuse, Phase.generate]

RECORDS = 354 if PROVE else 140
"""Number of records of a log that `lasting_days` stretches over 6 days, with PROVE over 17."""

HISTORIES = ("aborted-3.9", "life-3.9", "compacted-3.9", "roll-3.4-3.9-3.4")


def moments_from(log: list[Entry], cut_ms: int) -> list[str | None]:
    """Moments after a cut: the end, and the times and config positions of later records."""
    later = [ranked for ranked in rank_entries(log) if ranked.time_ms > cut_ms]
    return [
        None,
        *(str(ranked.time_ms) for ranked in later),
        *(
            f"config@{ranked.offset}"
            for ranked in later
            if (ranked.topic, ranked.partition) == ("connect-configs", 0)
        ),
    ]


def ends_from(cluster: ArchivedCluster, cut_ms: int, data: st.DataObject) -> dict[str, list[int]]:
    """Draw an end offset for each partition, at the cut or later."""
    begins = ends_within(cluster, cluster.ends, time_limit(cut_ms))
    return {
        topic: [
            data.draw(st.integers(begin, end))
            for begin, end in zip(begins[topic], ends, strict=True)
        ]
        for topic, ends in cluster.ends.items()
    }


@settings(max_examples=examples(4, proved=1_000), phases=PHASES)
@given(
    logs(),
    st.lists(st.sampled_from(["look", "merge", "retain"]), min_size=1, max_size=6),
    st.data(),
)
def test_no_answer_changes_from_the_cut_on(
    log: list[Entry], plan: list[str], data: st.DataObject
) -> None:
    """Random looks, merges and retentions give the answers of looks alone, from the cut on.

    A look is a capture up to the present end of a log.
    """
    with TemporaryDirectory() as plain_folder, TemporaryDirectory() as other:
        plain, thin = Path(plain_folder), Path(other)
        capture(plain, log_of(log[:0]))
        capture(thin, log_of(log[:0]))
        looked_at, cut_ms = 0, 0
        for step in [*plan, "retain"]:
            if step == "look":
                looked_at = data.draw(st.integers(looked_at, len(log)))
                capture(plain, log_of(log[:looked_at]))
                capture(thin, log_of(log[:looked_at]))
            elif step == "merge":
                merged(thin, LARGER)
            else:
                step_ms = data.draw(st.integers(1_000, 1_055))
                retained(thin, step_ms)
                cut_ms = max(cut_ms, step_ms)
        capture(plain, log_of(log))
        capture(thin, log_of(log))
        before, after = cluster_in(plain), cluster_in(thin)
        result = verified(after)
        assert (result.flaws, result.leftovers, result.replaced, result.unproven) == ((), (), 0, 0)
        if any(part.segments for part in before.parts.values()):
            assert answers_from(after, cut_ms) == answers_from(before, cut_ms)
        if before.parts:
            ends = ends_from(before, cut_ms, data)
            assert doubts_at(after, ends) == doubts_at(before, ends)
        moments = st.sampled_from(moments_from(log, cut_ms))
        for moment in data.draw(st.lists(moments, max_size=4)):
            assert states_at(after, moment) == states_at(before, moment)


@pytest.mark.prove
@pytest.mark.parametrize("history", HISTORIES)
def test_recorded_clusters_answer_as_before(history: str, tmp_path: Path) -> None:
    """Retentions with a cut in the middle and at the end change no answer after the cut."""
    log = recorded_entries(history)
    for name in ("plain", "thin"):
        looks(tmp_path / name, log, 3)
    before = cluster_in(tmp_path / "plain")
    ranked = rank_entries(log)
    for at in (len(ranked) // 2, len(ranked) - 1):
        cut_ms = ranked[at].time_ms
        result = retained(tmp_path / "thin", cut_ms)
        assert sum(expired.records for expired in result.expired) > 0
        after = cluster_in(tmp_path / "thin")
        assert verified(after).flaws == ()
        assert answers_from(after, cut_ms) == answers_from(before, cut_ms)
        for moment in (None, str(cut_ms), str(cut_ms + 1)):
            assert states_at(after, moment) == states_at(before, moment)


def test_progress_adds_up_to_the_announced_work(tmp_path: Path) -> None:
    """A merge reports its work without and with a cut, also if nothing before the cut may go."""
    log = recorded_entries("aborted-3.9")
    looks(tmp_path / "archive", log[: len(log) // 2], 3)
    merged(tmp_path / "archive")
    capture(tmp_path / "archive", log_of(log))
    cuts_ms = [entry.timestamp for entry in log[::10]]
    expired = []
    for at, retention in enumerate([None, *(older_than(0, cut_ms) for cut_ms in cuts_ms)]):
        copy = copytree(tmp_path / "archive", tmp_path / str(at))
        merger = Merger(FolderStore(str(copy)), NAME, LARGER, retention)
        announced = merger.work
        reported: list[int] = []
        expired.append(bool(merger.run(reported.append).expired))
        assert sum(reported) == announced > 0
    assert {*expired[1:]} == {False, True}


def test_daily_snapshots_begin_anew_at_the_cut(tmp_path: Path) -> None:
    """Snapshots before the cut, which repeat removed records, are deleted; later ones are right."""
    log = lasting_days(recorded_entries("life-3.9")[:RECORDS])
    ranked = rank_entries(log)
    cut_ms = ranked[len(ranked) // 2].time_ms
    for name in ("plain", "thin"):
        looks(tmp_path / name, log[: len(log) * 3 // 4], 2)
    days = [snapshot.day for snapshot in cluster_in(tmp_path / "thin").snapshots]
    retained(tmp_path / "thin", cut_ms)
    cut_day = time_text(cut_ms)[:10]
    left = [snapshot.day for snapshot in cluster_in(tmp_path / "thin").snapshots]
    assert left == [day for day in days if day >= cut_day] != days
    for name in ("plain", "thin"):
        capture(tmp_path / name, log_of(log))
    before, after = cluster_in(tmp_path / "plain"), cluster_in(tmp_path / "thin")
    assert [snapshot.day for snapshot in after.snapshots] == [
        snapshot.day for snapshot in before.snapshots if snapshot.day >= cut_day
    ]
    for at in range(len(ranked) // 2, len(ranked), 90):
        moment = str(ranked[at].time_ms)
        assert states_at(after, moment) == states_at(before, moment)


def test_a_cluster_without_snapshots_gets_none_from_before_the_cut(tmp_path: Path) -> None:
    """No snapshot is made before the cut: the remaining records do not determine it."""
    log = lasting_days(recorded_entries("life-3.9")[:RECORDS])
    first = log[: len(log) // 3]
    cut_ms = rank_entries(first)[-10].time_ms
    looks(tmp_path, first, 1)
    retained(tmp_path, cut_ms)
    assert list(cluster_in(tmp_path).snapshots) == []
    capture(tmp_path, log_of(log))
    days = [snapshot.day for snapshot in cluster_in(tmp_path).snapshots]
    assert min(days) >= time_text(cut_ms)[:10]
