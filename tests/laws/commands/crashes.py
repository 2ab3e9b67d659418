"""Crashes of a simulated life: a copy of the log ends after a batch, and a new process opens it.

The log writes a batch completely or not at all, so every crash leaves a whole number of batches.
Between two batches a command also commits offsets of consumer groups. A crash then leaves none of
those commits, all of them, or the first ones.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

from controlplane.controller.admission import CommandAnswer
from controlplane.core.commands import AnyCommand, CreateConnector
from controlplane.core.entry import Entry
from controlplane.logs.log import EmbeddedLog
from controlplane.plane import ControlPlane, Refusal
from tests.controller.scene import COMMANDS
from tests.laws.commands.execution import TOPICS, SimulatedCluster
from tests.laws.commands.life import CommandRun, CrashedRun, Life, Observation
from tests.laws.commands.storage import LogOpener
from tests.laws.commands.world import Extent, Groups, Trouble, plugins


async def crashes(life: Life, new: Callable[[], LogOpener]) -> list[CrashedRun]:
    """Outcome of a life for each of its crashes, on new logs."""
    return [
        await _crashed(life, new, act, at_ms, groups)
        for act in life.acts
        if act.batches_ms and not life.disturbed(act)
        for at_ms, next_ms in pairwise(act.batches_ms)
        for groups in _distinct(life, at_ms, next_ms)
    ]


def _distinct(life: Life, at_ms: int, next_ms: int) -> list[Groups]:
    """Return the distinct states of the consumer groups from one batch until the next."""
    groups = life.cluster.kafka.between(at_ms, next_ms - 1)
    return [state for number, state in enumerate(groups) if state not in groups[:number]]


async def _crashed(
    life: Life, new: Callable[[], LogOpener], act: CommandRun, at_ms: int, groups: Groups
) -> CrashedRun:
    entries = [entry for entry in life.entries if entry.timestamp <= at_ms]
    survivor = _another(life, groups)
    async with _copied(entries, new()) as log, survivor.plane(log) as plane:
        back = _observation(plane, survivor)
        unfinished = any(trace.unfinished for trace in plane.state.commands.values())
        same = await _ended(plane, act.command, act.command_id)
        settled = _observation(plane, survivor)
    stranger = _another(life, groups)
    untold = [entry for entry in entries if entry.topic != COMMANDS]
    async with _copied(untold, new()) as log, stranger.plane(log) as plane:
        anew = await _ended(plane, act.command)
        reissued = _observation(plane, stranger)
    return CrashedRun(
        act=act,
        dead=life.at(at_ms)._replace(groups=groups),
        back=back,
        unfinished=unfinished,
        same=same,
        settled=settled,
        anew=anew,
        reissued=reissued,
        acted=tuple(performed.action for performed in survivor.kafka.acted),
        failed=await _failed(life, new, act, entries, groups),
    )


async def _failed(
    life: Life,
    new: Callable[[], LogOpener],
    act: CommandRun,
    entries: Sequence[Entry],
    groups: Groups,
) -> tuple[Observation, ...]:
    """States after a crashed creation with offsets that the next process cannot complete."""
    command = act.command
    if not isinstance(command, CreateConnector) or command.initial_offsets is None:
        return ()
    ignorant, troubled = _another(life, groups), _another(life, groups)
    ignorant.plugins = plugins(ignorant.hooks, {"lab.Other": "source"})
    troubled.kafka.trouble = Trouble(0, Extent.NOTHING)
    observations = []
    for cluster in (ignorant, troubled):
        async with _copied(entries, new()) as log, cluster.plane(log) as plane:
            observations.append(_observation(plane, cluster))
    return tuple(observations)


def _another(life: Life, groups: Groups) -> SimulatedCluster:
    """Return a copy of the cluster that has these groups after a crash."""
    return SimulatedCluster(
        life.profile,
        exactly_once=life.cluster.exactly_once,
        now_ms=life.cluster.clock.now_ms,
        groups=groups,
    )


@asynccontextmanager
async def _copied(entries: Sequence[Entry], place: LogOpener) -> AsyncIterator[EmbeddedLog]:
    """Open a log with these entries."""
    async with place() as log:
        for topic, partitions in TOPICS.items():
            await log.create_topic(topic, partitions)
        await log.put(entries)
        yield log


def _observation(plane: ControlPlane, cluster: SimulatedCluster) -> Observation:
    return Observation(plane.state, cluster.kafka.at(cluster.clock.now_ms))


async def _ended(plane: ControlPlane, command: AnyCommand, key: str | None = None) -> CommandAnswer:
    """Execute a command; return its outcome or its refusal."""
    try:
        return await plane.execute(command, key=key)
    except Refusal as refusal:
        return refusal.rejected
