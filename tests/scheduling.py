"""Distribution of tests over the processes of `pytest -n`; loaded only where there are several.

Tests that share something expensive stay in one process: brokers, the session of Spark, the
fixtures of a module. What takes longest begins first, so that the processes end together.
"""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.scheduler.protocol import Scheduling

SHARING = ("tests/replay/spark/", "tests/kafka/")
"""Folders whose tests share a broker or a JVM, the longest first."""

LONG = ("tests/laws/", "tests/oracle/", "tests/docs/", "tests/kips/", "tests/integration/")
"""Folders with modules that take most of a minute: they begin behind those above."""

RANKS = (*SHARING, *LONG)


def group_of(node: str) -> str:
    """Name of the tests that run in the same process: a folder that shares, else a module."""
    module = node.partition("::")[0]
    return next((folder for folder in SHARING if module.startswith(folder)), module)


def rank_of(group: str) -> int:
    """Place of a group in the order of beginning; equal ranks keep the order of collection."""
    places = (place for place, folder in enumerate(RANKS) if group.startswith(folder))
    return next(places, len(RANKS))


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each idle process the next group of tests."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: object) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=rank_of), last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """Schedule by these groups, whatever `--dist` says."""
    return GroupScheduling(config, log)
