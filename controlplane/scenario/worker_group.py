"""Group of the workers of a scenario: running workers, leader, crashes.

A simplification of Kafka's group. The leader leads until a step names another one, or until it has
been silent for the session timeout. Then the first running worker takes over.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from controlplane.core.commands import AnyCommand, CommandRequest
from controlplane.core.plan import Outcome, Rejected, Step
from controlplane.scenario.journal import Journal, JournalStep
from controlplane.scenario.running_worker import Crashed, RunningWorker, WorkerEnvironment
from controlplane.scenario.worker_releases import Worker

SESSION_TIMEOUT_MS = 10_000
"""Silence in ms after which the group removes a worker (`session.timeout.ms`)."""

STAYS_UNFINISHED = "stays unfinished"
"""Ending of a command whose record the new leader cannot read."""


class Repair(NamedTuple):
    """A new leader's attempt to complete an unfinished command.

    `ending` is `STAYS_UNFINISHED` if the leader could not complete it, and empty if the leader
    crashed meanwhile.
    """

    what: str
    journal: Sequence[JournalStep]
    ending: str = ""
    reason: str | None = None


class Attempt(NamedTuple):
    """Execution of a command by a worker: it has `ended`, or the worker `crashed` after a step."""

    worker: Worker
    journal: Sequence[JournalStep]
    ended: Outcome | Rejected | None = None
    crashed: str = ""


class Takeover(NamedTuple):
    """New leader with its repairs; it may have `crashed` after a step."""

    worker: Worker
    repairs: Sequence[Repair]
    crashed: str = ""


class WorkerGroup:
    """Workers by name, in the order of the step `cluster`."""

    def __init__(self, around: WorkerEnvironment, journal: Journal) -> None:
        self.workers: dict[str, Worker] = {}
        self.running: dict[str, RunningWorker] = {}
        self.leader = ""
        self.armed: dict[str, str] = {}
        """Workers that will crash → the step after which they do."""
        self._around = around
        self._journal = journal
        self._silent_since: dict[str, int] = {}

    async def start(self, worker: Worker) -> None:
        """Start a worker, which reads the log."""
        self.workers[worker.name] = worker
        stepped = partial(self._stepped, worker.name)
        self.running[worker.name] = RunningWorker(worker, self._around, stepped)
        self._silent_since.pop(worker.name, None)
        await self.running[worker.name].read()

    async def end(self, name: str) -> None:
        """End a worker; nothing happens if it does not run."""
        running = self.running.pop(name, None)
        if running is not None:
            self._silent_since[name] = self._around.now_ms()
            await running.follow()

    async def lead(self, name: str) -> Takeover:
        """Make a running worker the leader; the former leader stops leading."""
        self.leader = name
        for running in self.running.values():
            await running.follow()
        repaired: list[dict[str, Any]] = []
        await self._journal.begin()
        try:
            await self.running[name].lead(lambda **facts: repaired.append(facts))
        except Crashed as crash:
            journal = self._journal.end()
            await self.end(name)
            return Takeover(self.workers[name], _repairs(repaired, journal), str(crash))
        return Takeover(self.workers[name], _repairs(repaired, self._journal.end()))

    async def execute(self, name: str, command: AnyCommand) -> Attempt:
        """Let a running worker execute a command."""
        running = self.running[name]
        await self._journal.begin()
        try:
            ended = await running.execute(command)
        except Crashed as crash:
            journal = self._journal.end()
            await self.end(name)
            return Attempt(running.worker, journal, crashed=str(crash))
        return Attempt(running.worker, self._journal.end(), ended)

    async def takeover(self) -> Takeover | None:
        """Replace a leader that has been silent for too long; None: no replacement."""
        since = self._silent_since.get(self.leader)
        if since is None or self._around.now_ms() - since < SESSION_TIMEOUT_MS:
            return None
        successor = next((name for name in self.workers if name in self.running), None)
        return None if successor is None else await self.lead(successor)

    async def _stepped(self, name: str, request: CommandRequest, step: Step) -> None:
        await self._journal.note(request, step)
        if self.armed.get(name) == step.name:
            del self.armed[name]
            raise Crashed(step.name)


def _repairs(repaired: Sequence[Mapping[str, Any]], journal: Sequence[JournalStep]) -> list[Repair]:
    """Repairs as the controller reported them, joined with their records in the log."""
    by_id: dict[str, list[JournalStep]] = defaultdict(list)
    for step in journal:
        by_id[step.request.command_id].append(step)
    repairs = [
        Repair(
            _command_text(facts.get("command", facts["command_id"]), facts.get("connector")),
            by_id.pop(facts["command_id"], ()),
            facts.get("ending", STAYS_UNFINISHED),
            facts["reason"],
        )
        for facts in repaired
    ]
    for broken_off in by_id.values():
        command = broken_off[0].request.command
        tag = str(command.__struct_config__.tag)
        repairs.append(Repair(_command_text(tag, getattr(command, "connector", None)), broken_off))
    return repairs


def _command_text(command: str, connector: str | None) -> str:
    return command if connector is None else f"{command} {connector}"
