"""Verbs about workers and time: `cluster`, `start`, `crash`, `roll`, `tick`, `stabilize`."""

import re
from collections.abc import Iterable

from controlplane.core.decide.steps import PARTS, STEPS, is_step
from controlplane.scenario import transcript
from controlplane.scenario.scenario_file import ScenarioStep
from controlplane.scenario.transcript import OK
from controlplane.scenario.verbs import step_options
from controlplane.scenario.verbs.print_steps import INDENT, takeover_lines
from controlplane.scenario.verbs.step_options import BadStep
from controlplane.scenario.worker_group import SESSION_TIMEOUT_MS
from controlplane.scenario.worker_releases import Worker
from controlplane.scenario.world import World

_WORKER = re.compile(r"([A-Za-z][A-Za-z0-9-]*)@(\S+)", re.ASCII)
_SWITCHES = ("commands", "steps")
_MOST_PARTITIONS = 1_000
"""Upper limit of `partitions=`; Kafka's default for the offsets topic is 25."""


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


_NOTHING = "nothing to recover"


async def start(world: World, step: ScenarioStep) -> list[str]:
    """Start a worker that does not run. It reads the log to its end.

    A leader completes the unfinished commands of the command topic. They are `repeated` from the
    first step on, `finished` if they had taken effect already, `given up`, or `taken back`. Without
    a command topic it has no record of them.

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
    repairs = await takeover_lines(world, await world.cluster.lead(worker.name))
    return [read, *(repairs or [_NOTHING])]


async def crash(world: World, step: ScenarioStep) -> list[str]:
    """Kill a worker as `kill -9` does; with `after=`, once a plan's step of that name is done.

    The log then has the records of that step, and none of the next. Without `after=` the worker
    dies at once, between two requests. A leader is replaced after ten seconds of silence (`tick`).

        crash w1 after=tasks
        ----
        armed
    """
    step_options.started(world)
    step_options.only(step, words=1, options=("after",))
    name = step_options.member(world.cluster.workers, step.words[0]).name
    if "after" in step.options:
        world.cluster.armed[name] = _checked_step(step.options["after"])
        return ["armed"]
    if name not in world.cluster.running:
        raise BadStep(f"{name} does not run: `start {name}` first")
    await world.cluster.end(name)
    return [f"{name} crashed"]


def _checked_step(name: str) -> str:
    """Check the name of a step: an unknown one would never occur."""
    if is_step(name):
        return name
    parts = ", ".join(f"{part}-" for part in PARTS)
    raise BadStep(
        f"no plan has a step {name} (there are: {', '.join(STEPS)}; "
        f"in an undo with one of the prefixes {parts})"
    )


async def roll(world: World, step: ScenarioStep) -> list[str]:
    """Restart one worker as another release, upwards or downwards.

    The leader stays unless `leader=` names another worker. A new leader completes the unfinished
    commands of its predecessor, as with `start`.

        roll w2 to=3.7 leader=w3
        ----
        w2 3.4 -> 3.7
        leader w3@3.7
    """
    step_options.started(world)
    step_options.only(step, words=1, options=("to", "leader"))
    before = step_options.member(world.cluster.workers, step.words[0])
    if "to" not in step.options:
        raise BadStep("name the new release of the worker: to=3.7")
    after = step_options.worker(before.name, step.options["to"])
    cluster = world.cluster
    leader = step_options.member(cluster.workers, step.options.get("leader", cluster.leader)).name
    if leader != before.name and "leader" in step.options and leader not in cluster.running:
        raise BadStep(f"leader={leader} does not run: `start {leader}` first")
    world.pass_ms()
    await cluster.end(before.name)
    await cluster.start(after)
    repairs = []
    if leader in (before.name, step.options.get("leader")):
        repairs = await takeover_lines(world, await cluster.lead(leader))
    shown = cluster.workers[leader].title
    return [f"{before.name} {before.runs} -> {after.runs}", f"leader {shown}", *repairs]


async def tick(world: World, step: ScenarioStep) -> list[str]:
    """Let this much time pass. After ten seconds of silence a leader is replaced.

    The first worker that runs takes over, and ends the unfinished commands, as with `start`.

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

    Workers of a scenario run no tasks, so nothing changes once the group has a leader again.

        stabilize
        ----
        ok
    """
    step_options.started(world)
    step_options.only(step, words=0)
    lines: list[str] = []
    while effects := await _passed(world, SESSION_TIMEOUT_MS):
        lines += effects
    return lines or [OK]


async def _passed(world: World, passed_ms: int) -> list[str]:
    """Let time pass; returns what the workers do then, mostly nothing."""
    world.pass_ms(passed_ms)
    before = world.cluster.leader
    takeover = await world.cluster.takeover()
    if takeover is None:
        return []
    lines = [f"leads instead of {before}", *await takeover_lines(world, takeover)]
    return [takeover.worker.title, *(INDENT + line for line in lines)]
