"""Comparison of a real worker with our control plane, request by request."""

import asyncio
import re
from collections.abc import Collection, Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from tests.kafka.real_kafka import KafkaWorker
from tests.rest.probes.comparison import differences
from tests.rest.probes.raw_requests import ClientAddress, Response, ask, request_of
from tests.rest.probes.rows import ProbeRow
from tests.rest.probes.runtime import KEY
from tests.rest.running_plane import RunningPlane

HOST = b"127.0.0.1:8083"
"""Our worker's id; in compared answers it replaces the addresses of both sides."""

REBALANCING = (
    b"Cannot complete request momentarily",
    b"Request cannot be completed because a rebalance is expected",
)
"""Texts of a busy worker, which is asked again."""

READS = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing: such a request can be repeated until both stand still."""

_NAME = re.compile(r'\{"name": "([^"]*)"')

PAUSE_S = 0.05
TRIES = 1_200
"""Attempts, `PAUSE_S` apart, before a worker without the expected state fails."""


class ComparedExchange(NamedTuple):
    """Request, and the differences of our answer from the worker's."""

    row: ProbeRow
    differences: list[str]

    @property
    def name(self) -> str:
        """Name of the request in reports."""
        return name_of(self.row)


def name_of(row: ProbeRow) -> str:
    """Method and path of a request; for a creation, the name of the connector, too."""
    named = _NAME.match(row.body or "") if row.method == "POST" else None
    return " ".join([row.method, row.path, *(named.groups() if named else ())])


async def side_by_side(
    worker: KafkaWorker, ours: RunningPlane, rows: Iterable[ProbeRow], excepted: Collection[str]
) -> list[ComparedExchange]:
    """Send the requests to both, and wait until their connectors have the expected states.

    A worker does not report the end of a request. A read whose answers differ is therefore repeated
    until they are equal, or until they clearly stay different. Reads that are named in `excepted`
    always differ, and are sent once.
    """
    theirs, mine = (_address(url) for url in (worker.url, ours.url))
    prefix = urlsplit(ours.url).path
    exchanges = []
    for row in rows:
        if row.kind == "wait":
            assert await _holds(row, theirs), f"{row.path}: no {row.contains}\n{worker.printed}"
            await ours.settle()
            continue
        repeats = TRIES if row.method in READS and name_of(row) not in excepted else 1
        for _ in range(repeats):
            response = await _settled_answer(row, theirs)
            own_answer = await ask(mine, request_of(row, prefix, _text(mine), KEY))
            own_answer = own_answer._replace(
                body=own_answer.body.replace(f"{_text(mine)}{prefix}".encode(), HOST)
            )
            exchange = ComparedExchange(
                row, differences(_as_recorded(row, response, theirs), own_answer)
            )
            if not exchange.differences:
                break
            await asyncio.sleep(PAUSE_S)
            await ours.settle()
        exchanges.append(exchange)
    return exchanges


async def _settled_answer(row: ProbeRow, worker: ClientAddress) -> Response:
    """Answer of the worker once it does not rebalance."""
    for _ in range(TRIES):
        answer = await ask(worker, request_of(row, "", _text(worker), KEY))
        if not any(text in answer.body for text in REBALANCING):
            break
        await asyncio.sleep(PAUSE_S)
    return answer


async def _holds(wait: ProbeRow, worker: ClientAddress) -> bool:
    """True once the awaited text is in the answer."""
    assert wait.contains is not None
    looking = msgspec.structs.replace(wait, method="GET")
    for _ in range(TRIES):
        if wait.contains.encode() in (await _settled_answer(looking, worker)).body:
            return True
        await asyncio.sleep(PAUSE_S)
    return False


def _as_recorded(row: ProbeRow, response: Response, worker: ClientAddress) -> ProbeRow:
    """Answer of the worker in the form of a recording."""
    return msgspec.structs.replace(
        row,
        status=response.status,
        response_headers=response.headers,
        answer=response.body.replace(_text(worker).encode(), HOST).decode("utf-8", "replace"),
    )


def _address(url: str) -> ClientAddress:
    where = urlsplit(url)
    assert where.hostname is not None
    assert where.port is not None
    return where.hostname, where.port


def _text(address: ClientAddress) -> str:
    return f"{address[0]}:{address[1]}"
