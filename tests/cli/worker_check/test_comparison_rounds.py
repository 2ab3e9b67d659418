"""Rounds of a comparison that its time-out ends early."""

import asyncio
import json
from collections.abc import Iterable, Mapping

import httpx
import pytest

from controlplane.cli.verify.worker_check.check_report import CheckReport, print_report
from controlplane.cli.verify.worker_check.checked_worker import CheckedWorker
from controlplane.cli.verify.worker_check.comparison_rounds import (
    CheckedLog,
    ComparisonRounds,
    Patience,
)
from controlplane.client.http.request_errors import LATE
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.logs.memory import MemoryLog


class StalledCheckedLog(CheckedLog):
    """Log whose broker never answers."""

    async def read(self, workers: Iterable[CheckedWorker]) -> Mapping[str, ClusterState]:
        """Wait for ever."""
        del workers
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_log_that_was_never_read_has_no_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The exit code is that of a log that never stood still, and the report names endpoints."""
    log = StalledCheckedLog(MemoryLog(), topics=Topics(), plugins=Plugins(), typed=False)
    async with httpx.AsyncClient() as client:
        worker = CheckedWorker(
            "http://worker",
            client,
            Profile.of("3.9"),
            "3.9.2",
            exactly_once=False,
            cluster_id=None,
            ours=False,
        )
        rounds = ComparisonRounds(log, [worker], Patience(timeout_s=0.01, settle_s=0))
        await rounds.compare(lambda *_: None)
    report = CheckReport("kafka://broker", Topics(), [worker], rounds.progress, [])
    assert report.exit_code == LATE
    print_report(report, "json")
    document = json.loads(capsys.readouterr().out)
    assert (document["stood_still"], "/connectors" in document["workers"][0]["unsettled"]) == (
        False,
        True,
    )
