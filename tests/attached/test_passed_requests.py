"""Requests that the service passes on to workers, and requests that it never passes on."""

import httpx
import pytest

from controlplane.core.commands import AnyCommand, FenceTasks, PublishTasks
from controlplane.core.plan import Reason, Rejected
from controlplane.logger_levels import Loggers
from controlplane.rest.app import App
from tests.attached.test_attached_plane import never_sent, steered
from tests.attached.test_worker_admission import SwitchedWorker, attached_parts


class TargetedWorker(SwitchedWorker):
    """Worker that also keeps method, path and query of each request."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        """Keep the target, and answer like a worker that carries out every command."""
        self.targets.append(f"{request.method} {request.url.raw_path.decode()}")
        return await super().__call__(request)


@pytest.mark.parametrize(
    "command",
    [PublishTasks("orders", ({"file": "f"},)), FenceTasks("orders")],
    ids=["tasks", "fence"],
)
async def test_requests_among_workers_are_refused(command: AnyCommand) -> None:
    """The sentence names a remedy; no worker gets the request."""
    async with steered(never_sent) as cluster, cluster.plane() as plane:
        answer = await plane.carry_out(command, principal="ada", key=None, profile=None)
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.FORBIDDEN
    assert answer.sentence.startswith("Only workers accept this request: send it to a worker of")
    assert cluster.sent == []


async def test_the_service_passes_on_what_is_for_the_cluster() -> None:
    """`?scope=cluster` reaches a worker; `/tasks`, `/fence` and a level of this process do not."""
    worker, level = TargetedWorker(), {"level": "DEBUG"}
    async with attached_parts(worker) as parts:
        worker.targets.clear()
        service = parts.service._replace(loggers=Loggers(lambda: 0))
        transport = httpx.ASGITransport(App(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://ours") as rest:
            for method, path in (("POST", "tasks"), ("PUT", "fence")):
                answer = await rest.request(method, f"/connectors/orders/{path}", json=[])
                assert answer.is_client_error
            path = "/admin/loggers/tests.attached.nothing"
            assert (await rest.put(path, json=level)).is_success
            assert worker.targets == []
            assert (await rest.put(f"{path}?scope=cluster", json=level)).is_success
    assert worker.targets == [f"PUT {path}?scope=cluster"]
