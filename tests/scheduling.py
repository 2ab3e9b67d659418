"""Distribution of tests over the processes of `pytest -n`; loaded for several processes only.

Tests that share something expensive stay in one process: brokers, the session of Spark, the
fixtures of a module. The longest ones begin first, so that the processes end together. Tests with
brokers or Spark mostly wait, which would leave the cores idle. So one process gets no such tests as
long as there are tests of other kinds.
"""

import re
from collections.abc import Mapping

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.scheduler.protocol import Scheduling

SHARING = ("tests/replay/spark/", "tests/kafka/")
"""Folders whose tests share a broker or a JVM, the longest first."""

ALONE = tuple(
    f"tests/kafka/test_{name}.py"
    for name in (
        *("attached_kills", "client_commands", "live_cluster", "attached", "rolling_upgrade"),
        *("sink_offsets", "migrate", "log_outages", "outages", "attached_crashes"),
        *("expired_certificates", "contract", "attached_bad_input", "side_by_side"),
        *("attached_process_kills", "own_outages", "demonstration", "worker_outages"),
    )
)
"""Modules of such a folder that share nothing with the others: they start their own brokers."""

BROKERS = "tests/kafka/"
"""Folder of `SHARING` whose tests share one broker per release: each release is a group."""

RELEASES = ("3.9.1", "4.3.0")
"""Releases of these brokers; a test that names neither runs with those of the first."""

SPLIT = (*("tests/rest/plugins/test_recordings.py", "tests/oracle/test_oracle.py"),)
"""Long modules whose tests share nothing: each test is a group."""

LONG = (
    *("tests/oracle/test_releases.py", "tests/rest/releases/", "tests/benchmarks/"),
    *("tests/laws/", "tests/oracle/", "tests/docs/", "tests/kips/", "tests/integration/"),
)
"""Modules that take most of a minute, and folders with such: they begin after those above."""

RANKS = (*SHARING, *ALONE, *SPLIT, *LONG)


def group_of(node: str) -> str:
    """Name of the tests that run in the same process: those of a folder, release or module."""
    module = node.partition("::")[0]
    if module in SPLIT:
        return node
    if module in ALONE:
        return module
    if module.startswith(BROKERS):
        return f"{BROKERS}{broker_of(node)}"
    return next(filter(module.startswith, SHARING), module)


def broker_of(node: str) -> str:
    """Release of the broker that a test uses, by the parameters in its name."""
    parameters = re.split(r"[\[\]-]", node)
    return next((release for release in RELEASES if release in parameters), RELEASES[0])


def waits(group: str) -> bool:
    """True for tests that mostly wait for brokers, workers and the JVM of Spark."""
    return group.startswith(SHARING)


def rank_of(group: str) -> int:
    """Rank of a group in the order of starts; equal ranks keep the order of collection."""
    module = group.partition("::")[0]
    if module in RANKS:
        return RANKS.index(module)
    places = (place for place, folder in enumerate(RANKS) if group.startswith(folder))
    return next(places, len(RANKS))


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each idle process the next group of tests, and keeps one free of waiting groups."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: object) -> None:
        others = [groups for other, groups in self.assigned_work.items() if other is not node]
        is_last_busy = bool(others) and all(map(_is_waiting, others))
        chosen = min(
            self.workqueue, key=lambda group: (is_last_busy and waits(group), rank_of(group))
        )
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)


def _is_waiting(groups: Mapping[str, Mapping[str, bool]]) -> bool:
    """True if a process has waiting tests to run; `groups` says by group and test what has run."""
    return any(waits(group) and not all(tests.values()) for group, tests in groups.items())


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """Schedule by these groups, whatever `--dist` says."""
    return GroupScheduling(config, log)
