"""Records that SQL leaves out: their number per reason is documented and cannot grow silently."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import pytest

from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.scenario.folds import Folds, FoldTask
from controlplane.scenario.run import play_all, read
from tests.conftest import ROOT
from tests.recorded_requests import recorded_entries
from tests.replay.engine.test_local import STORIES
from tests.replay.sql import test_limits as limits
from tests.replay.sql.oracle import RELEASES, SqlOracle, Unfollowed, lines_of
from tests.replay.sql.sql_logs import SqlLog, followed, left_out, whole_cut

REASONS = {*limits.VALUES.values(), *limits.KEYS.values(), *limits.OFFSET_KEYS.values()}

HEADING = "| Left out |"


@pytest.fixture(scope="module")
def oracle() -> SqlOracle:
    """Oracle that all tests share; each log replaces the one before."""
    return SqlOracle()


@cache
def of_scenarios() -> Mapping[str, SqlLog]:
    """Every log that a view in a scenario shows."""
    tasks: list[FoldTask] = []

    def remember(asks: Sequence[FoldTask]) -> list[ClusterState]:
        tasks.extend(asks)
        return [fold(a.entries, a.profile, exactly_once=a.exactly_once) for a in asks]

    paths = sorted((ROOT / "scenarios").rglob("*.scenario"))
    play_all([read(path) for path in paths], Folds(batch={"remembered": remember}))
    logs = dict.fromkeys(task.entries for task in tasks if task.entries)
    return {str(number): list(log) for number, log in enumerate(logs)}


def recorded() -> Mapping[str, SqlLog]:
    """Return the entries of every recorded history by name."""
    return {name: recorded_entries(name) for name in STORIES}


def counted(logs: Mapping[str, SqlLog], odd: Mapping[str, Unfollowed]) -> Counter[str]:
    """Number of distinct records left out, by reason."""
    reasons = {_content(entry): odd[name].get(entry.position) for name, entry in _every(logs)}
    return Counter(why for why in reasons.values() if why is not None)


def _every(logs: Mapping[str, SqlLog]) -> Iterable[tuple[str, Entry]]:
    return ((name, entry) for name, log in logs.items() for entry in log)


def _content(entry: Entry) -> tuple[str, bytes | None, bytes | None]:
    return entry.topic, entry.key, entry.value


def documented() -> dict[str, tuple[int, int]]:
    """Documented numbers of left-out records in histories and in scenarios, by reason."""
    lines = iter((ROOT / "docs" / "architecture.md").read_text("utf-8").splitlines())
    next(line for line in lines if line.startswith(HEADING))
    next(lines)
    counts_by_reason = {}
    for line in lines:
        if not line.startswith("|"):
            break
        reason, _, histories, scenarios = (cell.strip() for cell in line.strip("|").split("|"))
        counts_by_reason[reason] = int(histories), int(scenarios)
    return counts_by_reason


@pytest.mark.slow
def test_omitted_records_are_documented(oracle: SqlOracle) -> None:
    """The documentation lists each reason with the number of such records in the repository."""
    histories, scenarios = (
        counted(logs, left_out(oracle, logs)) for logs in (recorded(), of_scenarios())
    )
    assert documented() == {reason: (histories[reason], scenarios[reason]) for reason in REASONS}


def test_sql_agrees_with_the_fold_on_logs_of_scenarios(oracle: SqlOracle) -> None:
    """SQL and the fold agree on each log without its left-out records."""
    logs = {name: log for name, log in followed(oracle, of_scenarios()).items() if log}
    oracle.logs(logs)
    answer = oracle.answer([whole_cut(log, name) for name, log in logs.items()])
    for number, log in enumerate(logs.values()):
        for release in RELEASES:
            assert answer.lines[number, release] == lines_of(fold(log, Profile.of(release)))
    assert len(logs) > 150
