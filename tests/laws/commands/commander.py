"""Runs commands without end, for tests that kill it.

python -m tests.laws.commands.commander FILE SEED RELEASE

Each answer is a line of standard output, flushed at once. So the reader knows which commands were
answered before the kill. An empty line follows each step: the reader may kill the process there.
Offsets of sinks would be lost with the process, so there are sources only.
"""

import asyncio
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from controlplane.core.commands import CommandRequest
from controlplane.core.plan import Step
from controlplane.core.releases.profiles import Profile
from tests.laws.commands.events import CommandEvent, Event, TakeOver
from tests.laws.commands.execution import AnsweredCommand, Living, SimulatedCluster, entries_in
from tests.laws.commands.random_events import Drawing
from tests.laws.commands.storage import in_file
from tests.laws.commands.world import SOURCE

PAUSE_MS = 1_000_000
"""Gap between the last record of a process and the next process; no process lives that long."""


def main(path: Path, seed: str, release: str) -> None:
    """Run a life until the process is killed."""
    asyncio.run(_live(path, seed, Profile.of(release)))


async def _live(path: Path, seed: str, profile: Profile) -> None:
    async with in_file(path)() as log:
        last_ms = max((entry.timestamp for entry in await entries_in(log)), default=0)
        cluster = SimulatedCluster(profile, now_ms=last_ms + PAUSE_MS)
        cluster.stepped = _stepped
        events = _harmless(Drawing(Random(seed), profile, [SOURCE]))
        await Living(events, cluster, f"{seed}.", _print_answer).one_process(log)


def _harmless(drawing: Drawing) -> Iterator[Event]:
    """Yield random events without crashes and takeovers."""
    while True:
        event = drawing.event()
        if isinstance(event, CommandEvent):
            yield CommandEvent(event.command, retried=event.retried)
        elif not isinstance(event, TakeOver):
            yield event


async def _stepped(_asked: CommandRequest, _step: Step) -> None:
    os.write(1, b"\n")


def _print_answer(answered: AnsweredCommand) -> None:
    os.write(1, pickle.dumps(answered._replace(hooks=None)).hex().encode() + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
