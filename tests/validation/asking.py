"""Asks real workers what they say of every config.

python -m tests.validation.asking    writes `recorded.jsonl` anew: some minutes, Java and Maven
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from tests.kafka.real import Broker, Worker
from tests.validation.answers import Answer, Recorded, digest, write
from tests.validation.cases import Config, cases

RELEASES = (
    *("2.8.2", "3.0.2", "3.2.0", "3.4.1", "3.6.2"),
    *("3.7.2", "3.8.1", "3.9.1", "4.1.1", "4.3.0"),
)
PARTS = ("runtime", "file", "json", "mirror")
STORES = ("config", "offset", "status")

BUSY = httpx.codes.CONFLICT
PAUSE_S = 0.2

CACHED = "org.apache.kafka.connect.errors.ConnectException: "
"""From 4.1 on a worker that is asked a second time puts the exception's class in front."""


async def ask(rest: httpx.AsyncClient, config: Config) -> Answer:
    """What a worker says. A config that is right is not posted: nothing shall run."""
    plugin = quote((config.get("connector.class") or "x").rpartition(".")[2] or "x")
    validated = await rest.put(f"/connector-plugins/{plugin}/config/validate", json=config)
    found = validated.json()
    if validated.status_code != httpx.codes.OK:
        return Answer(await _refused(rest, config), None)
    return Answer(await _refused(rest, config) if found["error_count"] else None, digest(found))


async def _refused(rest: httpx.AsyncClient, config: Config) -> str | None:
    body = {"name": config.get("name"), "config": config}
    while True:
        posted = await rest.post("/connectors", json=body)
        if posted.status_code != BUSY:
            break
        await asyncio.sleep(PAUSE_S)
    told = posted.json()
    if posted.status_code == httpx.codes.CREATED:
        await rest.delete(f"/connectors/{quote(told['name'], safe='')}")
        return None
    return f"{posted.status_code} {told['message'].removeprefix(CACHED)}"


async def answers(broker: Broker, release: str) -> list[Answer]:
    """What a worker of a release says of each case, in their order."""
    settings: dict[str, Any] = {f"{name}__storage__topic": f"{name}-{release}" for name in STORES}
    settings["plugin__discovery"] = "hybrid_warn"  # as a worker does it that is not told
    async with Worker(release, broker, parts=PARTS, **settings) as worker:
        return [await ask(worker.rest, config) for config in cases()]


async def main() -> int:
    """Ask workers of all releases."""
    with tempfile.TemporaryDirectory() as directory:
        async with Broker("3.9.1", Path(directory)) as broker:
            said = {release: await answers(broker, release) for release in RELEASES}
    asked = enumerate(cases())
    write([Recorded(one, {name: said[name][n] for name in said}) for n, one in asked])
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
