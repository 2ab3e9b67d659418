"""Asks real workers of every minor release.

`python -m tests.rest.releases.recorder [RELEASE…]` records anew. It takes some minutes, and needs
Java and Maven.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from tests.kafka.real_kafka import Broker, KafkaWorker
from tests.rest.plugins.recorder import LOG4J
from tests.rest.plugins.recorder import RELEASES as SOME
from tests.rest.probes.raw_requests import ClientAddress, Response, ask, request_of
from tests.rest.probes.rows import ProbeRow
from tests.rest.releases.cases import CROSS_ORIGIN, cases, cross_origin_cases, request
from tests.rest.releases.recordings import ReleaseAnswer, plain, write

OTHERS = ("2.4.1", "2.5.1", "2.6.1", "2.6.2", "2.6.3", "3.8.0")
"""Further releases: with another Jetty or Jackson version, or of a minor release not in `SOME`."""

RELEASES = tuple(sorted({*SOME, *OTHERS}, key=lambda name: [*map(int, name.split("."))]))

STORES = ("config", "offset", "status")

PAUSE_S = 0.1
TRIES = 600
ANSWER_S = 30

BUSY = (b"rebalance", b"momentarily", b"is starting", b"Request timed out")
"""Texts in answers of busy workers; the recorder repeats such requests."""

KEY = b""


async def sent(address: ClientAddress, row: ProbeRow, prefix: str = "") -> Response | None:
    """Answer to a request; None where the server closes without one."""
    host, port = address
    try:
        async with asyncio.timeout(ANSWER_S):
            return await ask(address, request_of(row, prefix, f"{host}:{port}", KEY))
    except (ValueError, IndexError, OSError):
        return None


async def sent_until_ready(
    address: ClientAddress, row: ProbeRow, prefix: str = ""
) -> Response | None:
    """Answer to a request, which is repeated while the worker starts or rebalances."""
    for _ in range(TRIES):
        answer = await sent(address, row, prefix)
        if answer is None or answer.status not in (409, 500, 503):
            return answer
        if not any(text in answer.body for text in BUSY):
            return answer
        await asyncio.sleep(PAUSE_S)
    return answer


async def all_answers(
    address: ClientAddress, rows: Sequence[ProbeRow], prefix: str = ""
) -> list[ReleaseAnswer]:
    """Answers to all requests. A connector that a request creates is deleted after it."""
    host, port = address
    answers = []
    for row in rows:
        answer = await sent_until_ready(address, row, prefix)
        answers.append(plain(answer, f"{host}:{port}{prefix}"))
        if row.method in ("POST", "PUT") and row.sent:
            await delete_all(address, prefix)
    return answers


async def delete_all(address: ClientAddress, prefix: str) -> None:
    """Delete every connector of the cluster."""
    listed = await sent_until_ready(address, request("GET", "/connectors"), prefix)
    assert listed is not None
    for name in json.loads(listed.body):
        path = f"/connectors/{quote(name, safe='')}"
        await sent_until_ready(address, request("DELETE", path), prefix)


async def recorded(broker: Broker, release: str) -> list[list[ReleaseAnswer]]:
    """Answers of two workers of a release: with usual settings, and with CORS."""
    answers = []
    for turn, (overrides, rows) in enumerate((({}, cases()), (CROSS_ORIGIN, cross_origin_cases()))):
        settings: dict[str, Any] = {
            f"{name}__storage__topic": f"{name}-{release}-{turn}" for name in STORES
        }
        settings["group__id"] = f"group-{release}-{turn}"
        loggers = (LOG4J,) if release.startswith("4") else ()
        settings |= overrides
        async with KafkaWorker(release, broker, extra_artifacts=loggers, **settings) as worker:
            where = urlsplit(worker.url)
            assert where.hostname is not None
            assert where.port is not None
            answers.append(await all_answers((where.hostname, where.port), rows))
    return answers


async def main(*releases: str) -> int:
    """Record the answers of workers of these releases, or all."""
    with tempfile.TemporaryDirectory() as directory:
        async with Broker("3.9.1", Path(directory)) as broker:
            for release in releases or RELEASES:
                usual, across = await recorded(broker, release)
                write("usual", cases(), {release: usual})
                write("cross-origin", cross_origin_cases(), {release: across})
                sys.stdout.write(f"{release}\n")
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
