"""Asks a server over connections that stay open, as fast as it answers, and tells how long it took.

    python -m benchmarks.asking < {"host", "port", "seconds", "requests": […]}

A process of its own, and little more than sockets: what is measured is the server. Each connection
has requests of its own, `[method, path, body]`, and asks them in a circle, one after the other; it
ends when the time is up, and then has asked each at least once.
"""

import json
import re
import selectors
import socket
import sys
import time
from typing import Any

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_PIECE_BYTES = 1 << 16


class BadAnswer(Exception):
    """An answer that is an error, or that is not understood: nothing is measured then."""


class Connection:
    """Asks, waits for the answer, asks again."""

    def __init__(self, address: tuple[str, int], requests: list[bytes], deadline: float) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.took: list[float] = []
        self._requests = requests
        self._deadline = deadline
        self._got = b""
        self._ask()

    def goes_on(self) -> bool:
        """Take a piece of an answer, and ask again if it is whole; False at the end."""
        self._got += self.socket.recv(_PIECE_BYTES)
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
    """Whether an answer has come to its end, which must be a good one."""
    head = got.find(_END_OF_HEAD)
    if head < 0 and got:
        return False
    if got[9:10] != b"2":
        raise BadAnswer(got.decode("latin-1") or "the server has closed the connection")
    length = _LENGTH.search(got, 0, head)
    body = len(got) - head - len(_END_OF_HEAD)
    if length is None and body:
        raise BadAnswer("an answer without a length")
    return body >= (int(length[1]) if length else 0)


def _request(host: str, method: str, path: str, body: str | None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Accept: application/json"]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", body or ""]).encode()


def ask(told: dict[str, Any]) -> dict[str, Any]:
    """All connections at once: seconds of each request, and of the whole."""
    host = told["host"]
    asked = [[_request(host, *one) for one in own] for own in told["requests"]]
    began = time.perf_counter()
    deadline = began + told["seconds"]
    connections = [Connection((host, told["port"]), own, deadline) for own in asked]
    with selectors.DefaultSelector() as selector:
        for one in connections:
            selector.register(one.socket, selectors.EVENT_READ, one)
        while selector.get_map():
            for key, _ in selector.select():
                if not key.data.goes_on():
                    selector.unregister(key.fileobj)
                    key.data.socket.close()
    whole = time.perf_counter() - began
    return {"seconds": whole, "took": [took for one in connections for took in one.took]}


if __name__ == "__main__":
    json.dump(ask(json.load(sys.stdin)), sys.stdout)
