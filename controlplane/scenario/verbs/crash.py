"""`crash`: kill a worker, now or in the middle of a plan."""

from controlplane.core.decide.steps import PARTS, STEPS, is_step
from controlplane.scenario.scenario_file import ScenarioStep
from controlplane.scenario.verbs import step_options
from controlplane.scenario.verbs.step_options import BadStep
from controlplane.scenario.world import World


async def crash(world: World, step: ScenarioStep) -> list[str]:
    """Kill a worker as `kill -9` does; with `after=`, as soon as it has done a step of that name.

    The log then has the records of that step, and none of the next. Without `after=` the worker
    dies at once, between two requests. A leader is replaced after ten seconds of silence (`tick`).

        crash w1 after=tasks
        ----
        armed
    """
    step_options.started(world)
    step_options.only(step, words=1, options=("after",))
    name = step_options.member(world.cluster.workers, step.words[0]).name
    if "after" in step.options:
        world.cluster.armed[name] = _known(step.options["after"])
        return ["armed"]
    if name not in world.cluster.running:
        raise BadStep(f"{name} does not run: `start {name}` first")
    await world.cluster.end(name)
    return [f"{name} crashed"]


def _known(name: str) -> str:
    """Check the name of a step: an unknown one would never occur."""
    if is_step(name):
        return name
    parts = ", ".join(f"{part}-" for part in PARTS)
    raise BadStep(
        f"no plan has a step {name} (there are: {', '.join(STEPS)}; in an undo behind {parts})"
    )
