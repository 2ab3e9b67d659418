"""`compact`: run Kafka's log cleaner."""

from controlplane.core.moments import position_text
from controlplane.scenario import transcript
from controlplane.scenario.notation import key_text_of
from controlplane.scenario.scenario_file import ScenarioStep
from controlplane.scenario.verbs import step_options
from controlplane.scenario.verbs.step_options import BadStep
from controlplane.scenario.world import World


async def compact(world: World, step: ScenarioStep) -> list[str]:
    """Keep the last record of each key, and print the removed records.

    Kafka may do so at any time. Tombstones stay, unless `tombstones=gone`: Kafka removes them after
    `delete.retention.ms`, a day. Records of aborted transactions always go.

        compact config
        ----
        config@1  task-orders-0
    """
    step_options.started(world)
    step_options.only(step, words=1, options=("tombstones", "topic"))
    topic = step_options.topic(step, world)
    if topic not in await world.log.topics():
        raise BadStep(f"there is no topic {topic} yet")
    tombstones = step_options.choice(step, "tombstones", ("kept", "gone"), "kept") == "gone"
    before = [entry for entry in await world.entries() if entry.topic == topic]
    await world.log.compact(topic, tombstones=tombstones)
    kept = {entry.position for entry in await world.entries()}
    rows = [
        (position_text(entry.position, world.topics), key_text_of(entry.key))
        for entry in before
        if entry.position not in kept
    ]
    return transcript.aligned(rows) if rows else [transcript.NONE]
