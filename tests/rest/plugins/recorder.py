"""Asks real workers of many releases about their plugins and loggers.

`python -m tests.rest.plugins.recorder` writes `recorded.jsonl` anew. It takes some minutes, and
needs Java and Maven.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx
import msgspec

from tests.kafka.real_kafka import Broker, KafkaWorker
from tests.rest.plugins.cases import PluginRequest, cases
from tests.rest.plugins.recordings import PluginAnswer, plain, write

RELEASES = (
    *("2.3.1", "2.7.2", "2.8.2", "3.0.2", "3.1.2", "3.2.0", "3.3.2", "3.4.1", "3.5.1"),
    *("3.6.2", "3.7.2", "3.8.1", "3.9.1", "4.0.2", "4.1.1", "4.2.0", "4.3.0"),
)
PARTS = ("runtime", "file", "json")
MIRROR = "mirror"
WITHOUT_MIRROR = ("2.3.1",)
"""Releases without MirrorMaker 2, which came with KIP-382."""
LOG4J = "org.apache.logging.log4j:log4j-core:2.25.4"
"""Dependency without which workers of 4.x have no loggers."""

STORES = ("config", "offset", "status")

TRIES = 20
FLAW = r"\"current\" is null"
"""Message of a worker whose thread has lost its class loader."""


async def ask(rest: httpx.AsyncClient, request: PluginRequest, release: str) -> PluginAnswer:
    """Answer of a worker; a request that met a faulty thread is repeated."""
    body = msgspec.json.encode(request.body) if request.method == "PUT" else None
    headers = {"content-type": "application/json"} if body else {}
    for _ in range(TRIES):
        answer = await rest.request(request.method, request.target, content=body, headers=headers)
        if FLAW not in answer.text:
            break
    return plain(answer, release)


async def answers(broker: Broker, release: str) -> list[PluginAnswer]:
    """Answers of a worker of a release to all cases, in their order."""
    settings: dict[str, Any] = {f"{name}__storage__topic": f"{name}-{release}" for name in STORES}
    settings["plugin__discovery"] = "hybrid_warn"  # the default of a worker
    parts = PARTS if release in WITHOUT_MIRROR else (*PARTS, MIRROR)
    loggers = (LOG4J,) if release.startswith("4") else ()
    async with KafkaWorker(
        release, broker, parts=parts, extra_artifacts=loggers, **settings
    ) as worker:
        return [await ask(worker.rest, case, release) for case in cases()]


async def main() -> int:
    """Record the answers of workers of all releases."""
    with tempfile.TemporaryDirectory() as directory:
        async with Broker("3.9.1", Path(directory)) as broker:
            write({release: await answers(broker, release) for release in RELEASES})
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
