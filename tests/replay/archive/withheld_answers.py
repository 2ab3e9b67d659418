"""Relay to an S3 server that withholds answers, delivers requests late, or ends the server."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import NamedTuple

from replay.fleet.feed.feed_lock import LEASES
from tests.patience import PATIENCE_S

TRIAL = "conditional-put-"
"""Part of the names with which a writer tries conditional puts; their answers are relayed."""


class RelayedRequest(NamedTuple):
    """Request as its sender signed it."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def is_conditional_put(self) -> bool:
        """True for a write of a contested name."""
        return "If-None-Match" in dict(self.headers) and TRIAL not in self.path


class RelayedAnswer(NamedTuple):
    """Answer of the server."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class AnswerRelay(ThreadingHTTPServer):
    """Relay of requests to another server."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _RelayConnection)
        self._upstream = upstream
        self.withheld: Counter[str] = Counter()
        """Number of answers to withhold: to conditional puts (`PUT`), and to `HEAD`."""
        self.postponed: list[RelayedRequest] | None = None
        """Conditional puts that wait for `deliver`, without an answer; None: none has to wait."""
        self.writes = 0
        """Number of writes so far, without those of leases: a timer renews them."""
        self.most_writes: int | None = None
        """Number of writes after which the store is away; None: it stays."""
        self.at_last_write: Callable[[], None] | None = None
        """Called while the server has the last of `most_writes`, to kill the server for example."""
        self._counting = Lock()

    @property
    def endpoint(self) -> str:
        """Address as `host:port`."""
        return f"127.0.0.1:{self.server_port}"

    def deliver(self) -> list[int]:
        """Send the postponed requests to the server; return the status of each answer."""
        late, self.postponed = self.postponed or [], None
        return [self._forwarded(request).status for request in late]

    def answer(self, request: RelayedRequest) -> RelayedAnswer | None:
        """Answer of the server; None if the sender gets none."""
        with self._counting:
            if self.most_writes is not None and self.writes >= self.most_writes:
                return None
            is_write = request.method == "PUT" and f"/{LEASES}/" not in request.path
            self.writes += is_write
            is_last = is_write and self.writes == self.most_writes
        if is_last and self.at_last_write is not None:
            with ThreadPoolExecutor(1) as meanwhile:
                meanwhile.submit(self.at_last_write)
                return self._answered(request)
        if request.is_conditional_put and self.postponed is not None:
            self.postponed.append(request)
            return None
        answer = self._answered(request)
        may_be_withheld = request.is_conditional_put or request.method == "HEAD"
        if not may_be_withheld or not self.withheld[request.method]:
            return answer
        self.withheld[request.method] -= 1
        return None

    def _answered(self, request: RelayedRequest) -> RelayedAnswer | None:
        """Answer of the server; None if a kill of the server has prevented it."""
        try:
            return self._forwarded(request)
        except (OSError, HTTPException):
            return None

    def _forwarded(self, request: RelayedRequest) -> RelayedAnswer:
        upstream = HTTPConnection(self._upstream, timeout=PATIENCE_S)
        upstream.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
        for name, value in request.headers:
            if name.lower() not in {"expect", "connection"}:
                upstream.putheader(name, value)
        upstream.endheaders(request.body)
        answer = upstream.getresponse()
        relayed = RelayedAnswer(answer.status, answer.getheaders(), answer.read())
        upstream.close()
        return relayed


class _RelayConnection(BaseHTTPRequestHandler):
    """Requests of one connection to the relay."""

    protocol_version = "HTTP/1.1"
    server: AnswerRelay

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):  # the handler of each method
            return self._relay
        raise AttributeError(name)

    def _relay(self) -> None:
        request = RelayedRequest(self.command, self.path, self.headers.items(), self._body())
        answer = self.server.answer(request)
        if answer is None:
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        is_head = self.command == "HEAD"
        for name, value in answer.headers:
            if name.lower() not in _HOP_BY_HOP and (is_head or name.lower() != "content-length"):
                self.send_header(name, value)
        if not is_head:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def _body(self) -> bytes:
        """Body as it was sent: Arrow sends chunks."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))
        lines = []
        size = -1
        while size != 0:
            lines.append(self.rfile.readline())
            size = int(lines[-1], 16)
            lines.append(self.rfile.read(size + len(b"\r\n")))
        return b"".join(lines)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


_HOP_BY_HOP = {"transfer-encoding", "connection"}


@contextmanager
def answer_relay(upstream: str) -> Iterator[AnswerRelay]:
    """Relay to `host:port` within the block."""
    with AnswerRelay(upstream) as relay:
        thread = Thread(target=relay.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield relay
        finally:
            relay.shutdown()
            thread.join()
