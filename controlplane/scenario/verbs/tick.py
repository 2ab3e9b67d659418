"""`tick` and `stabilize`: time passes, and the group notices who is silent."""

from controlplane.scenario.scenario_file import ScenarioStep
from controlplane.scenario.transcript import OK
from controlplane.scenario.verbs import step_options
from controlplane.scenario.verbs.print_steps import INDENT, repaired
from controlplane.scenario.verbs.step_options import BadStep
from controlplane.scenario.worker_group import SESSION_TIMEOUT_MS
from controlplane.scenario.world import World


async def tick(world: World, step: ScenarioStep) -> list[str]:
    """Let so much time pass. After ten seconds of silence a leader is replaced.

    The first worker that runs takes over, and ends what was left unfinished, as with `start`.

        tick 10s
        ----
        w2@3.9
          leads instead of w1
          stop orders: repeated
            config@5  commit-orders         {"tasks":0}
            config@6  target-state-orders   {"state":"PAUSED","state.v2":"STOPPED"}
    """
    step_options.started(world)
    step_options.only(step, words=1)
    passed_ms = step_options.time_ms(step.words[0], f"`{step.words[0]}`")
    if passed_ms < 0:
        raise BadStep("time does not run back: `tick 5s`")
    return await _passed(world, passed_ms) or [OK]


async def stabilize(world: World, step: ScenarioStep) -> list[str]:
    """Let time pass until nothing changes any more.

    Workers of a scenario run no tasks, so that is when the group has a leader again.

        stabilize
        ----
        ok
    """
    step_options.started(world)
    step_options.only(step, words=0)
    lines: list[str] = []
    while done := await _passed(world, SESSION_TIMEOUT_MS):
        lines += done
    return lines or [OK]


async def _passed(world: World, passed_ms: int) -> list[str]:
    """Let time pass; returns what the workers do then, mostly nothing."""
    world.pass_ms(passed_ms)
    before = world.cluster.leader
    takeover = await world.cluster.takeover()
    if takeover is None:
        return []
    did = [f"leads instead of {before}", *await repaired(world, takeover)]
    return [takeover.worker.title, *(INDENT + line for line in did)]
