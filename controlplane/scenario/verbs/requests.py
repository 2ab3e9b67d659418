"""`GET`, `POST`, `PUT`, `PATCH`, `DELETE`: send a request to a worker."""

from controlplane.scenario import transcript
from controlplane.scenario.exchange import Exchange, WorkerRequest, exchange
from controlplane.scenario.scenario_file import ScenarioStep
from controlplane.scenario.verbs import step_options
from controlplane.scenario.verbs.print_steps import attempted
from controlplane.scenario.verbs.step_options import BadStep
from controlplane.scenario.world import World


async def request(world: World, step: ScenarioStep) -> list[str]:
    """Send a request to a worker, as an HTTP client does: a path with its query, a body below.

    The worker reads the log, then executes and answers the request as its release does. It forwards
    a request that only the leader may execute. The output is the forwarding, the answer, and the
    records. With `steps=on` the records come first, each with its step. `from=w2` signs the request
    as a worker does, for the endpoints between workers.

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
        raise BadStep("say which worker is asked: via=w1")
    via = step_options.member(world.cluster.workers, step.options["via"]).name
    target = step_options.path(step.words[0])
    signed = "from" in step.options
    if signed:
        step_options.member(world.cluster.workers, step.options["from"])
    world.pass_ms()
    body = "\n".join(step.body).encode() if step.body else None
    made = await exchange(world, via, WorkerRequest(step.verb, target, body, signed))
    return await _shown(world, made)


async def _shown(world: World, made: Exchange) -> list[str]:
    way = [f"forwarded {made.passed_on[0]} -> {made.passed_on[1]}"] if made.passed_on else []
    answer = transcript.answer(made.answer)
    if made.attempt is None:
        return [*way, answer]
    return [*way, *await attempted(world, made.attempt, answer)]
