"""HTTP/1.1 connections to one worker, kept open between requests.

A client of httpx takes some 2 ms of a core per request. Most of this time delays the request or its
answer. These connections speak to the socket with h11 alone. They know
neither proxies nor redirects: `ConnectClient` leaves both to httpx.

Errors are those of httpx: `ConnectError`, `ConnectTimeout` and `PoolTimeout` show that nothing was
sent. After any other error, the worker may have executed the request.
"""

import asyncio
import base64
import re
from collections.abc import Mapping
from ssl import SSLContext
from urllib.parse import unquote
from urllib.request import getproxies, proxy_bypass

import h11
import httpx

CONNECTIONS_MAX = 100
"""Maximum number of connections to one worker; further requests wait."""

IDLE_CONNECTIONS_MAX = 20
"""Maximum number of idle connections that are kept."""

IDLE_S = 5.0
"""Seconds after which an idle connection is not used again: a worker closes it some time later."""

HEAD_BYTES = 100 * 1024
"""Maximum size of the head of an answer."""

_PLAIN = re.compile(r"(?:/[A-Za-z0-9_-][A-Za-z0-9_.%-]*)+")
"""Paths that any HTTP client sends as they are; httpx quotes and normalizes others."""

_HTTP_ONLY = ["http/1.1"]
_LEFT_OUT = (b"accept-encoding", b"connection")
"""Headers of httpx that are not sent: a compressed answer takes longer to decode, and HTTP/1.1
keeps connections open anyway."""


