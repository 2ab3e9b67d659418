"""Clients that leave in the middle of a body, or send odd headers."""

import asyncio
from typing import Any

import pytest
from starlette.types import Message

from controlplane.core import views
from controlplane.observe import silent
from controlplane.rest import app
from controlplane.rest.errors import BodyCutOff
from controlplane.rest.middleware_stack import MiddlewareStack
from controlplane.rest.security.middleware import Protection
from tests.rest.plane import orders_plane
from tests.rest.served_history import client_of

CONFIG = b'{"connector.class":"FileStreamSource","topic":"t"}'
CUT_OFF = {
    "before its first byte": ("POST", "/compat/2.3/connectors/orders/tasks", ()),
    "behind a whole document": ("PUT", "/connectors/new/config", (CONFIG,)),
}
"""Method, path, and the parts of the body that arrive before the client leaves."""


@pytest.mark.parametrize("case", CUT_OFF)
async def test_a_body_that_is_cut_off_runs_no_command(case: str) -> None:
    """The application itself refuses an incomplete body, also without limits around it."""
    method, path, parts = CUT_OFF[case]
    messages: list[Message] = [
        *({"type": "http.request", "body": part, "more_body": True} for part in parts),
        {"type": "http.disconnect"},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"999")],
    }
    async with orders_plane() as (plane, _):
        before = plane.state.config.offset
        await plane.app(scope, receive, send)
        assert plane.state.config.offset == before
        assert views.connectors(plane.state) == ["orders"]
    assert sent[0]["status"] == app.CLIENT_LEFT


async def test_a_client_that_leaves_within_a_body_ends_its_read() -> None:
    """Long work is cancelled, although the endpoint does not read the body."""

    async def receive() -> Message:
        raise BodyCutOff("the client has left")

    work = asyncio.ensure_future(asyncio.Event().wait())
    with pytest.raises(app._ClientLeft):
        await app._unless_left(work, receive)
    assert work.cancelled()


@pytest.mark.parametrize("version", ["x", "1.x", "1.0.0.beta", ""])
async def test_metrics_are_served_for_an_odd_version(version: str) -> None:
    """An `Accept` header with a version that is no number gets the default format."""
    accept = f"application/openmetrics-text; version={version}"
    async with orders_plane() as (plane, _):
        stack = MiddlewareStack(Protection(), plane.context.profile, silent())
        async with client_of(stack.application(plane.service)) as client:
            answer = await client.get("/metrics", headers={"accept": accept})
            assert answer.status_code == 200
            assert "kafka_connect_connectors_count 1.0" in answer.text
