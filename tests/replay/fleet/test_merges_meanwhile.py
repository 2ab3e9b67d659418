"""Queries of an archive that is merged between the opening of a cluster and the reading of it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import replay
from controlplane.core.releases.profiles import Profile
from replay.archive.archived_cluster import ArchivedCluster
from replay.archive.stores.store import FolderStore
from replay.cluster_problem import BusyCluster, attempted, streamed
from replay.compat import RolloutMode
from replay.errors import ArchiveBusy
from replay.fleet.archive_source import ArchiveSource
from replay.fleet.cluster_summaries import FleetQuestion
from replay.fleet.comparisons import DifferenceQuery, MomentRelease
from replay.fleet.fleet_tables import audit_table, compat_table, partition_table
from replay.fleet.local_fleet import LocalFleet
from replay.fleet.state_files import new_folder
from replay.fleet.table_queries import HistoryQuery, IntervalQuery, StateTableQuery
from replay.fleet.table_run import OnUnreadable, TableWork
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import NAME
from tests.replay.archive.merges import merged, two_looks

ENTRIES = recorded_entries("aborted-3.9")
KIP = Profile.of("kip")
OLDER = Profile.of("3.4")
FLEET = LocalFleet()
SIDES = DifferenceQuery(MomentRelease("config@3", KIP), MomentRelease(None, KIP), ())


class ArchiveMergedOnce(ArchiveSource, frozen=True, dict=True):
    """Archive that is merged after the first opening of its cluster, without grace."""

    def cluster(self, name: str) -> ArchivedCluster:
        """Open the cluster, then merge its files; a second merge finds nothing to do."""
        opened = super().cluster(name)
        merged(Path(self.where))
        return opened


def _frame(query: Any) -> Callable[[ArchiveSource], Any]:
    return lambda source: FLEET.frame(TableWork(query, source, [NAME], OnUnreadable.RAISE))


def _difference(source: ArchiveSource) -> Any:
    with new_folder(f"{source.where}-{type(source).__name__}", source.settings) as folder:
        (compared,) = FLEET.differences(SIDES, source, [NAME], folder)
    return compared.row


ANSWERS: dict[str, Callable[[ArchiveSource], Any]] = {
    "state": _frame(StateTableQuery("connectors", None, (KIP,))),
    "timeline": _frame(IntervalQuery(None, (KIP,), (), offsets=False)),
    "history": _frame(HistoryQuery(None, (KIP,), ("pages",))),
    "diff": _frame(SIDES),
    "write_diff": _difference,
    "summaries": lambda source: [
        summary.row for summary in FLEET.summaries(FleetQuestion(source, None, (KIP,)), [NAME])
    ],
    "partitions": lambda source: partition_table(source, [NAME], FLEET.requests),
    "audit": lambda source: audit_table(
        FleetQuestion(source, None, (KIP,)), [NAME], {}, FLEET.executor
    ).answer(OnUnreadable.RAISE),
    "compat": lambda source: compat_table(
        FleetQuestion(source, None, (KIP, OLDER)),
        [NAME],
        RolloutMode.DOWNGRADE,
        FLEET.executor,
        transitive=False,
    ).answer(OnUnreadable.RAISE),
}
"""Queries of the Python API."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_a_merged_cluster_is_opened_again(tmp_path: Path, name: str) -> None:
    """The answer is the same as without the merge, and no cluster is skipped."""
    folder = str(tmp_path / "archive")
    two_looks(FolderStore(folder), ENTRIES)
    expected = ANSWERS[name](ArchiveSource(folder))
    assert ANSWERS[name](ArchiveMergedOnce(folder)) == expected


def test_all_views_of_a_merged_cluster_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merge follows the first opening; no view lacks rows that another view has."""
    folder = tmp_path / "archive"
    two_looks(FolderStore(str(folder)), ENTRIES)
    archive, open_cluster = replay.open(folder), ArchiveSource.cluster
    expected: dict[str, Any] = {}
    archive.register_views(expected.__setitem__)

    def merge_meanwhile(source: ArchiveSource, name: str) -> ArchivedCluster:
        opened = open_cluster(source, name)
        merged(folder)
        return opened

    monkeypatch.setattr(ArchiveSource, "cluster", merge_meanwhile)
    views: dict[str, Any] = {}
    archive.register_views(views.__setitem__)
    assert views == expected


def busy(failures: int) -> Callable[[], list[str]]:
    """Answer whose first calls fail, because merges have removed files."""
    calls: list[int] = []

    def rows() -> list[str]:
        calls.append(len(calls) + 1)
        if len(calls) <= failures:
            raise ArchiveBusy(f"merged {len(calls)}")
        return ["row"]

    return rows


def test_there_are_two_attempts() -> None:
    """One merge is no problem; after a second one, the cluster has the problem."""
    for failures in (0, 1):
        assert attempted("c", busy(failures)) == ["row"]
        assert list(streamed("c", busy(failures))) == ["row"]
    problem = attempted("c", busy(2))
    assert isinstance(problem, BusyCluster)
    assert problem.line == "c: merged 2"
    assert list(streamed("c", busy(2))) == [problem]


def test_no_row_is_made_twice() -> None:
    """A merge after the first row ends the rows with the problem."""

    def rows() -> Iterator[str]:
        yield "row"
        raise ArchiveBusy("merged")

    assert list(streamed("c", rows)) == ["row", ("c", "merged")]
