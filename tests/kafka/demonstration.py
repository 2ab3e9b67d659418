"""`make kafka`: a broker, a Connect worker, and a control plane attached to it, without Docker.

    python -m tests.kafka.demonstration .cache/kafka --release 3.9.1 --port 8083

It starts the parts of `deploy/compose.yaml` from Kafka's released jars. A source reads a file that
grows by a line per second, a sink writes a copy. Ctrl-C ends everything.
"""

import asyncio
import fcntl
import json
import os
import re
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import httpx

from controlplane.event_loop import cancel_on_signals
from controlplane.settings.properties import read_properties
from tests.jars import ROOT, JarsUnavailable
from tests.kafka.real_kafka import Broker, KafkaWorker
from tests.patience import PATIENCE_S

COMPOSE = ROOT / "deploy" / "compose"
CONNECTORS = sorted((COMPOSE / "connectors").glob("*.json"))

OF_THE_CONTAINER = ("bootstrap.servers", "listeners", "rest.advertised.host.name", "plugin.path")
"""Settings of the worker of `deploy/compose.yaml` that do not hold outside of its container."""

_URL = re.compile(r"http://[\d.:]+")

LINE_S = 1.0
"""Seconds between two lines of the file."""

TO_TRY = (
    "controlplane stop lines-source --dry-run --cluster {url}",
    "controlplane stop lines-source --cluster {url}",
    "controlplane history lines-source --cluster {url}",
)
"""Commands that the demonstration proposes for a second shell."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--release", default="3.9.1", help="Release of broker and worker.")
@click.option("--port", default=8083, help="Port of the control plane; 0: any free one.")
def main(folder: Path, release: str, port: int) -> None:
    """Run Kafka, Connect and an attached control plane below FOLDER, which is emptied first."""
    with _sole_user(folder):
        _check_port(port)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            asyncio.run(_run(folder.absolute(), release, port))
        except JarsUnavailable as missing:
            raise click.ClickException(str(missing)) from None


@contextmanager
def _sole_user(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; refuse if another process holds it.

    The lock is a file beside the folder, because the folder is emptied.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise click.ClickException(
                f"{folder} is in use: `make kafka` runs already. End it with Ctrl-C first."
            ) from None
        yield


def _check_port(port: int) -> None:
    """Refuse a port that another program uses, before anything starts."""
    if not port:
        return
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as failure:
        raise click.ClickException(
            f"127.0.0.1:{port} cannot be used: {os.strerror(failure.errno or 0)}. "
            "Choose another port: make kafka PORT=8084"
        ) from None


async def _run(folder: Path, release: str, port: int) -> None:
    """Start everything in order; wait for Ctrl-C; end everything in reverse order."""
    cancel_on_signals()
    with suppress(asyncio.CancelledError):
        async with AsyncExitStack() as stack:
            click.echo(f"Starting a broker of Kafka {release} ...")
            broker = await stack.enter_async_context(Broker(release, folder))
            click.echo(f"kafka://{broker.bootstrap} is up. Starting a Connect worker ...")
            worker = await stack.enter_async_context(_worker(release, broker))
            lines = asyncio.create_task(_write_lines(folder / "lines.txt"))
            stack.callback(lines.cancel)
            await _create_connectors(worker.rest, folder)
            click.echo(f"{worker.url} has a source and a sink. Starting the control plane ...")
            await _serve(broker, worker, port)


def _worker(release: str, broker: Broker) -> KafkaWorker:
    file = read_properties(COMPOSE / "connect-distributed.properties")
    settings: dict[str, Any] = {
        line.key.replace(".", "__"): line.value for line in file if line.key not in OF_THE_CONTAINER
    }
    return KafkaWorker(release, broker, **settings)


async def _write_lines(file: Path) -> None:
    """Append a numbered line to the file every second."""
    number = 0
    while True:
        with file.open("a") as lines:
            lines.write(f"line {number}\n")
        number += 1
        await asyncio.sleep(LINE_S)


async def _create_connectors(rest: httpx.AsyncClient, folder: Path) -> None:
    """Create the source and the sink, with their files in this folder."""
    for file in CONNECTORS:
        body = json.loads(file.read_text().replace("/data/", f"{folder}/"))
        async with asyncio.timeout(PATIENCE_S):
            # A worker that has just started may rebalance.
            while not (await rest.post("/connectors", json=body)).is_success:  # noqa: ASYNC110
                await asyncio.sleep(LINE_S)


async def _serve(broker: Broker, worker: KafkaWorker, port: int) -> None:
    """Run `controlplane serve`, attached to the worker, until this is cancelled."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "controlplane", "serve", f"kafka://{broker.bootstrap}"),
        *("--connect-url", worker.url, "--trail", f"sqlite:///{broker.directory.parent}/trail.db"),
        *("--port", str(port), "--quiet"),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        url = ""
        async for octets in process.stdout:
            line = octets.decode().rstrip()
            url = url or _URL.search(line)[0]  # type: ignore[index]  # the first line has it
            click.echo(line)
            if line.startswith("Ctrl-C"):
                bin_folder = Path(sys.executable).parent
                click.echo(f'  export PATH="{bin_folder}:$PATH"')
                click.echo("\n".join(f"  {command.format(url=url)}" for command in TO_TRY))
                break
        await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


if __name__ == "__main__":
    main()
