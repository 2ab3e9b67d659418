"""Plans of many clusters are made in several processes, and are those that one process makes."""

import os
import signal
from multiprocessing import active_children, current_process, parent_process
from pathlib import Path
from threading import get_ident

import pytest

from replay.archive.stores.concurrent_requests import PARTITIONS_AT_ONCE, concurrently_in_plan
from replay.fleet import cluster_plans
from replay.fleet.cluster_plans import (
    CLUSTERS_PER_PROCESS,
    MOST_PROCESSES,
    PLANS_AT_ONCE,
    planned_ahead,
    planned_each,
    planned_here,
    process_count,
)
from tests.replay.cli.replay_calls import call
from tests.replay.fleet.fleets import CLUSTERS, damage_files, fleet_in

RECORD = "config@3"
MANY = 4 * CLUSTERS_PER_PROCESS
"""Number of clusters for four processes."""


@pytest.mark.parametrize(
    ("clusters", "moments", "processors", "processes"),
    [
        (MANY, [RECORD], 2, 2),
        (MANY, [None, RECORD], 2, 2),
        (MANY, ["2026-11-20"], 16, 4),
        (100 * MANY, [RECORD], 16, MOST_PROCESSES),
        (2 * CLUSTERS_PER_PROCESS - 1, [RECORD], 16, 1),
        (MANY, [RECORD], 1, 1),
        (MANY, [None], 16, 1),
        (MANY, [None, '{"connect-configs":[1]}'], 16, 1),
        (1, [RECORD], 16, 1),
    ],
)
def test_processes_plan_many_clusters_whose_segments_are_read(
    clusters: int, moments: list[str | None], processors: int, processes: int
) -> None:
    """Manifests alone tell the end and a vector; a start of processes takes time."""
    assert process_count(clusters, moments, processors) == processes


def threads_of_plan(_cluster: str) -> set[int]:
    """Threads that make the requests of a plan; this thread."""
    requests = concurrently_in_plan(lambda _: get_ident(), range(8), PARTITIONS_AT_ONCE)
    return {get_ident(), *requests}


def test_many_plans_send_their_requests_in_turn() -> None:
    """A thread per plan suffices if many plans wait for the store."""
    clusters = [f"c{number}" for number in range(PLANS_AT_ONCE)]
    assert all(len(threads) == 1 for threads in planned_here(threads_of_plan, clusters))
    assert all(len(threads) > 1 for threads in planned_here(threads_of_plan, clusters[1:]))
    assert len(threads_of_plan("c0")) > 1


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two processes plan a fleet of a few clusters."""
    monkeypatch.setattr(cluster_plans, "CLUSTERS_PER_PROCESS", 2)
    monkeypatch.setattr(cluster_plans, "BLOCKS_PER_PROCESS", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def process_of(_cluster: str) -> int:
    """Process that makes a plan."""
    return os.getpid()


@pytest.mark.slow
@pytest.mark.usefixtures("two_processes")
def test_plans_are_made_in_other_processes() -> None:
    """No block of clusters is planned in this process."""
    processes = list(planned_each(process_of, ["a", "b", "c", "d"], [RECORD]))
    assert len(processes) == 4
    assert os.getpid() not in processes
    assert {*planned_each(process_of, ["a", "b", "c", "d"], [None])} == {os.getpid()}


@pytest.mark.usefixtures("two_processes")
def test_one_job_plans_in_this_process() -> None:
    """The number of jobs limits the processes that plan."""
    assert {*planned_each(process_of, ["a", "b", "c", "d"], [RECORD], 1)} == {os.getpid()}
    assert {*planned_ahead(process_of, ["a", "b", "c", "d"], [RECORD], 1)} == {os.getpid()}


@pytest.mark.usefixtures("two_processes")
def test_a_daemonic_process_plans_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of `multiprocessing.Pool` are daemonic: Python refuses to start their children."""
    monkeypatch.setitem(current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    assert {*planned_each(process_of, ["a", "b", "c", "d"], [RECORD])} == {os.getpid()}


def test_few_plans_wait_for_their_caller() -> None:
    """A caller that folds each cluster at once does not hold the plans of a whole fleet."""
    planned: list[str] = []
    clusters = [f"c{number}" for number in range(3 * PLANS_AT_ONCE)]
    plans = planned_ahead(planned.append, clusters, [None])
    next(plans)
    assert len(planned) <= PLANS_AT_ONCE
    assert len(list(plans)) == len(clusters) - 1


class CountedPlan:
    """Plan that counts the plans of other processes which this process holds."""

    held = 0

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster

    def __setstate__(self, state: dict[str, str]) -> None:
        """Count a plan that arrives here."""
        self.__dict__ |= state
        CountedPlan.held += 1

    def __del__(self) -> None:
        """Count a plan that its last holder has freed."""
        CountedPlan.held -= 1


@pytest.mark.slow
@pytest.mark.usefixtures("two_processes")
def test_a_plan_is_freed_by_its_caller() -> None:
    """A fold adds states to its plan; those of a whole block would need much memory."""
    held = []
    for plan in planned_ahead(CountedPlan, [*"abcdefgh"], [RECORD]):
        assert plan.cluster in "abcdefgh"
        held.append(CountedPlan.held)
    assert held == [4, 3, 2, 1, 4, 3, 2, 1]


@pytest.mark.slow
@pytest.mark.usefixtures("two_processes")
def test_processes_end_with_their_caller() -> None:
    """A query that ends early, for instance because a cluster is unreadable, leaves no process."""
    earlier = {*active_children()}
    plans = planned_ahead(process_of, ["a", "b", "c", "d", "e"], [RECORD])
    next(plans)
    assert {*active_children()} - earlier
    plans.close()
    assert not {*active_children()} - earlier


def named_or_killed(cluster: str) -> str:
    """Name of a cluster; the other process that is to plan `c` is killed."""
    if cluster == "c" and parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return cluster


@pytest.mark.slow
@pytest.mark.usefixtures("two_processes")
def test_this_process_plans_the_rest_after_a_death() -> None:
    """A process that the kernel kills for lack of memory costs no answer."""
    clusters = ["a", "b", "c", "d", "e"]
    assert list(planned_each(named_or_killed, clusters, [RECORD])) == clusters
    assert list(planned_ahead(named_or_killed, clusters, [RECORD])) == clusters


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of recorded clusters; the segments of one are damaged, and one is empty."""
    folder = fleet_in(tmp_path_factory.mktemp("fleet"))
    damage_files(folder, "mirror")
    (folder / "cluster=empty" / "topic=a").mkdir(parents=True)
    (folder / "cluster=empty" / "topic=a" / "file").touch()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("state", "--as-of", RECORD, "--explain"),
        ("state", "--as-of", RECORD, "--release", "all", "-o", "json"),
        ("state", "--as-of", "config@30"),
        ("state", "--as-of", RECORD, "--trust", "--from-segments"),
        ("diff", "--from", RECORD, "-o", "json"),
        ("timeline", "--as-of", RECORD, "-o", "json"),
        ("history", "--as-of", RECORD, "--connector", "pages", "-o", "json"),
    ],
)
def test_answers_are_those_of_one_process(
    words: tuple[str, ...], fleet: Path, request: pytest.FixtureRequest
) -> None:
    """Output, errors of broken clusters, their order and exit codes are the same."""
    answer = call(words[0], fleet, *words[1:])
    request.getfixturevalue("two_processes")
    assert process_count(len(CLUSTERS), [RECORD], 2) == 2
    assert call(words[0], fleet, *words[1:]) == answer
    assert "mirror" in answer.err
    assert answer.code == 2
