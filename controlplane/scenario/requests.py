"""A request to a worker, from its asker's side: what is answered, and what it makes workers do."""

from typing import NamedTuple

from controlplane.core.commands import AnyCommand
from controlplane.core.plan import Rejected
from controlplane.rest import forwarding
from controlplane.rest.errors import Answer, RestError, refused
from controlplane.rest.outcomes import Done
from controlplane.rest.reads import Reading, answer
from controlplane.rest.writes import command_of, shown
from controlplane.scenario.cluster import Attempt
from controlplane.scenario.running import Running
from controlplane.scenario.world import World


class Request(NamedTuple):
    """What is asked. `target` is the raw path with its query."""

    method: str
    target: str
    body: bytes | None
    signed: bool = False
    """It comes from a worker of the cluster."""


class Exchange(NamedTuple):
    """A request and all that came of it. Without an `answer` nobody has answered."""

    answer: Answer | None
    attempt: Attempt | None = None
    """What was made of it by whoever had to carry it out."""
    passed_on: tuple[str, str] | None = None
    """From the worker that was asked to the one that leads."""


async def exchange(world: World, via: str, request: Request) -> Exchange:
    """Ask a worker, and let whoever has to carry it out do so."""
    asked = world.cluster.running.get(via)
    if asked is None:
        return Exchange(None)
    try:
        if request.method == "GET":
            reading = Reading(await asked.read(), world.plugins)
            return Exchange(answer(reading, request.target))
        command = await _command(request, asked)
        if asked.leads or not forwarding.forwards(command, asked.worker.profile):
            return await _carried_out(world, asked, command)
        return await _passed_on(world, asked, request, command)
    except RestError as error:
        return Exchange(error.answer())


async def _passed_on(
    world: World, asked: Running, request: Request, command: AnyCommand
) -> Exchange:
    """What the leader makes of it, who may be of another release and not even know the path."""
    refusal = await asked.refusal(command)
    if refusal is not None and forwarding.told_at_once(command, refusal):
        raise refused(refusal)
    way = asked.worker.name, world.cluster.leader
    leader = world.cluster.running.get(world.cluster.leader)
    if leader is None:
        return Exchange(forwarding.unreachable().answer(), passed_on=way)
    body = forwarding.body_passed_on(command, request.body, asked.worker.profile)
    try:
        command = await _command(request._replace(body=body, signed=False), leader)
    except RestError as error:
        return Exchange(error.answer(), passed_on=way)
    made = await _carried_out(world, leader, command)
    lost = made.answer is None
    return made._replace(
        answer=forwarding.broken_off().answer() if lost else made.answer, passed_on=way
    )


async def _command(request: Request, by: Running) -> AnyCommand:
    method, target, body, signed = request
    known = (await by.read()).config.connectors
    return command_of(method, target, body, by.worker.profile, signed=signed, known=known)


async def _carried_out(world: World, by: Running, command: AnyCommand) -> Exchange:
    attempt = await world.cluster.execute(by.worker.name, command)
    match attempt.ended:
        case None:
            return Exchange(None, attempt)
        case Rejected():
            return Exchange(refused(attempt.ended).answer(), attempt)
    done = Done(command, attempt.ended, await by.read(), by.worker.profile, world.plugins)
    return Exchange(shown(done), attempt)
