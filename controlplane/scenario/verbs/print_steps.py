"""Output of the verbs that make workers act."""

from collections.abc import Iterator

from controlplane.scenario import transcript
from controlplane.scenario.notation import printable
from controlplane.scenario.worker_group import Attempt, Repair, Takeover
from controlplane.scenario.worker_releases import Worker
from controlplane.scenario.world import World

INDENT = "  "


async def attempt_lines(world: World, attempt: Attempt, answer: str) -> list[str]:
    """Lines of a command: the answer, then the records; with `steps=on` the records first."""
    steps = world.settings["steps"]
    records = transcript.journal(attempt.journal, world.topics, steps=steps)
    answered = [*_crashed(attempt.worker, attempt.crashed), answer]
    return [*records, *answered] if steps else [*answered, *records]


async def takeover_lines(world: World, takeover: Takeover) -> list[str]:
    """Lines of the commands that a new leader has completed, each with its records below."""
    lines = [line for repair in takeover.repairs for line in _lines(world, repair)]
    return [*lines, *_crashed(takeover.worker, takeover.crashed)]


def _lines(world: World, repair: Repair) -> Iterator[str]:
    ending = f": {repair.ending}" if repair.ending else ""
    reason = f", {repair.reason}" if repair.reason else ""
    yield printable(repair.what + ending + reason)
    steps = world.settings["steps"]
    for line in transcript.journal(repair.journal, world.topics, steps=steps):
        yield INDENT + line


def _crashed(worker: Worker, step: str) -> Iterator[str]:
    if step:
        yield f"{worker.name} crashed after {step}"
