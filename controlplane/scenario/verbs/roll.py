"""`roll`: a worker goes and comes back as another release."""

from controlplane.scenario.parse import Step
from controlplane.scenario.verbs import asking
from controlplane.scenario.verbs.asking import BadStep
from controlplane.scenario.world import EXACTLY_ONCE, Worker, World


async def roll(world: World, step: Step) -> list[str]:
    """Restart one worker as another release, upwards or downwards.

    Whoever leads goes on leading unless `leader=` says otherwise.

        roll w2 to=3.7 leader=w3
        ----
        w2 3.4 -> 3.7
        leader w3@3.7
    """
    asking.started(world)
    asking.only(step, words=1, options=("to", "leader"))
    name = step.words[0]
    if name not in world.workers:
        raise BadStep(f"there is no worker {name} (there are: {' '.join(world.workers)})")
    if "to" not in step.options:
        raise BadStep("say what it becomes: to=3.7")
    before, after = world.workers[name], asking.worker(name, step.options["to"])
    world.workers[name] = after
    world.leader = asking.leader(step, world)
    leader = world.workers[world.leader]
    return [
        f"{name} {_release(before)} -> {_release(after)}",
        f"leader {leader.name}@{_release(leader)}",
    ]


def _release(worker: Worker) -> str:
    return worker.release + (EXACTLY_ONCE if worker.exactly_once else "")
