"""Load client: requests over open connections, as fast as the server responds.

    python -m benchmarks.processes.load_client < {"host", "port", "seconds", "requests": […]}

The client is a separate process with little more than sockets, so the figures are the server's.
Each connection cycles through its own requests, `[method, path, body]`. It ends after the given
time, once each request was sent at least once.
"""

import asyncio
import json
import re
import selectors
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

RequestParts = tuple[str, str, str | None]
"""Method, path and body of a request."""

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_PIECE_BYTES = 1 << 16


class BadResponse(Exception):
    """Error response, or one that the client does not understand; the measurement stops."""


class LoadConnection:
    """Connection that repeats: request, wait, next request."""

    def __init__(self, address: tuple[str, int], requests: list[bytes], deadline: float) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.took: list[float] = []
        self._requests = requests
        self._deadline = deadline
        self._got = b""
        self._ask()

    def goes_on(self) -> bool:
        """Read a part of a response; send the next request if it is complete. False at the end."""
        piece = self.socket.recv(_PIECE_BYTES)
        if not piece:
            raise BadResponse(
                f"the server has closed the connection after {self._got.decode('latin-1')!r}"
            )
        self._got += piece
        if not _is_whole(self._got):
            return True
        now = time.perf_counter()
        self.took.append(now - self._asked_at)
        if now > self._deadline and len(self.took) >= len(self._requests):
            return False
        self._ask()
        return True

    def _ask(self) -> None:
        self._got = b""
        request = self._requests[len(self.took) % len(self._requests)]
        self._asked_at = time.perf_counter()
        self.socket.sendall(request)


def _is_whole(got: bytes) -> bool:
    """True if a response is complete; it must be successful."""
    head = got.find(_END_OF_HEAD)
    if head < 0:
        return False
    if got[9:10] != b"2":  # the first digit of the status, behind `HTTP/1.1 `
        raise BadResponse(got.decode("latin-1"))
    length = _LENGTH.search(got, 0, head)
    body = len(got) - head - len(_END_OF_HEAD)
    if length is None and body:
        raise BadResponse("an answer without a length")
    return body >= (int(length[1]) if length else 0)


def _request(host: str, method: str, path: str, body: str | None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Accept: application/json"]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", body or ""]).encode()


def ask(task: dict[str, Any]) -> dict[str, Any]:
    """Run all connections; return the seconds of each request and of the whole."""
    host = task["host"]
    request_lists = [[_request(host, *request) for request in own] for own in task["requests"]]
    began = time.perf_counter()
    deadline = began + task["seconds"]
    connections = [LoadConnection((host, task["port"]), own, deadline) for own in request_lists]
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        while selector.get_map():
            for key, _ in selector.select():
                if not key.data.goes_on():
                    selector.unregister(key.fileobj)
                    key.data.socket.close()
    whole = time.perf_counter() - began
    took = [took_s for connection in connections for took_s in connection.took]
    return {"seconds": whole, "took": took}


async def load(
    url: str, requests: Sequence[Sequence[RequestParts]], seconds: float
) -> dict[str, Any]:
    """Send the requests of each connection from a process of its own; return its result.

    Raises:
        BadResponse: a response was no success.
    """
    where = urlsplit(url)
    task = {"host": where.hostname, "port": where.port, "seconds": seconds, "requests": requests}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.processes.load_client"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate(json.dumps(task).encode())
    if process.returncode:
        raise BadResponse(f"{requests[0][0][:2]} was not answered well by {url}")
    result: dict[str, Any] = json.loads(printed)
    return result


if __name__ == "__main__":
    json.dump(ask(json.load(sys.stdin)), sys.stdout)
