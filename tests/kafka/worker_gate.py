"""Server in front of a Connect worker, which holds a request at a chosen moment."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum
from typing import NamedTuple

import httpx
import msgspec

from tests.kafka.real_kafka import KafkaWorker
from tests.patience import LOOK_S, PATIENCE_S

REFUSAL = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 38\r\n\r\n"
    b'{"error_code":400,"message":"refused"}'
)
"""Answer to a request that the gate refuses."""


class HoldMoment(Enum):
    """HoldMoment at which a request is held, and its fate after the release."""

    LOST = "the worker never gets it"
    LATE = "the worker gets it after the release"
    DONE = "the worker has answered; the answer is lost"
    ANSWERED = "the worker has answered; the answer is passed on after the release"


class GatedRequest(NamedTuple):
    """Method and path of a request; the path of a creation ends with the connector's name."""

    method: str
    path: str


class HeldRequest:
    """A request that the gate holds once; the same request passes afterwards.

    A request that a rebalancing worker refuses is not held: the service sends it again.
    """

    def __init__(self, moment: HoldMoment | None) -> None:
        """`moment` None: the request passes at once."""
        self.moment = moment
        self.reached = asyncio.Event()
        """Set once the request is held."""
        self.released = asyncio.Event()
        self.answered = asyncio.Event()
        """Set once the worker has carried it out."""

    async def pause(self, *moments: HoldMoment) -> None:
        """Hold the request if this is its moment."""
        if self.moment in moments:
            self.reached.set()
            await self.released.wait()


class WorkerGate:
    """Passes requests on to a worker, except those that a test holds."""

    def __init__(self, worker: KafkaWorker) -> None:
        self.done: Counter[GatedRequest] = Counter()
        """Number of times that the worker carried out a request."""
        self.url = ""
        self._worker = worker
        self._held: dict[GatedRequest, HeldRequest] = {}
        self._refused: set[GatedRequest] = set()

    def refuse(self, request: GatedRequest) -> None:
        """Refuse every such request, instead of the worker."""
        self._refused.add(request)

    def hold(self, request: GatedRequest, moment: HoldMoment) -> HeldRequest:
        """Hold the next such request at this moment."""
        held = self._held[request] = HeldRequest(moment)
        return held

    @asynccontextmanager
    async def running(self) -> AsyncIterator["WorkerGate"]:
        """Listen on a free port within the block."""
        async with (
            httpx.AsyncClient(base_url=self._worker.url, timeout=PATIENCE_S) as worker,
            await asyncio.start_server(
                lambda reader, writer: self._serve(worker, reader, writer), "127.0.0.1", 0
            ) as server,
        ):
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            yield self

    async def _serve(
        self,
        worker: httpx.AsyncClient,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Serve the requests of one connection, one after the other."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while answer := await self._answer(worker, reader):
                writer.write(answer)
                await writer.drain()
        writer.close()

    async def _answer(self, worker: httpx.AsyncClient, reader: asyncio.StreamReader) -> bytes:
        """Answer of the worker to the next request; empty if it is lost."""
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.decode().split(maxsplit=2)
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        body = await reader.readexactly(int(length[1]) if length else 0)
        request = GatedRequest(method, target.partition("?")[0])
        if request == ("POST", "/connectors"):
            name = msgspec.json.decode(body)["name"]
            request = GatedRequest("POST", f"/connectors/{name}")
        if request in self._refused:
            return REFUSAL
        held = self._held.pop(request, None) or HeldRequest(None)
        await held.pause(HoldMoment.LOST, HoldMoment.LATE)
        if held.moment is HoldMoment.LOST:
            return b""
        headers = {"content-type": "application/json"} if body else {}
        answer = await worker.request(method, target, content=body, headers=headers)
        while held.moment is HoldMoment.LATE and not answer.is_success:  # the worker rebalances
            await asyncio.sleep(LOOK_S)
            answer = await worker.request(method, target, content=body, headers=headers)
        if answer.is_success:
            self.done[request] += 1
            held.answered.set()
            await held.pause(HoldMoment.DONE, HoldMoment.ANSWERED)
            if held.moment is HoldMoment.DONE:
                return b""
        elif held.moment is not None:
            self._held[request] = held  # the service sends it again
        kind = answer.headers.get("content-type", "application/json")
        return (
            f"HTTP/1.1 {answer.status_code} {answer.reason_phrase}\r\ncontent-type: {kind}\r\n"
            f"content-length: {len(answer.content)}\r\n\r\n"
        ).encode() + answer.content
