"""What a worker has to say that begins to lead: shared by the verbs that let one begin."""

from collections.abc import Iterator

from controlplane.scenario import show
from controlplane.scenario.cluster import Repair, Takeover
from controlplane.scenario.notation import printable
from controlplane.scenario.world import World

INDENT = "  "


async def repaired(world: World, takeover: Takeover) -> list[str]:
    """The commands that it has ended, each with its records below; and whether it survived that."""
    partitioned = await world.partitioned()
    lines = [line for one in takeover.repairs for line in _lines(world, one, partitioned)]
    if takeover.crashed is not None:
        lines.append(f"{takeover.worker.name} crashed after {takeover.crashed}")
    return lines


def _lines(world: World, repair: Repair, partitioned: frozenset[str]) -> Iterator[str]:
    ending = f": {repair.ending}" if repair.ending else ""
    reason = f", {repair.reason}" if repair.reason else ""
    yield printable(repair.what + ending + reason)
    steps = world.settings["steps"]
    for line in show.deeds(repair.deeds, world.topics, partitioned, steps=steps):
        yield INDENT + line
