"""`crash`: a worker dies, now or in the middle of a plan."""

from controlplane.core.decide.steps import PARTS, STEPS, is_step
from controlplane.scenario.scenario_file import ScenarioStep
from controlplane.scenario.verbs import step_options
from controlplane.scenario.verbs.step_options import BadStep
from controlplane.scenario.world import World


async def crash(world: World, step: ScenarioStep) -> list[str]:
    """Kill a worker as `kill -9` does: with `after=` as soon as it has done a step of that name.

    What the step has written is in the log, and nothing else is. Without `after=` it dies at once,
    between two requests. Who is silent for ten seconds leads no more (`tick`).

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
    """The name of a step: one that no plan has would never come."""
    if is_step(name):
        return name
    parts = ", ".join(f"{part}-" for part in PARTS)
    raise BadStep(
        f"no plan has a step {name} (there are: {', '.join(STEPS)}; in an undo behind {parts})"
    )
