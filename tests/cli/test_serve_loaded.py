"""`controlplane serve` under overload, and its end while clients wait."""

import asyncio
import json
import signal
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.cli.running_service import LIFE, RunningService, running

CLIENTS = 300
OK = b"HTTP/1.1 200 OK\r\n"
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\n"


async def first_line(service: RunningService, writers: list[asyncio.StreamWriter]) -> bytes:
    """First line of an answer on an open connection; "" without an answer."""
    url = httpx.URL(service.url)
    assert url.port is not None
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writers.append(writer)
    with suppress(TimeoutError, ConnectionError):
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        async with asyncio.timeout(10):  # the connection waits until a file is free
            return await reader.readline()
    return b""


async def healthy(service: RunningService) -> None:
    """Return as soon as the service answers."""
    async with httpx.AsyncClient() as client, asyncio.timeout(60):
        while True:
            with suppress(httpx.TransportError):
                if (await client.get(f"{service.url}/health", timeout=5)).status_code == 200:
                    return
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("files", [48, 128])
async def test_out_of_files_it_refuses_connections_and_recovers(files: int) -> None:
    """The service keeps fewer connections than files; it logs at most one line, no traceback."""
    async with running(LIFE, files=files) as service:
        writers: list[asyncio.StreamWriter] = []
        lines = await asyncio.gather(*(first_line(service, writers) for _ in range(CLIENTS)))
        for writer in writers:
            writer.close()
        await healthy(service)
        code, stderr = await service.end()
    assert code == 0
    assert "Traceback" not in stderr
    assert stderr.count("connections_not_accepted") <= 1
    answered = {line for line in lines if line}
    assert answered, "no connection was accepted"
    assert answered <= {OK, UNAVAILABLE}
    assert lines.count(OK) < files


async def test_with_few_files_it_says_how_many_connections_it_holds() -> None:
    """With a limit of 48 open files, the service reports room for 24 connections."""
    async with running(LIFE, files=48) as service:
        _, stderr = await service.end()
    assert "the system lets this process hold 24 connections" in stderr


async def test_terminated_under_load_it_answers_in_connects_words(tmp_path: Path) -> None:
    """A running request is refused, a watch ends, others are answered; no traceback is printed."""
    body = b"POST /connectors HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    async with running(f"sqlite:///{tmp_path / 'state.db'}", "--quiet") as service:
        url = httpx.URL(service.url)
        assert url.port is not None
        slow, sent = await asyncio.open_connection(url.host, url.port)
        sent.write(body + b"content-length: 100\r\n\r\n{")
        watch, watching = await asyncio.open_connection(url.host, url.port)
        watching.write(b"GET /watch HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await watch.readline()).startswith(b"HTTP/1.1 200")
        async with httpx.AsyncClient() as client:
            asking = [asyncio.ensure_future(_asking(client, service)) for _ in range(8)]
            await healthy(service)
            code, stderr = await service.end(signal.SIGTERM)
            statuses = {status for codes in await asyncio.gather(*asking) for status in codes}
        head, _, answer = (await slow.read()).partition(b"\r\n\r\n")
        await watch.read()
        sent.close()
        watching.close()
    assert code == 0
    assert "Traceback" not in stderr
    assert statuses <= {200, 201, 409, 503}
    assert b" 503 " in head.splitlines()[0]
    assert json.loads(answer) == {"error_code": 503, "message": "Worker is shutting down"}


async def test_terminated_it_completes_a_running_request(tmp_path: Path) -> None:
    """A request that has begun before SIGTERM is carried out, and its client gets the answer."""
    settings = tmp_path / "worker.properties"
    settings.write_text("http.shutdown.ms=60000\n", "ascii")
    log = f"sqlite:///{tmp_path / 'state.db'}"
    head = b"PUT /connectors/c/config HTTP/1.1\r\nhost: localhost\r\n"
    body = b'{"connector.class": "FileStreamSource", "topic": "t"}'
    length = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    async with running(log, "--worker-properties", str(settings)) as service:
        url = httpx.URL(service.url)
        assert url.port is not None
        answer, sent = await asyncio.open_connection(url.host, url.port)
        sent.write(head + length + body[:1])
        await healthy(service)
        service.process.send_signal(signal.SIGTERM)
        with suppress(ConnectionError):
            while True:  # until the service listens no longer
                _, other = await asyncio.open_connection(url.host, url.port)
                other.close()
                await asyncio.sleep(0.01)
        sent.write(body[1:])
        assert await answer.readline() == b"HTTP/1.1 201 Created\r\n"
        sent.close()
        await service.process.communicate()
    assert service.process.returncode == 0


async def _asking(client: httpx.AsyncClient, service: RunningService) -> list[int]:
    """Statuses of answers until the service ends."""
    statuses = []
    config = {"name": "c", "config": {"connector.class": "FileStreamSource", "topic": "t"}}
    with suppress(httpx.TransportError):
        while True:
            made = await client.post(f"{service.url}/connectors", json=config)
            listed = await client.get(f"{service.url}/connectors")
            statuses += [made.status_code, listed.status_code]
    return statuses
