"""`GET`, `POST`, `PUT`, `PATCH`, `DELETE`: send a request to a worker."""

from typing import NamedTuple

from controlplane.core.commands import AnyCommand
from controlplane.core.plan import Rejected
from controlplane.rest.endpoints.pure_requests import answer, command_of
from controlplane.rest.endpoints.reads import ReadInputs
from controlplane.rest.endpoints.writes import CompletedCommand, answer_to
from controlplane.rest.errors import Answer, RestError, refused
from controlplane.scenario import forwarding, transcript
from controlplane.scenario.running_worker import RunningWorker
from controlplane.scenario.scenario_file import ScenarioStep
from controlplane.scenario.verbs import step_options
from controlplane.scenario.verbs.print_steps import attempt_lines
from controlplane.scenario.verbs.step_options import BadStep
from controlplane.scenario.worker_group import Attempt
from controlplane.scenario.world import World


class WorkerRequest(NamedTuple):
    """Request to a worker; `target` is the raw path with its query."""

    method: str
    target: str
    body: bytes | None
    signed: bool = False
    """True if a worker of the cluster has signed it."""


class Exchange(NamedTuple):
    """Result of a request; `answer` None: no worker has answered."""

    answer: Answer | None
    attempt: Attempt | None = None
    """The command as the worker executed it; None for a read."""
    passed_on: tuple[str, str] | None = None
    """Names of the worker that got the request and of the leader; None: not forwarded."""


async def request(world: World, step: ScenarioStep) -> list[str]:
    """Send a request to a worker, as an HTTP client does: a path with its query, a body below.

    The worker reads the log, then executes and answers the request as its release does. It forwards
    a request that only the leader may execute. The output is the forwarding, the answer, and the
    records. With `steps=on` the records precede the answer, each with its plan's step. `from=w2`
    signs the request as a worker does, for the endpoints between workers.

        PUT /connectors/orders/stop via=w1
        ----
        forwarded w1 -> w3
        204
        config@4  commit-orders         {"tasks":0}
        config@5  target-state-orders   {"state":"PAUSED","state.v2":"STOPPED"}

        GET /connectors via=w1
        ----
        200 ["orders"]

        POST /connectors via=w1
        {"name":"users","config":{"connector.class":"JdbcSource"}}
        ----

        PATCH /connectors/users/config via=w1
        {"tasks.max":"2"}
        ----

        DELETE /connectors/users via=w1
        ----
    """
    step_options.started(world)
    step_options.only(step, words=1, options=("via", "from"), body=step.verb != "GET")
    if "via" not in step.options:
        raise BadStep("name the worker that gets the request: via=w1")
    via = step_options.member(world.cluster.workers, step.options["via"]).name
    target = step_options.path(step.words[0])
    signed = "from" in step.options
    if signed:
        step_options.member(world.cluster.workers, step.options["from"])
    world.pass_ms()
    body = "\n".join(step.body).encode() if step.body else None
    made = await exchange(world, via, WorkerRequest(step.verb, target, body, signed))
    return await _output_lines(world, made)


async def _output_lines(world: World, made: Exchange) -> list[str]:
    forwarding_lines = (
        [f"forwarded {made.passed_on[0]} -> {made.passed_on[1]}"] if made.passed_on else []
    )
    words = transcript.answer(made.answer)
    if made.attempt is None:
        return [*forwarding_lines, words]
    return [*forwarding_lines, *await attempt_lines(world, made.attempt, words)]


# --- the exchange with the worker ---------------------------------------------------------------


async def exchange(world: World, via: str, request: WorkerRequest) -> Exchange:
    """Send a request to a worker, which answers, executes it, or forwards it to the leader."""
    worker = world.cluster.running.get(via)
    if worker is None:
        return Exchange(None)
    try:
        if request.method == "GET":
            reading = ReadInputs(await worker.read(), world.plugins)
            return Exchange(answer(reading, request.target))
        command = await _command(request, worker)
        if worker.leads or not forwarding.forwards(command, worker.worker.profile):
            return await _executed(world, worker, command)
        return await _passed_on(world, worker, request, command)
    except RestError as error:
        return Exchange(error.answer())


async def _passed_on(
    world: World, worker: RunningWorker, request: WorkerRequest, command: AnyCommand
) -> Exchange:
    """Forward a request to the leader; its release may lack the endpoint."""
    refusal = await worker.refusal(command)
    if refusal is not None and forwarding.rejects_at_once(command, refusal):
        raise refused(refusal)
    route = worker.worker.name, world.cluster.leader
    leader = world.cluster.running.get(world.cluster.leader)
    if leader is None:
        return Exchange(forwarding.unreachable().answer(), passed_on=route)
    body = forwarding.forwarded_body(command, request.body, worker.worker.profile)
    try:
        command = await _command(request._replace(body=body, signed=False), leader)
    except RestError as error:
        return Exchange(error.answer(), passed_on=route)
    result = await _executed(world, leader, command)
    lost = result.answer is None
    return result._replace(
        answer=forwarding.no_response().answer() if lost else result.answer, passed_on=route
    )


async def _command(request: WorkerRequest, by: RunningWorker) -> AnyCommand:
    method, target, body, signed = request
    connectors = (await by.read()).config.connectors
    return command_of(method, target, body, by.worker.profile, signed=signed, existing=connectors)


async def _executed(world: World, by: RunningWorker, command: AnyCommand) -> Exchange:
    attempt = await world.cluster.execute(by.worker.name, command)
    match attempt.ended:
        case None:
            return Exchange(None, attempt)
        case Rejected():
            return Exchange(refused(attempt.ended).answer(), attempt)
    completed = CompletedCommand(
        command, attempt.ended, await by.read(), by.worker.profile, world.plugins
    )
    return Exchange(answer_to(completed), attempt)
