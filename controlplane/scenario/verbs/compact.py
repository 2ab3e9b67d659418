"""`compact`: Kafka's log cleaner comes by."""

from controlplane.core.moments import position_text
from controlplane.scenario import show
from controlplane.scenario.notation import key_text_of
from controlplane.scenario.parse import Step
from controlplane.scenario.verbs import asking
from controlplane.scenario.verbs.asking import BadStep
from controlplane.scenario.world import World


async def compact(world: World, step: Step) -> list[str]:
    """Keep the last record of each key, and print the records that went.

    Kafka may do so at any time. Tombstones stay, unless `tombstones=gone`: Kafka removes them after
    `delete.retention.ms`, a day. Records of aborted transactions always go.

        compact config
        ----
        config@1  task-orders-0
    """
    asking.started(world)
    asking.only(step, words=1, options=("tombstones", "topic"))
    topic = asking.topic(step, world)
    if topic not in await world.log.topics():
        raise BadStep(f"there is no topic {topic} yet")
    tombstones = asking.choice(step, "tombstones", ("kept", "gone"), "kept") == "gone"
    before = [one for one in await world.entries() if one.topic == topic]
    await world.log.compact(topic, tombstones=tombstones)
    kept = {one.position for one in await world.entries()}
    rows = [
        (position_text(one.position, world.topics), key_text_of(one.key))
        for one in before
        if one.position not in kept
    ]
    return show.aligned(rows) if rows else [show.NONE]
