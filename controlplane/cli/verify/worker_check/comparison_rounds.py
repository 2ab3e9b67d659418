"""Rounds of a comparison: read the log, ask the workers, read the log again.

The first round asks every worker for everything. Later rounds repeat only what does not agree yet.
They are short, so most answers of a busy cluster stand still during such a round. The log as read
at the end of a round is also the log before the next round.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

import httpx

from controlplane.cli.verify.answer_diff import is_of_consumer_group, without_types
from controlplane.cli.verify.worker_check.answer_progress import AnswerProgress, ComparedAnswers
from controlplane.cli.verify.worker_check.checked_worker import CheckedWorker, Unanswered
from controlplane.client.http.api import connector
from controlplane.core import views
from controlplane.core.plugins import Plugins
from controlplane.core.state import ClusterState, Topics
from controlplane.logs.log import ReadableLog
from controlplane.projection.follower import Follower
from controlplane.projection.limits import FollowerLimits
from controlplane.rest.endpoints.pure_requests import (
    answer,
    connector_paths,
    endpoint_parts,
    list_paths,
    reachable,
)
from controlplane.rest.endpoints.reads import ReadInputs
from controlplane.scenario.story import RecordedAnswer
from controlplane.terminal.command_errors import InputRefused
from controlplane.worker_api import PATH_MAX

REQUESTS_AT_ONCE = 4
"""Requests to one worker at the same time: a worker answers most reads in one thread."""

ROUND_PAUSE_S = 0.5
"""Pause in seconds between two rounds."""

SINK_OFFSETS = "offsets of sinks are in consumer groups, not in the log"
NO_TRACKING = "this worker does not track the topics of connectors"

ReportProgress = Callable[[int, int], None]
"""Called with the number of decided comparisons, and of all."""


class CheckedEndpoint(NamedTuple):
    """Path that is read from one worker and compared with the log."""

    worker: CheckedWorker
    path: str


class Patience(NamedTuple):
    """Times of a comparison, in seconds."""

    timeout_s: float
    """Longest time to wait until log and workers stand still."""
    settle_s: float
    """Time for which a difference must stay before it counts."""


class CheckedLog:
    """The log that the workers read.

    For a worker with exactly-once support, aborted configs and offsets are left out.
    """

    def __init__(
        self,
        log: ReadableLog,
        *,
        topics: Topics,
        plugins: Plugins,
        typed: bool,
        limits: FollowerLimits | None = None,
    ) -> None:
        """`typed`: a catalogue has the types of connectors, so they are compared."""
        self._log = log
        self._topics = topics
        self._plugins = plugins
        self._typed = typed
        self._limits = limits
        self._followers: dict[bool, Follower] = {}

    @asynccontextmanager
    async def followed(self, workers: Iterable[CheckedWorker]) -> AsyncIterator[None]:
        """Follow the log within the block; its records so far are folded for every worker.

        Raises:
            LogError: it cannot be read.
        """
        async with AsyncExitStack() as stack:
            for worker in workers:
                if worker.exactly_once not in self._followers:
                    follower = Follower(
                        self._log,
                        topics=self._topics,
                        exactly_once=worker.exactly_once,
                        limits=self._limits,
                    )
                    self._followers[worker.exactly_once] = await stack.enter_async_context(follower)
                await self._followers[worker.exactly_once].state(worker.profile)
            yield

    async def read(self, workers: Iterable[CheckedWorker]) -> Mapping[str, ClusterState]:
        """Read the log to its end; return the state that each worker should have, by worker name.

        Raises:
            LogError: it cannot be read.
        """
        for follower in self._followers.values():
            await follower.wait_for(await self._log.ends(list(follower.ends)))
        return {
            worker.name: await self._followers[worker.exactly_once].state(worker.profile)
            for worker in workers
        }

    def answer(self, state: ClusterState, path: str) -> RecordedAnswer:
        """Answer of the log to `GET path`, as far as it is compared."""
        recorded = RecordedAnswer(*answer(ReadInputs(state, self._plugins), path)[:2])
        return self.comparable(path, recorded)

    def comparable(self, path: str, given: RecordedAnswer) -> RecordedAnswer:
        """The part of an answer that is compared."""
        return given if self._typed else without_types(path, given)

    def is_sink(self, state: ClusterState, name: str) -> bool:
        """True if the plugins know a connector as a sink."""
        config = state.config.connectors.get(name, {})
        return self._plugins.type_of(config.get("connector.class"), state.profile) == "sink"


class ComparisonRounds:
    """Comparison of all endpoints of all workers with the log."""

    def __init__(
        self, log: CheckedLog, workers: Sequence[CheckedWorker], patience: Patience
    ) -> None:
        self._log = log
        self._workers = workers
        self._patience = patience
        self.progress: dict[CheckedEndpoint, AnswerProgress] = {}

    async def compare(self, report: ReportProgress) -> None:
        """Compare until every comparison is decided, or until the time is up.

        Raises:
            LogError: the log cannot be read.
        """
        try:
            async with asyncio.timeout(self._patience.timeout_s):
                await self._compare(report)
        except TimeoutError:  # undecided comparisons keep their last result
            # If the first read took the whole time, no endpoint was added: add them as unknown.
            for worker in self._workers:
                self._add(worker, list_paths(worker.profile))

    async def _compare(self, report: ReportProgress) -> None:
        before = await self._log.read(self._workers)
        for worker in self._workers:
            self._add(worker, list_paths(worker.profile))
            self._add_connectors(worker, views.connectors(before[worker.name]), before)
        while True:
            open_endpoints = [
                endpoint for endpoint, progress in self.progress.items() if progress.is_open
            ]
            answers = await self._ask(open_endpoints)
            after = await self._log.read(self._workers)
            for endpoint, answered in answers.items():
                self._take(endpoint, answered, before, after)
            decided = sum(progress.is_decided for progress in self.progress.values())
            report(decided, len(self.progress))
            discovered = [self._discover(*item, after) for item in answers.items()]
            if decided == len(self.progress):
                return
            if not any(discovered):
                await asyncio.sleep(ROUND_PAUSE_S)
            before = after

    # --- endpoints ----------------------------------------------------------------------------

    def _add(self, worker: CheckedWorker, paths: Iterable[str]) -> bool:
        """Add endpoints that the worker's release has; True if any is new."""
        endpoints = [CheckedEndpoint(worker, path) for path in reachable(paths, worker.profile)]
        new = [endpoint for endpoint in endpoints if endpoint not in self.progress]
        self.progress |= {endpoint: AnswerProgress() for endpoint in new}
        return bool(new)

    def _add_connectors(
        self, worker: CheckedWorker, names: Iterable[str], states: Mapping[str, ClusterState]
    ) -> bool:
        """Add the endpoints of connectors, and of the tasks that the log has statuses of."""
        statuses = states[worker.name].status.tasks
        paths = [
            path
            for name, base in _paths(names)
            for path in connector_paths(base, sorted(statuses.get(name, ())))
        ]
        return self._add(worker, paths)

    def _discover(
        self,
        endpoint: CheckedEndpoint,
        received: RecordedAnswer | Unanswered,
        states: Mapping[str, ClusterState],
    ) -> bool:
        """Add the connectors and tasks that an answer or the log names; True if any is new."""
        worker, path = endpoint
        if not isinstance(received, RecordedAnswer):
            return False
        if path == "/connectors":
            names = listed_names(received)
            listed = [*names, *views.connectors(states[worker.name])]
            return self._add_connectors(worker, dict.fromkeys(listed), states)
        if endpoint_parts(path).rest == ("status",):
            base = path.removesuffix("/status")
            return self._add(worker, [f"{base}/tasks/{task}/status" for task in task_ids(received)])
        return False

    # --- answers ------------------------------------------------------------------------------

    async def _ask(
        self, endpoints: Iterable[CheckedEndpoint]
    ) -> dict[CheckedEndpoint, RecordedAnswer | Unanswered]:
        """Ask every worker for its endpoints, a few at once."""
        limits = {worker.name: asyncio.Semaphore(REQUESTS_AT_ONCE) for worker in self._workers}

        async def ask_within_limit(endpoint: CheckedEndpoint) -> RecordedAnswer | Unanswered:
            async with limits[endpoint.worker.name]:
                return await endpoint.worker.ask(endpoint.path)

        endpoints = list(endpoints)
        answers = await asyncio.gather(*map(ask_within_limit, endpoints))
        return dict(zip(endpoints, answers, strict=True))

    def _take(
        self,
        endpoint: CheckedEndpoint,
        received: RecordedAnswer | Unanswered,
        before: Mapping[str, ClusterState],
        after: Mapping[str, ClusterState],
    ) -> None:
        worker, path = endpoint
        progress = self.progress[endpoint]
        if isinstance(received, Unanswered):
            progress.fall_silent(received.reason, is_gone=received.is_gone)
            return
        reason = self._left_out(endpoint, received, after[worker.name])
        if reason is not None:
            progress.leave_out(reason)
            return
        answers = ComparedAnswers(
            self._log.comparable(path, received),
            *(self._log.answer(states[worker.name], path) for states in (before, after)),
        )
        progress.take(answers, asyncio.get_running_loop().time(), self._patience.settle_s)

    def _left_out(
        self, endpoint: CheckedEndpoint, received: RecordedAnswer, state: ClusterState
    ) -> str | None:
        """Reason why the log does not determine an answer; None: it does."""
        name, rest = endpoint_parts(endpoint.path)
        if rest == ("offsets",):
            is_sink = self._log.is_sink(state, name or "")
            return SINK_OFFSETS if is_sink or is_of_consumer_group(received) else None
        untracked = rest == ("topics",) and received.status == httpx.codes.FORBIDDEN
        return NO_TRACKING if untracked else None


def _paths(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Connectors with their paths; names that no URL can hold are left out."""
    for name in names:
        try:
            base = connector(name)
        except InputRefused:
            continue
        if len(base) <= PATH_MAX:
            yield name, base


def listed_names(connectors: RecordedAnswer) -> list[str]:
    """Names in the answer of `/connectors`; an error has none."""
    listed = connectors.answer if isinstance(connectors.answer, list) else []
    return [name for name in listed if isinstance(name, str)]


def task_ids(status: RecordedAnswer) -> list[int]:
    """Ids of the tasks in the answer of `/connectors/{c}/status`."""
    tasks = status.answer.get("tasks") if isinstance(status.answer, dict) else None
    listed = tasks if isinstance(tasks, list) else []
    ids = [task.get("id") for task in listed if isinstance(task, dict)]
    return [number for number in ids if type(number) is int]
