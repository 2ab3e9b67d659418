"""`log`: the records themselves."""

from controlplane.scenario import show
from controlplane.scenario.parse import Step
from controlplane.scenario.verbs import asking
from controlplane.scenario.world import World


async def log(world: World, step: Step) -> list[str]:
    """Print the records of a topic from a log offset on, in the order in which they are folded.

    With several partitions `from=` holds for each of them.

        log config from=4
        ----
        config@4  commit-orders         {"tasks":0}
    """
    asking.started(world)
    asking.only(step, words=1, options=("from", "topic"))
    topic, start = asking.topic(step, world), asking.number(step, "from", 0)
    found = [one for one in await world.entries() if one.topic == topic and one.offset >= start]
    return show.entries(found, world.topics)
