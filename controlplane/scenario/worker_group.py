"""The workers of a scenario as a group: who runs, who leads, who crashes where.

The group is Kafka's, made simple: the leader leads until another is named, or until it has been
silent for so long that the group does without it; then the first worker that runs takes over.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from controlplane.core.commands import AnyCommand, CommandRequest
from controlplane.core.plan import Outcome, Rejected, Step
from controlplane.scenario.journal import Journal, JournalStep
from controlplane.scenario.running_worker import Crashed, RunningWorker, WorkerEnvironment
from controlplane.scenario.workers import Worker

SESSION_TIMEOUT_MS = 10_000
"""After so long a silence the group does without a worker (`session.timeout.ms`)."""

LEFT_ALONE = "left alone"
"""Outcome of a command that the leader does not understand."""


class Repair(NamedTuple):
    """A command that a new leader has found unfinished, and how it has ended it.

    Where the new leader has crashed over it there is no `ending`.
    """

    what: str
    deeds: Sequence[JournalStep]
    ending: str = ""
    reason: str | None = None


class Attempt(NamedTuple):
    """A command and what a worker has made of it; it has `crashed` behind this step, or ended."""

    worker: Worker
    deeds: Sequence[JournalStep]
    ended: Outcome | Rejected | None = None
    crashed: str = ""


class Takeover(NamedTuple):
    """A worker that has begun to lead, and what it had to repair; `crashed` behind this step."""

    worker: Worker
    repairs: Sequence[Repair]
    crashed: str = ""


class WorkerGroup:
    """Workers by name, in the order in which they were named."""

    def __init__(self, around: WorkerEnvironment, journal: Journal) -> None:
        self.workers: dict[str, Worker] = {}
        self.running: dict[str, RunningWorker] = {}
        self.leader = ""
        self.armed: dict[str, str] = {}
        """Workers that will crash, with the step behind which they do."""
        self._around = around
        self._journal = journal
        self._silent_since: dict[str, int] = {}

    async def start(self, worker: Worker) -> None:
        """A worker runs, and reads what there is."""
        self.workers[worker.name] = worker
        stepped = partial(self._stepped, worker.name)
        self.running[worker.name] = RunningWorker(worker, self._around, stepped)
        self._silent_since.pop(worker.name, None)
        await self.running[worker.name].read()

    async def end(self, name: str) -> None:
        """A worker runs no more."""
        running = self.running.pop(name, None)
        if running is not None:
            self._silent_since[name] = self._around.now_ms()
            await running.follow()

    async def lead(self, name: str) -> Takeover:
        """A worker that runs leads from now on, and nobody else does."""
        self.leader = name
        for running in self.running.values():
            await running.follow()
        told: list[dict[str, Any]] = []
        await self._journal.begin()
        try:
            await self.running[name].lead(lambda **facts: told.append(facts))
        except Crashed as crash:
            deeds = self._journal.end()
            await self.end(name)
            return Takeover(self.workers[name], _repairs(told, deeds), str(crash))
        return Takeover(self.workers[name], _repairs(told, self._journal.end()))

    async def execute(self, name: str, command: AnyCommand) -> Attempt:
        """A worker that runs carries out a command."""
        running = self.running[name]
        await self._journal.begin()
        try:
            ended = await running.execute(command)
        except Crashed as crash:
            deeds = self._journal.end()
            await self.end(name)
            return Attempt(running.worker, deeds, crashed=str(crash))
        return Attempt(running.worker, self._journal.end(), ended)

    async def takeover(self) -> Takeover | None:
        """Let a worker take over from a leader that has been silent for too long; None: no one."""
        since = self._silent_since.get(self.leader)
        if since is None or self._around.now_ms() - since < SESSION_TIMEOUT_MS:
            return None
        heir = next((name for name in self.workers if name in self.running), None)
        return None if heir is None else await self.lead(heir)

    async def _stepped(self, name: str, asked: CommandRequest, step: Step) -> None:
        await self._journal.note(asked, step)
        if self.armed.get(name) == step.name:
            del self.armed[name]
            raise Crashed(step.name)


def _repairs(told: Sequence[Mapping[str, Any]], deeds: Sequence[JournalStep]) -> list[Repair]:
    """Repairs as the controller reported them, joined with their records in the log."""
    by_id: dict[str, list[JournalStep]] = defaultdict(list)
    for deed in deeds:
        by_id[deed.asked.command_id].append(deed)
    repairs = [
        Repair(
            _what(facts.get("command", facts["command_id"]), facts.get("connector")),
            by_id.pop(facts["command_id"], ()),
            facts.get("ending", LEFT_ALONE),
            facts["reason"],
        )
        for facts in told
    ]
    for broken_off in by_id.values():
        command = broken_off[0].asked.command
        tag = str(command.__struct_config__.tag)
        repairs.append(Repair(_what(tag, getattr(command, "connector", None)), broken_off))
    return repairs


def _what(command: str, connector: str | None) -> str:
    return command if connector is None else f"{command} {connector}"
