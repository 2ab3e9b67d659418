"""Results of one cluster stay small: the driver holds those of all clusters of a fleet."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from controlplane.core.entry import Entry
from controlplane.core.order import in_order
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from replay.cluster_records import ClusterRecords
from replay.compat import roll
from replay.compat.compat_task import CompatTask
from replay.gaps import OffsetGap
from replay.lint import lint
from replay.report import ClusterFacts, PageLimits, ReportTask, page
from replay.report.fleet_facts import RecordStream
from tests.replay.audit.planted_log import PlantedLog
from tests.replay.report.page_reader import read
from tests.replay.report.planted_clusters import cluster_facts, of

LIMITS = PageLimits(drawn=3, listed=20, findings=12, evidence=100)

GROWTH = 1.05
"""Allowed growth of a result if its cluster gets four times as many keys: numbers get digits."""


def moved(keys: int) -> list[Entry]:
    """Records of a source with this number of source partitions, each moved twice."""
    log = PlantedLog().running("a")
    for position in range(2):
        for number in range(keys):
            log.offset("a", {"position": position}, file=f"{number:05}")
    return of(log)


def report_result(entries: Sequence[Entry]) -> object:
    """Result of `replay report` for a cluster."""
    return cluster_facts(entries, limits=LIMITS)


def compat_result(entries: Sequence[Entry]) -> object:
    """Result of `replay compat` for a cluster."""
    change = roll(Profile.of("3.4"), Profile.of("4.3"))
    return CompatTask((change,))(ClusterRecords("lab", Topics(), False, lambda: entries))


def lint_result(entries: Sequence[Entry]) -> object:
    """Result of `replay lint` for a cluster."""
    return lint(entries, Profile.of("3.9"))


@pytest.mark.parametrize("result_of", [report_result, compat_result, lint_result])
def test_results_do_not_grow_with_keys(result_of: Callable[[Sequence[Entry]], object]) -> None:
    """Four times as many source partitions give a result of the same size."""
    small, large = (len(msgspec.json.encode(result_of(moved(keys)))) for keys in (200, 800))
    assert large <= small * GROWTH


def test_unlisted_gaps_are_counted_only() -> None:
    """The result has the gaps that the page lists; the others are a number."""

    def facts(gaps: int) -> ClusterFacts:
        lost = [OffsetGap("connect-offsets", 0, range(at, at + 1)) for at in range(gaps)]
        task = ReportTask(Profile.of("3.9"), (), LIMITS)
        entries = in_order(PlantedLog().running("a").entries)
        return task(RecordStream("lab", Topics(), False, entries, gaps=lost))

    few, many = facts(12), facts(40)
    assert (few.missing, few.missing_more) == (many.missing, 0)
    assert many.missing_more == 28
    evidence = read(page([many])).by_id("c0-read")
    assert len(list(evidence.all("li"))) == 12
    assert "… and 28 more unknown spans: replay timeline -o json lists all." in evidence.text
