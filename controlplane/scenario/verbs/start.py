"""`start`: start a worker that has crashed."""

from controlplane.scenario import transcript
from controlplane.scenario.scenario_file import ScenarioStep
from controlplane.scenario.verbs import step_options
from controlplane.scenario.verbs.print_steps import repaired
from controlplane.scenario.verbs.step_options import BadStep
from controlplane.scenario.world import World

_NOTHING = "nothing to recover"


async def start(world: World, step: ScenarioStep) -> list[str]:
    """Start a worker that does not run. It reads the log to its end.

    A leader completes the unfinished commands of the command topic: `repeated` from the first step
    on, `finished` as they have happened already, `given up`, or `taken back`. Without a command
    topic it has no record of them.

        start w1
        ----
        w1@3.9 read config to @4, offsets (empty), commands to @0
        stop orders: repeated
          config@5  commit-orders         {"tasks":0}
          config@6  target-state-orders   {"state":"PAUSED","state.v2":"STOPPED"}
    """
    step_options.started(world)
    step_options.only(step, words=1)
    worker = step_options.member(world.cluster.workers, step.words[0])
    if worker.name in world.cluster.running:
        raise BadStep(f"{worker.name} runs already: `crash {worker.name}` first")
    world.pass_ms()
    await world.cluster.start(worker)
    ends = await world.log.ends(await world.log.topics())
    read = f"{worker.title} read {transcript.ends(ends, world.topics)}"
    if world.cluster.leader != worker.name:
        return [read]
    repairs = await repaired(world, await world.cluster.lead(worker.name))
    return [read, *(repairs or [_NOTHING])]
