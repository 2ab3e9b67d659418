"""`tick` and `stabilize`: time passes, and the group notices who is silent."""

from controlplane.scenario.cluster import SESSION_TIMEOUT_MS
from controlplane.scenario.parse import Step
from controlplane.scenario.show import OK
from controlplane.scenario.verbs import asking
from controlplane.scenario.verbs.asking import BadStep
from controlplane.scenario.verbs.deeds import INDENT, repaired
from controlplane.scenario.world import World


async def tick(world: World, step: Step) -> list[str]:
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
    asking.started(world)
    asking.only(step, words=1)
    passed_ms = asking.time_ms(step.words[0], f"`{step.words[0]}`")
    if passed_ms < 0:
        raise BadStep("time does not run back: `tick 5s`")
    return await _passed(world, passed_ms) or [OK]


async def stabilize(world: World, step: Step) -> list[str]:
    """Let time pass until nothing changes any more.

    Workers of a scenario run no tasks, so that is when the group has a leader again.

        stabilize
        ----
        ok
    """
    asking.started(world)
    asking.only(step, words=0)
    lines: list[str] = []
    while done := await _passed(world, SESSION_TIMEOUT_MS):
        lines += done
    return lines or [OK]


async def _passed(world: World, passed_ms: int) -> list[str]:
    """What workers do when so much time has passed; nothing, most of the time."""
    world.pass_ms(passed_ms)
    before = world.cluster.leader
    takeover = await world.cluster.takeover()
    if takeover is None:
        return []
    did = [f"leads instead of {before}", *await repaired(world, takeover)]
    return [takeover.worker.title, *(INDENT + line for line in did)]
