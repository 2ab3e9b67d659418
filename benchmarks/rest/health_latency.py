"""Latency of `/health` while other clients send the largest and oddest requests.

    python -m benchmarks.rest.health_latency [--seconds 6]

`controlplane serve` runs on a file; each command is durable. One client requests `/health` every
few milliseconds, while another process repeats one kind of large request. The table shows the times
and responses of the large requests, and the latency of `/health`.
"""

import asyncio
import json
import tempfile
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import click
import httpx
from rich.console import Console
from rich.table import Table

from benchmarks.processes.programs import serve

GOAL_MS = 100
PAUSE_S = 0.005
JSON = {"content-type": "application/json"}
CONFIG = {"connector.class": "FileStreamSource", "file": "f", "topic": "t"}
MIB = 1 << 20
PARTITIONS = 7_000
KEYS = 45_000


class LargeRequest(NamedTuple):
    """Request that keeps the server busy while `/health` is timed."""

    name: str
    method: str
    path: str
    body: bytes


def kinds() -> list[LargeRequest]:
    """Requests at the limits and beyond them."""
    validate = "/connector-plugins/FileStreamSource/config/validate"
    keys = {f"key.{number}": f"value {number}" for number in range(KEYS)}
    return [
        LargeRequest("nothing else", "", "", b""),
        LargeRequest(
            f"offsets of {PARTITIONS:,} partitions", "PATCH", _OFFSETS, _offsets(PARTITIONS)
        ),
        LargeRequest("offsets of 40,000 partitions", "PATCH", _OFFSETS, _offsets(40_000)),
        LargeRequest("reading those offsets", "GET", _OFFSETS, b""),
        LargeRequest("history of them", "GET", "/connectors/c/history", b""),
        LargeRequest(
            f"a config of {KEYS:,} keys", "PUT", "/connectors/d/config", _json(CONFIG | keys)
        ),
        LargeRequest("history of it", "GET", "/connectors/d/history", b""),
        LargeRequest(f"validation of {KEYS:,} keys", "PUT", validate, _json(CONFIG | keys)),
        LargeRequest(
            "validation of 15 MiB in one value", "PUT", validate, _json({"a": "x" * 15 * MIB})
        ),
        LargeRequest("validation of 15 MiB of brackets", "PUT", validate, b"[" * 15 * MIB),
        LargeRequest("validation of 15 MiB of spaces", "PUT", validate, b" " * 15 * MIB),
        LargeRequest(
            "tasks, 15 MiB, not signed", "POST", "/compat/3.9/connectors/c/tasks", _tasks()
        ),
    ]


_OFFSETS = "/connectors/c/offsets"


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _offsets(number: int) -> bytes:
    offsets = [
        {"partition": {"filename": f"file-{at}", "part": at}, "offset": {"position": at}}
        for at in range(number)
    ]
    return _json({"offsets": offsets})


def _tasks() -> bytes:
    return _json([{"key": "x" * 1_000}] * (15 * MIB // 1_015))


class LoadResult(NamedTuple):
    """Responses to one kind of large request."""

    statuses: set[int]
    took_s: list[float]


class LatencyResult(NamedTuple):
    """Measurement of one kind of large request, and of `/health` beside it."""

    sent: LoadResult
    waited_ms: list[float]


async def measured(
    url: str, large: LargeRequest, seconds: float, senders: Executor
) -> LatencyResult:
    """Repeat a kind of request for some seconds, at least once, and measure `/health` meanwhile."""
    loop = asyncio.get_running_loop()
    waited_ms = []
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:
        sending = loop.run_in_executor(senders, _send, url, large, seconds)
        while not sending.done():
            began = loop.time()
            assert (await client.get("/health")).status_code == httpx.codes.OK
            waited_ms.append((loop.time() - began) * 1_000)
            await asyncio.sleep(PAUSE_S)
        return LatencyResult(await sending, waited_ms)


def _send(url: str, large: LargeRequest, seconds: float) -> LoadResult:
    """Send requests in a separate process, so that large responses do not delay others."""
    sent = LoadResult(set(), [])
    deadline = time.monotonic() + seconds
    with httpx.Client(base_url=url, timeout=120) as client:
        while (began := time.monotonic()) < deadline:
            if not large.method:
                time.sleep(seconds)
                break
            answer = client.request(
                large.method, large.path, content=large.body, headers=JSON if large.body else None
            )
            sent.statuses.add(answer.status_code)
            sent.took_s.append(time.monotonic() - began)
    return sent


async def compare(seconds: float) -> Table:
    """Table with one row per kind of large request, each sent for some seconds."""
    table = Table("beside", "answer", "took s", "health p50 ms", "p99 ms", "longest ms")
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(1) as senders:
        log = f"sqlite:///{Path(folder) / 'state.db'}"
        async with (
            serve(log, "--port", "0", "--quiet") as served,
            httpx.AsyncClient(base_url=served.url) as client,
        ):
            for name in ("c", "d"):
                await client.post("/connectors", json={"name": name, "config": CONFIG})
                await client.put(f"/connectors/{name}/stop")
            for large in kinds():
                latency = await measured(served.url, large, seconds, senders)
                waited = latency.waited_ms
                table.add_row(
                    large.name,
                    ", ".join(map(str, sorted(latency.sent.statuses))),
                    f"{median(latency.sent.took_s):.2f}" if latency.sent.took_s else "",
                    f"{median(waited):.1f}",
                    f"{quantiles(waited, n=100, method='inclusive')[-1]:.1f}",
                    f"{max(waited):.1f}",
                )
    return table


@click.command()
@click.option("--seconds", default=6.0, show_default=True, help="Time for each kind of request.")
def main(seconds: float) -> None:
    """Measure how long `/health` waits beside large requests."""
    console = Console(width=120)
    console.print(asyncio.run(compare(seconds)))
    console.print(f"To reach: /health within {GOAL_MS} ms throughout.")


if __name__ == "__main__":
    main()
