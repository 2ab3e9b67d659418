"""In-process ASGI application as the server of an httpx client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Send

from controlplane.client.http.transport import AppTransport
from tests.patience import PATIENCE_S

left = asyncio.Event()


async def _echo(request: Request) -> Response:
    body = await request.body()
    raw = request.scope["raw_path"].decode()
    return PlainTextResponse(f"{request.method} {raw} {body!r} {request.state.principal}")


async def _stream(_: Request) -> Response:
    async def parts() -> AsyncIterator[str]:
        try:
            yield "one"
            await asyncio.Event().wait()
        finally:
            left.set()

    return StreamingResponse(parts())


async def _fail(*_: object) -> None:
    raise RuntimeError("a defect")


def client() -> httpx.AsyncClient:
    """Client of an application that echoes, streams without end, or fails."""
    paths = {"/stream": _stream, "/{rest:path}": _echo}
    routes = [Route(path, view, methods=["GET", "PUT"]) for path, view in paths.items()]
    return httpx.AsyncClient(
        transport=AppTransport(Starlette(routes=routes), "ada"), base_url="http://x"
    )


async def test_requests_arrive_unchanged() -> None:
    """The application gets method, raw path, body and principal."""
    async with client() as asking:
        answer = await asking.put("/a%2Fb", content=b"body")
    assert answer.text == "PUT /a%2Fb b'body' ada"


async def test_an_answer_without_end_comes_as_it_is_sent() -> None:
    """A stream arrives piece by piece; the application notices that the client disconnects."""
    left.clear()
    async with client() as asking, asking.stream("GET", "/stream") as answer:
        assert await anext(answer.aiter_text()) == "one"
    await asyncio.wait_for(left.wait(), PATIENCE_S)


@pytest.mark.parametrize("steps", range(1, 9))
async def test_a_request_that_is_cancelled_before_its_answer_ends(steps: int) -> None:
    """Nobody reads the answer of a cancelled request, so the application is cancelled, too."""
    before = asyncio.all_tasks()
    async with client() as asking:
        request = asking.build_request("GET", "/stream")
        sending = asyncio.ensure_future(asking.send(request, stream=True))
        for _ in range(steps):
            await asyncio.sleep(0)
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await (await sending).aclose()
    assert asyncio.all_tasks() == before


async def test_a_defect_is_raised() -> None:
    """An exception of the application reaches the caller, instead of an endless wait."""
    async with httpx.AsyncClient(transport=AppTransport(_fail, "ada")) as asking:
        with pytest.raises(RuntimeError, match="a defect"):
            await asking.get("http://x/")


@pytest.mark.parametrize(
    ("defect", "error"),
    [(RuntimeError("a defect"), RuntimeError), (None, httpx.RemoteProtocolError)],
)
async def test_a_defect_within_an_answer_is_raised(
    defect: Exception | None, error: type[Exception]
) -> None:
    """An answer whose end is missing is an error, not a shorter answer."""

    async def app(_: object, __: object, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        if defect is not None:
            raise defect

    async with httpx.AsyncClient(transport=AppTransport(app, "ada")) as asking:
        with pytest.raises(error):
            await asking.get("http://x/")
