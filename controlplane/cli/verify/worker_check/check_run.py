"""Run of a check: connect to log and workers, compare, explain what differs, report."""

import asyncio
from collections.abc import Collection, Mapping
from typing import NamedTuple

from controlplane.cli.verify.worker_check.answer_progress import (
    Agreement,
    AnswerProgress,
    ComparedAnswers,
)
from controlplane.cli.verify.worker_check.check_report import (
    CheckReport,
    WorkerDifference,
    print_report,
)
from controlplane.cli.verify.worker_check.checked_worker import (
    CheckedWorker,
    WorkerAccess,
    check_cluster,
    connected_workers,
)
from controlplane.cli.verify.worker_check.comparison_rounds import (
    CheckedEndpoint,
    CheckedLog,
    ComparisonRounds,
    Patience,
    ReportProgress,
)
from controlplane.cli.verify.worker_check.explanation import Explainer, Explanation, is_needed
from controlplane.core.order import in_order
from controlplane.core.plugins import Plugins
from controlplane.logs.log import ReadableLog
from controlplane.logs.log_factory import open_log
from controlplane.projection.limits import FollowerLimits
from controlplane.projection.past_states import ends_now
from controlplane.rest.endpoints.pure_requests import endpoint_parts
from controlplane.settings.prefixes import FOLLOWER
from controlplane.terminal.log_options import LogOptions
from controlplane.terminal.output import note
from controlplane.terminal.progress_bar import LogWithProgress, counting


class CheckOptions(NamedTuple):
    """Log to check, workers to compare it with, and the form of the report."""

    where: str
    """Name of the log, as on the command line."""
    reading: LogOptions
    plugins: Plugins
    typed: bool
    """True if a catalogue has the types of connectors."""
    access: WorkerAccess
    patience: Patience
    output: str


def check(options: CheckOptions) -> int:
    """Check the workers, print the report, and return the exit code.

    Raises:
        LogError: the log cannot be read.
        InputRefused, UnknownRelease, Declined, Unavailable: a worker cannot be compared.
    """
    with counting(f"asking {len(options.access.urls)} workers") as progress:
        report = asyncio.run(_Check(options).run(progress))
    print_report(report, options.output)
    return report.exit_code


class _Check:
    """Check that connects to the workers and opens the log."""

    def __init__(self, options: CheckOptions) -> None:
        self._options = options
        self._reading = options.reading

    async def run(self, progress: ReportProgress) -> CheckReport:
        options = self._options
        async with connected_workers(options.access) as workers:
            every_committed = all(worker.exactly_once for worker in workers)
            opening = self._reading.opening(exactly_once=every_committed)
            async with await open_log(options.where, opening) as opened:
                for problem in opened.problems:
                    note(f"{options.where}: {problem}")
                check_cluster(workers, options.where, opened.cluster_id)
                log = LogWithProgress(opened.log, options.where)
                return await self._compare(log, workers, progress)

    async def _compare(
        self, log: ReadableLog, workers: list[CheckedWorker], progress: ReportProgress
    ) -> CheckReport:
        options, topics = self._options, self._reading.topics
        checked = CheckedLog(
            log,
            topics=topics,
            plugins=options.plugins,
            typed=options.typed,
            limits=self._reading.configuration.settings(FollowerLimits, FOLLOWER),
        )
        rounds = ComparisonRounds(checked, workers, options.patience)
        async with checked.followed(workers):
            await rounds.compare(progress)
        differing = {
            endpoint: answers
            for endpoint, answers in rounds.progress.items()
            if answers.standing is Agreement.DIFFERS
        }
        differences = await self._explained(log, checked, differing)
        return CheckReport(options.where, topics, workers, rounds.progress, differences)

    async def _explained(
        self,
        log: ReadableLog,
        checked: CheckedLog,
        differing: Mapping[CheckedEndpoint, AnswerProgress],
    ) -> list[WorkerDifference]:
        """Differences with the records that explain them; the log is read once more."""
        if not differing:
            return []
        explainers = await self._explainers(log, checked, differing)

        def explain(endpoint: CheckedEndpoint, answers: ComparedAnswers) -> Explanation:
            return explainers[endpoint.worker.name].explain(endpoint.path, answers)

        return [
            WorkerDifference(endpoint, progress.last, explain(endpoint, progress.last))
            for endpoint, progress in differing.items()
            if progress.last is not None
        ]

    async def _explainers(
        self, log: ReadableLog, checked: CheckedLog, differing: Collection[CheckedEndpoint]
    ) -> dict[str, Explainer]:
        topics = self._reading.topics
        parts = [endpoint_parts(endpoint.path) for endpoint in differing]
        names = {part.connector for part in parts if part.rest == ("offsets",)}
        workers = {endpoint.worker.name: endpoint.worker for endpoint in differing}
        profiles = {worker.profile.release: worker.profile for worker in workers.values()}
        ends = await ends_now(log, topics)
        entries = []
        async for batch in log.read(list(ends), stop=ends):
            if batch.topic in (topics.config, topics.status) or names:
                read = batch.entries()
                entries += [
                    entry
                    for entry in read
                    if any(is_needed(entry, topics, each, names) for each in profiles.values())
                ]
        ordered = in_order(entries)
        return {
            name: Explainer(
                ordered, topics, worker.profile, checked, exactly_once=worker.exactly_once
            )
            for name, worker in workers.items()
        }
