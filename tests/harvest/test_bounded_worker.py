"""Hostile servers under a worker's URL cause bounded work and one sentence."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import httpx
import pytest

from controlplane.core.releases.profiles import Profile
from controlplane.harvest.bounded_worker import BoundedWorker, HarvestBounds
from controlplane.harvest.harvest_result import NoAnswer, NoWorker
from controlplane.harvest.worker_harvest import from_worker, version_of
from controlplane.plugins import kafkas_own

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
BOUNDS = HarvestBounds(answer_bytes=100_000, all_bytes=150_000, answer_s=0.5, all_s=60)
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
VERSION = b'{"version":"3.9.1"}'


def sized_answer(body: bytes, head: bytes = OK) -> bytes:
    """Answer whose head has the length of the body."""
    return head + b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[BoundedWorker]:
    """Run a server with this handler for each connection; wait for all handlers at the end."""
    connections: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await serve(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server:
        async with httpx.AsyncClient(base_url=f"http://{host}:{port}") as client:
            yield BoundedWorker(client, "the worker", BOUNDS)
        await asyncio.gather(*connections)


@asynccontextmanager
async def answering(*answers: bytes, endless: bytes = b"") -> AsyncIterator[BoundedWorker]:
    """Server with these answers in order, the last one repeatedly, followed by `endless`."""
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        await writer.drain()
        while endless:
            writer.write(endless)
            await writer.drain()

    async with serving(serve) as worker:
        yield worker


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (sized_answer(b"<html>"), "as a Connect worker does"),
        (sized_answer(b"[]"), "as a Connect worker does"),
        (sized_answer(b'{"version": 1}'), "as a Connect worker does"),
        (sized_answer(b"[" * 90_000), "as a Connect worker does"),
        (sized_answer(b"\xff\xfe"), "as a Connect worker does"),
        (sized_answer(b"{}", OK.replace(b"200 OK", b"401 Unauthorized")), "--user or --token"),
        (
            sized_answer(b"{}", OK.replace(b"200 OK", b"302 Found") + b"location: /\r\n"),
            "refuses GET /",
        ),
        (
            sized_answer(gzip.compress(b" " * 10_000_000), OK + b"content-encoding: gzip\r\n"),
            "compresses its answers",
        ),
    ],
)
async def test_servers_that_are_no_worker_are_refused(answer: bytes, message: str) -> None:
    """An answer that is not a worker's root document raises `NoWorker`."""
    async with answering(answer) as worker:
        with pytest.raises(NoWorker, match=message):
            await version_of(worker)


async def test_an_answer_without_end_is_cut() -> None:
    """Reading stops once an answer exceeds the limit for any worker's answer."""
    async with answering(OK + b"\r\n", endless=b" " * 10_000) as worker:
        with pytest.raises(NoAnswer, match="more than"):
            await version_of(worker)


async def test_a_missing_answer_times_out() -> None:
    """The time for one answer is bounded."""

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client leaves

    async with serving(silent) as worker:
        with pytest.raises(NoAnswer, match="within"):
            await version_of(worker)


async def test_a_refused_connection_names_the_worker() -> None:
    """A refused connection raises `NoAnswer` with the worker and the request."""
    async with httpx.AsyncClient(base_url="http://127.0.0.1:1") as client:
        with pytest.raises(NoAnswer, match="the worker gave no answer to GET /"):
            await version_of(BoundedWorker(client, "the worker", BOUNDS))


async def test_plugins_without_settings_are_counted() -> None:
    """The sentence names a few of many plugins without settings, and counts the others."""
    plugin = b'{"class":"io.example.P%d","type":"source"}'
    listed = sized_answer(b"[" + b",".join(plugin % number for number in range(20)) + b"]")
    refusal = sized_answer(b"{}", OK.replace(b"200 OK", b"500 Internal Server Error"))
    async with answering(listed, refusal) as worker:
        harvest = await from_worker(
            worker, "3.9.1", Profile.of("3.9.1"), kafkas_own(), _no_progress
        )
    assert harvest.lacking[-1].startswith(
        "the worker returns no settings of 20 plugins: io.example.P0"
    )
    assert harvest.lacking[-1].endswith("io.example.P4, …")
    assert max(map(len, harvest.lacking)) < 500


async def test_all_answers_together_are_bounded() -> None:
    """The total size is bounded, even if each answer is small."""
    plugin = b'{"class":"io.example.P%d","type":"source"}'
    listed = sized_answer(b"[" + b",".join(plugin % number for number in range(10)) + b"]")
    async with answering(
        sized_answer(VERSION), listed, sized_answer(b" " * 90_000 + b"[]")
    ) as worker:
        assert await version_of(worker) == "3.9.1"
        with pytest.raises(NoAnswer, match="in all"):
            await from_worker(worker, "3.9.1", Profile.of("3.9.1"), kafkas_own(), _no_progress)


@pytest.mark.parametrize(
    "listed",
    [b'{"plugins": []}', b'[{"type": "source"}]', b'[{"class": null}]', b"[[]]", b"null"],
)
async def test_an_invalid_list_of_plugins_is_refused(listed: bytes) -> None:
    """The list is refused like any other response that is not a worker's."""
    async with answering(sized_answer(VERSION), sized_answer(listed)) as worker:
        with pytest.raises(NoWorker, match="as a Connect worker does"):
            await from_worker(
                worker, await version_of(worker), Profile.of("3.9.1"), kafkas_own(), _no_progress
            )


def _no_progress(_done: int, _of: int) -> None:
    """Ignore how far the harvest is."""
