"""`roll`: restart a worker as another release."""

from controlplane.scenario.scenario_file import ScenarioStep
from controlplane.scenario.verbs import step_options
from controlplane.scenario.verbs.print_steps import repaired
from controlplane.scenario.verbs.step_options import BadStep
from controlplane.scenario.world import World


async def roll(world: World, step: ScenarioStep) -> list[str]:
    """Restart one worker as another release, upwards or downwards.

    The leader stays unless `leader=` names another worker. A new leader completes the unfinished
    commands of its predecessor, as with `start`.

        roll w2 to=3.7 leader=w3
        ----
        w2 3.4 -> 3.7
        leader w3@3.7
    """
    step_options.started(world)
    step_options.only(step, words=1, options=("to", "leader"))
    before = step_options.member(world.cluster.workers, step.words[0])
    if "to" not in step.options:
        raise BadStep("say what it becomes: to=3.7")
    after = step_options.worker(before.name, step.options["to"])
    cluster = world.cluster
    leader = step_options.member(cluster.workers, step.options.get("leader", cluster.leader)).name
    if leader != before.name and "leader" in step.options and leader not in cluster.running:
        raise BadStep(f"leader={leader} does not run: `start {leader}` first")
    world.pass_ms()
    await cluster.end(before.name)
    await cluster.start(after)
    repairs = []
    if leader in (before.name, step.options.get("leader")):
        repairs = await repaired(world, await cluster.lead(leader))
    shown = cluster.workers[leader].title
    return [f"{before.name} {before.runs} -> {after.runs}", f"leader {shown}", *repairs]
