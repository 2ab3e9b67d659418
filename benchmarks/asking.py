"""Asks a server over connections that stay open, as fast as it answers, and tells how long it took.

    python -m benchmarks.asking < {"host", "port", "connections", "seconds", "requests": [[…]]}

A process of its own, and little more than sockets: what is measured is the server. Each connection
has requests of its own, `[method, path, body]`, and asks them in a circle, one after the other; it
ends when the time is up, and then has asked each at least once.
"""

import asyncio
import json
import sys
import time
from typing import Any

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length:"


class BadAnswer(Exception):
    """An answer that is an error, or that is not understood: nothing is measured then."""


class Connection(asyncio.Protocol):
    """Asks, waits for the answer, asks again."""

    def __init__(self, requests: list[bytes], seconds: float) -> None:
        self._requests = requests
        self._deadline = time.perf_counter() + seconds
        self._got = b""
        self._asked_at = 0.0
        self.took: list[float] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Take a piece of an answer."""
        self._got += data
        head, end, body = self._got.partition(_END_OF_HEAD)
        if not end or len(body) < _length(head):
            return
        now = time.perf_counter()
        self.took.append(now - self._asked_at)
        if head[9:10] != b"2":
            self.ended.set_exception(BadAnswer(self._got.decode("latin-1")))
            self._transport.close()
        elif now > self._deadline and len(self.took) >= len(self._requests):
            self.ended.set_result(None)
            self._transport.close()
        else:
            self._got = b""
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side has ended it; or we have."""
        if not self.ended.done():
            self.ended.set_exception(exc or BadAnswer("the server has closed the connection"))

    def _ask(self) -> None:
        request = self._requests[len(self.took) % len(self._requests)]
        self._asked_at = time.perf_counter()
        self._transport.write(request)


def _length(head: bytes) -> int:
    """How many bytes of body follow."""
    for line in head.lower().split(b"\r\n")[1:]:
        if line.startswith(_LENGTH):
            return int(line.removeprefix(_LENGTH))
        if line.startswith(b"transfer-encoding:"):
            raise BadAnswer("the answer is too long to have a length")
    return 0


def _request(host: str, method: str, path: str, body: str | None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Accept: application/json"]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", body or ""]).encode()


async def ask(told: dict[str, Any]) -> dict[str, Any]:
    """All connections at once: seconds of each request, and of the whole."""
    host, port = told["host"], told["port"]
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    connections = []
    for own in told["requests"]:
        sent = [_request(host, *one) for one in own]
        made = loop.create_connection(
            lambda sent=sent: Connection(sent, told["seconds"]),  # type: ignore[misc]
            host,
            port,
        )
        connections.append((await made)[1])
    await asyncio.gather(*(one.ended for one in connections))
    whole = time.perf_counter() - began
    return {"seconds": whole, "took": [one for each in connections for one in each.took]}


if __name__ == "__main__":
    json.dump(asyncio.run(ask(json.load(sys.stdin))), sys.stdout)
