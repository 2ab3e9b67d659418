"""`cluster`: create the workers and the topics."""

import re
from collections.abc import Iterable

from controlplane.scenario.scenario_file import ScenarioStep
from controlplane.scenario.transcript import OK
from controlplane.scenario.verbs import step_options
from controlplane.scenario.verbs.step_options import BadStep
from controlplane.scenario.workers import Worker
from controlplane.scenario.world import World

_WORKER = re.compile(r"([A-Za-z][A-Za-z0-9-]*)@(\S+)", re.ASCII)
_SWITCHES = ("commands", "steps")
_MOST_PARTITIONS = 1_000
"""Kafka's default for the offsets topic is 25; beyond this a scenario shows nothing more."""


async def cluster(world: World, step: ScenarioStep) -> list[str]:
    """Create workers and topics; the first step of every scenario, and only once.

    A release is written as in `controlplane inspect --release`; `+eos` means that the worker has
    exactly-once support enabled. `partitions=` is for the offsets and status topics.

        cluster w1@3.4 w2@3.9+eos w3@kip leader=w1 partitions=5
        ----
        ok
    """
    step_options.only(step, words=len(step.words), options=("leader", "partitions", *_SWITCHES))
    if world.cluster.workers:
        raise BadStep("a scenario has one cluster, and this is the second: remove it")
    if not step.words:
        raise BadStep("the cluster has no worker: write `cluster w1@3.9`")
    workers = _workers(step.words)
    leader = step_options.member(workers, step.options.get("leader", next(iter(workers))))
    for name in _SWITCHES:
        usual = "on" if world.settings[name] else "off"
        world.settings[name] = step_options.choice(step, name, ("on", "off"), usual) == "on"
    await _make_topics(world, step)
    for worker in workers.values():
        await world.cluster.start(worker)
    await world.cluster.lead(leader.name)
    return [OK]


def _workers(words: Iterable[str]) -> dict[str, Worker]:
    workers: dict[str, Worker] = {}
    for word in words:
        match = _WORKER.fullmatch(word)
        if match is None:
            raise BadStep(f"`{word}` is no worker: write it like w1@3.4 or w1@3.9+eos")
        if match[1] in workers:
            raise BadStep(f"there are two workers {match[1]}: name them differently")
        workers[match[1]] = step_options.worker(match[1], match[2])
    return workers


async def _make_topics(world: World, step: ScenarioStep) -> None:
    partitions = step_options.number(step, "partitions", 1)
    if not 1 <= partitions <= _MOST_PARTITIONS:
        raise BadStep(f"partitions={partitions}: use 1 to {_MOST_PARTITIONS}")
    await world.add_topic(world.topics.config)
    await world.add_topic(world.topics.offsets, partitions)
    await world.add_topic(world.topics.status, partitions)
    if world.settings["commands"]:
        await world.add_topic(world.topics.commands)
