"""`undo`: restores a connector to an earlier moment."""

from controlplane.core.decide.undo import restoration
from controlplane.core.moments import UnknownMoment
from controlplane.core.plan import Rejected
from controlplane.projection.past_states import PastStates
from controlplane.scenario.notation import printable
from controlplane.scenario.scenario_file import ScenarioStep
from controlplane.scenario.transcript import NO_RESPONSE
from controlplane.scenario.verbs import step_options
from controlplane.scenario.verbs.print_steps import attempt_lines
from controlplane.scenario.verbs.step_options import BadStep
from controlplane.scenario.world import World


async def undo(world: World, step: ScenarioStep) -> list[str]:
    """Let the leader restore a connector to an earlier moment: config and target state.

    With `offsets=on` it also restores the offsets. Connect has no such request. The output is
    `done`, or the refusal.

        undo orders to=config@1
        ----
        done
        config@5  target-state-orders   {"state":"STARTED","state.v2":"STARTED"}
    """
    step_options.started(world)
    step_options.only(step, words=1, options=("to", "offsets"))
    if "to" not in step.options:
        raise BadStep("name the moment to restore: to=config@1")
    leader = world.cluster.running.get(world.cluster.leader)
    if leader is None:
        name = world.cluster.leader
        raise BadStep(f"{name} leads and does not run: `start {name}` first")
    offsets = step_options.choice(step, "offsets", ("on", "off"), "off") == "on"
    world.pass_ms()
    profile, exactly_once = leader.worker.profile, leader.worker.exactly_once
    past = PastStates(world.log, topics=world.topics, exactly_once=exactly_once)
    ends = await world.log.ends(await world.log.topics())
    try:
        then = await past.state(step.options["to"], profile, ends)
    except UnknownMoment as error:
        raise BadStep(str(error)) from None
    command = restoration(then.state, step.words[0], offsets=offsets)
    attempt = await world.cluster.execute(leader.worker.name, command)
    match attempt.ended:
        case None:
            result = NO_RESPONSE
        case Rejected(_, text):
            result = printable(f"refused: {text}")
        case _:
            result = "done"
    return await attempt_lines(world, attempt, result)
