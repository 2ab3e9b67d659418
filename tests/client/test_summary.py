"""States of connectors: reported ones, or target states where the server has them."""

from typing import Any

import httpx
import pytest

from controlplane.client.connectors.connector_summary import (
    ConnectorSummary,
    summaries,
    target_state,
    with_target_states,
)
from tests.client.client_calls import FakeWorker

REPORTED = {"connector": {"state": "PAUSED", "worker_id": "w"}, "tasks": []}
INFO: dict[str, Any] = {"name": "x", "config": {}, "tasks": []}
NO_ENDPOINT = httpx.Response(404, json={"error_code": 404, "message": "HTTP 404 Not Found"})
WANTED = httpx.Response(200, json={"targets": {"x": "STOPPED"}})


async def test_a_worker_of_kafka_gets_no_request_for_target_states() -> None:
    """The client sends a worker of Kafka no request for target states."""
    worker = FakeWorker(WANTED)
    (summary,) = await with_target_states(await worker.api(), [ConnectorSummary("x", INFO, None)])
    assert (summary.state_in_words, worker.requests) == ("-", [])


async def test_beneath_compat_there_are_no_target_states() -> None:
    """A service beneath /compat/ has no endpoint of target states."""
    api = await FakeWorker(NO_ENDPOINT, server="controlplane").api()
    (summary,) = await with_target_states(api, [ConnectorSummary("x", INFO, None)])
    assert summary.state_in_words == "-"


async def test_reported_states_are_shown_unchanged() -> None:
    """A reported state needs no target state; the client requests only the others."""
    worker = FakeWorker(WANTED, server="controlplane")
    reported = ConnectorSummary("x", INFO, REPORTED)
    (summary,) = await with_target_states(await worker.api(), [reported])
    assert (summary.state_in_words, worker.requests) == ("PAUSED", [])
    both = await with_target_states(
        await worker.api(), [reported, ConnectorSummary("y", INFO, None)]
    )
    assert [each.state_in_words for each in both] == ["PAUSED", "-"]


@pytest.mark.parametrize(
    ("server", "status", "state"),
    [
        ("controlplane", REPORTED, "STOPPED"),
        ("Jetty(9.4.57)", REPORTED, "PAUSED"),
        ("Jetty(9.4.57)", REPORTED | {"connector": {"state": "FAILED"}}, "RUNNING"),
        ("Jetty(9.4.57)", None, "RUNNING"),
    ],
)
async def test_target_states_are_read_or_inferred(server: str, status: Any, state: str) -> None:
    """Our service gives the target state; a worker's is inferred (FAILED or no status: RUNNING)."""
    api = await FakeWorker(WANTED, server=server).api()
    assert await target_state(api, ConnectorSummary("x", INFO, status)) == state


async def test_wanted_states_are_read_page_by_page() -> None:
    """Target states are read from all pages of the service."""
    worker = FakeWorker(
        httpx.Response(200, json={"targets": {"x": "STOPPED"}, "next": "x"}),
        httpx.Response(200, json={"targets": {"y": "PAUSED"}, "next": None}),
        server="controlplane",
    )
    both = [ConnectorSummary("x", INFO, None), ConnectorSummary("y", INFO, None)]
    filled = await with_target_states(await worker.api(), both)
    assert [summary.target_state for summary in filled] == ["STOPPED", "PAUSED"]
    assert [request.url.query for request in worker.requests] == [b"", b"after=x"]


async def test_connectors_without_a_status_need_one_request() -> None:
    """`expand=status` omits them; one request for each would fail for names that fit no path."""
    infos = {name: {"info": INFO | {"name": name}} for name in ("a/b", "x", "y")}
    worker = FakeWorker(
        httpx.Response(200, json=["y", "x", "a/b"]),
        httpx.Response(200, json={"x": infos["x"] | {"status": REPORTED}}),
        httpx.Response(200, json=infos),
    )
    listed = await summaries(await worker.api())
    assert [(summary.name, summary.state) for summary in listed] == [
        ("a/b", "-"),
        ("x", "PAUSED"),
        ("y", "-"),
    ]
    assert [request.url.query for request in worker.requests] == [
        b"",
        b"expand=status&expand=info",
        b"expand=info",
    ]