class WorkerConnections:
    """Connections to the worker of an httpx client, with its headers and timeouts."""

    def __init__(self, client: httpx.AsyncClient, tls: SSLContext | None) -> None:
        """`tls` is the context for a URL with https."""
        self._client = client
        self._tls = tls
        url = client.base_url
        self._prefix = url.raw_path.decode("ascii").rstrip("/")
        self._host = url.raw_host.decode("ascii")
        self._port = url.port or (80 if tls is None else 443)
        shared = {name.lower(): value for name, value in client.headers.raw}
        self._headers = {b"host": url.netloc, **shared}
        for name in _LEFT_OUT:
            self._headers.pop(name, None)
        if url.userinfo:
            login = base64.b64encode(unquote(url.userinfo.decode("ascii")).encode())
            self._headers[b"authorization"] = b"Basic " + login
        self._room = asyncio.Semaphore(CONNECTIONS_MAX)
        self._idle: list[_WorkerConnection] = []

    async def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
    ) -> httpx.Response:
        """Send a request, and return the answer with its whole body.

        Raises:
            httpx.RequestError: there is no readable answer; see the module.
        """
        timeout = self._client.timeout
        named = {name.encode(): value.encode() for name, value in headers.items()}
        if body or method in _WITH_BODY:
            named[b"content-length"] = b"%d" % len(body)
        target = self._target(path, query)
        headers_sent = [*{**self._headers, **named}.items()]
        request = h11.Request(method=method, target=target, headers=headers_sent)
        await self._enter(timeout.pool)
        try:
            connection = self._reusable() or await self._open(timeout.connect)
            try:
                answer = await connection.exchange(request, body, timeout.read)
            finally:
                self._give_back(connection)
        finally:
            # A used connection is given back first, so the next request can reuse it.
            self._room.release()
        return answer

    def close(self) -> None:
        """Close the idle connections; no request may be under way."""
        while self._idle:
            self._idle.pop().close()

    def _target(self, path: str, query: Mapping[str, str]) -> str:
        if not query and _PLAIN.fullmatch(path):
            return self._prefix + path
        url = self._client.build_request("GET", path, params=dict(query) or None).url
        return url.raw_path.decode("ascii")

    async def _enter(self, patience_s: float | None) -> None:
        """Wait until one more connection may be used."""
        if not self._room.locked():
            await self._room.acquire()  # does not wait
            return
        try:
            async with asyncio.timeout(patience_s):
                await self._room.acquire()
        except TimeoutError:
            raise httpx.PoolTimeout("") from None

    def _reusable(self) -> "_WorkerConnection | None":
        """The connection that was used last; its worker has had the least time to close it."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and now - connection.used_at < IDLE_S:
                return connection
            connection.close()
        return None

    def _give_back(self, connection: "_WorkerConnection") -> None:
        if connection.is_open and len(self._idle) < IDLE_CONNECTIONS_MAX:
            self._idle.append(connection)
        else:
            connection.close()

    async def _open(self, patience_s: float | None) -> "_WorkerConnection":
        if self._tls is not None:
            self._tls.set_alpn_protocols(_HTTP_ONLY)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(patience_s):
                _, connection = await loop.create_connection(
                    _WorkerConnection,
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=None if self._tls is None else self._host,
                    happy_eyeballs_delay=0.25,
                )
        except TimeoutError:
            raise httpx.ConnectTimeout("") from None
        except OSError as failure:
            raise httpx.ConnectError(str(failure)) from failure
        return connection


def uses_proxy(url: httpx.URL) -> bool:
    """True if the environment names a proxy for a URL, as `HTTPS_PROXY` and `NO_PROXY` do."""
    proxies = getproxies()
    return (url.scheme in proxies or "all" in proxies) and not proxy_bypass(url.host)


_WITH_BODY = ("POST", "PUT", "PATCH")
"""Methods whose requests always have a length: without it, a server may wait for a body."""


class _WorkerConnection(asyncio.Protocol):
    """One connection, with at most one request under way."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._parser = h11.Connection(h11.CLIENT, HEAD_BYTES)
        self._answer: asyncio.Future[httpx.Response] | None = None
        """Answer that is awaited; None while the connection is idle."""
        self._head: h11.Response | None = None
        self._body: list[bytes] = []
        self.is_open = True
        """True if it can be used for another request."""
        self.used_at = 0.0
        """Loop time of the last answer."""

    async def exchange(
        self, request: h11.Request, body: bytes, patience_s: float | None
    ) -> httpx.Response:
        """Send a request in one write; return the answer."""
        parser = self._parser
        events = (request, h11.Data(body), h11.EndOfMessage()) if body else _bare(request)
        sent = b"".join(parser.send(event) or b"" for event in events)
        self._head, self._body = None, []
        answer: asyncio.Future[httpx.Response] = asyncio.get_running_loop().create_future()
        self._answer = answer
        self.is_open = False  # until the answer is complete: a caller may be cancelled
        self._transport.write(sent)
        try:
            async with asyncio.timeout(patience_s):
                return await answer
        except TimeoutError:
            raise httpx.ReadTimeout("") from None
        finally:
            self._answer = None

    def close(self) -> None:
        self.is_open = False
        self._transport.abort()

    # --- asyncio.Protocol -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, piece: bytes) -> None:
        if self._answer is None:
            self.close()  # unsolicited: it would be taken for the answer to the next request
        else:
            self._receive(piece)

    def eof_received(self) -> None:
        if self._answer is None:
            self.close()
        elif self._parser.their_state is h11.SEND_RESPONSE:
            self._fail(httpx.RemoteProtocolError(_DISCONNECTED))
        else:
            self._receive(b"")  # ends a body without a length; h11 refuses one that is cut off

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._fail(httpx.ReadError(str(exc or "")))

    def _receive(self, piece: bytes) -> None:
        try:
            self._parser.receive_data(piece)
            # h11 signals that it needs data, or pauses, by a class instead of an event.
            while not isinstance(event := self._parser.next_event(), type):
                if isinstance(event, h11.Response):
                    self._head = event
                elif isinstance(event, h11.Data):
                    self._body.append(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    self._complete()
                    break
        except h11.RemoteProtocolError as failure:
            self._fail(httpx.RemoteProtocolError(str(failure)))

    def _complete(self) -> None:
        """Give the answer to the caller. The connection stays open if both sides want that."""
        parser, head = self._parser, self._head
        assert head is not None
        if parser.our_state is h11.DONE and parser.their_state is h11.DONE:
            self.is_open = not parser.trailing_data[0]  # further bytes belong to no request
            parser.start_next_cycle()
            self.used_at = asyncio.get_running_loop().time()
        headers, content = [*head.headers.raw_items()], b"".join(self._body)
        try:
            response = httpx.Response(head.status_code, headers=headers, content=content)
        except httpx.DecodingError as failure:  # the body contradicts its `content-encoding`
            self._fail(failure)
            return
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(response)

    def _fail(self, failure: httpx.RequestError) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(failure)


_DISCONNECTED = "it closed the connection"


def _bare(request: h11.Request) -> tuple[h11.Request, h11.EndOfMessage]:
    """Events of a request without a body."""
    return request, h11.EndOfMessage()
