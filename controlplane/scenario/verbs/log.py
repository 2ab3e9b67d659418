"""`log`: print the records of a topic."""

from controlplane.scenario import transcript
from controlplane.scenario.scenario_file import ScenarioStep
from controlplane.scenario.verbs import step_options
from controlplane.scenario.world import World


async def log(world: World, step: ScenarioStep) -> list[str]:
    """Print the records of a topic from a log offset on, in the order in which they are folded.

    With several partitions `from=` holds for each of them.

        log config from=4
        ----
        config@4  commit-orders         {"tasks":0}
    """
    step_options.started(world)
    step_options.only(step, words=1, options=("from", "topic"))
    topic, start = step_options.topic(step, world), step_options.number(step, "from", 0)
    entries = [
        entry for entry in await world.entries() if entry.topic == topic and entry.offset >= start
    ]
    return transcript.entries(entries, world.topics)
