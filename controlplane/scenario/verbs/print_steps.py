"""Output of the verbs that make workers act."""

from collections.abc import Iterator

from controlplane.scenario import transcript
from controlplane.scenario.notation import printable
from controlplane.scenario.worker_group import Attempt, Repair, Takeover
from controlplane.scenario.workers import Worker
from controlplane.scenario.world import World

INDENT = "  "


async def attempted(world: World, attempt: Attempt, answer: str) -> list[str]:
    """A command: the answer and the records; with `steps=on` the records first, as they came."""
    steps = world.settings["steps"]
    deeds = transcript.deeds(attempt.deeds, world.topics, steps=steps)
    answered = [*_crashed(attempt.worker, attempt.crashed), answer]
    return [*deeds, *answered] if steps else [*answered, *deeds]


async def repaired(world: World, takeover: Takeover) -> list[str]:
    """The commands that a new leader has ended, each with its records below."""
    lines = [line for one in takeover.repairs for line in _lines(world, one)]
    return [*lines, *_crashed(takeover.worker, takeover.crashed)]


def _lines(world: World, repair: Repair) -> Iterator[str]:
    ending = f": {repair.ending}" if repair.ending else ""
    reason = f", {repair.reason}" if repair.reason else ""
    yield printable(repair.what + ending + reason)
    steps = world.settings["steps"]
    for line in transcript.deeds(repair.deeds, world.topics, steps=steps):
        yield INDENT + line


def _crashed(worker: Worker, step: str) -> Iterator[str]:
    if step:
        yield f"{worker.name} crashed after {step}"
