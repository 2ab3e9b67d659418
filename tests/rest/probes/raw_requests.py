"""The probe's requests, byte for byte, and our responses.

Requests go over a socket. Our server refuses a target that is not ASCII (RFC 9112), so such a
request goes directly to the application.
"""

import asyncio
import hmac
from base64 import b64encode
from hashlib import sha256
from typing import NamedTuple

from starlette.types import ASGIApp, Message

from tests.rest.probes.rows import ProbeRow

ClientAddress = tuple[str, int]


class Response(NamedTuple):
    """Response of a server. Header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


async def ask(address: ClientAddress, request: bytes) -> Response:
    """Send bytes, and read the answer until the server closes."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines if ": " in line)
    lowered_headers = {name.lower(): value for name, value in headers.items()}
    chunked = lowered_headers.get("transfer-encoding") == "chunked"
    return Response(int(status.split()[1]), lowered_headers, _joined(body) if chunked else body)


async def call(app: ASGIApp, row: ProbeRow, prefix: str, key: bytes) -> Response:
    """Pass a request directly to the application."""
    path, _, query = beneath(prefix, row.target).partition(b"?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": row.method,
        "scheme": "http",
        "path": path.decode("utf-8", "replace"),
        "raw_path": path,
        "query_string": query,
        "headers": [(n.lower().encode(), v.encode()) for n, v in _headers(row, "connect", key)],
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": row.sent or b""}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start, *bodies = sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    return Response(
        start["status"], headers, b"".join(message.get("body", b"") for message in bodies)
    )


def request_of(row: ProbeRow, prefix: str, host: str, key: bytes) -> bytes:
    """The bytes of a request whose path lies beneath a prefix; `key` computes its signature."""
    target, body = beneath(prefix, row.target), row.sent or b""
    lines = [b" ".join((row.method.encode(), target, row.version.encode()))]
    headers = _headers(row, host, key)
    lines += [f"{name}: {value}".encode() for name, value in headers]
    if any(name == "Transfer-Encoding" for name, _ in headers):
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    return b"\r\n".join([*lines, b"", body])


def _headers(row: ProbeRow, host: str, key: bytes) -> list[tuple[str, str]]:
    signature = b64encode(hmac.digest(key, row.sent or b"", sha256)).decode()
    row_headers = [(name, value.replace("{hmac}", signature)) for name, value in row.headers]
    headers = [*([("Host", host)] if row.host else []), ("Connection", "close"), *row_headers]
    if row.sent is not None and {"Transfer-Encoding", "Content-Length"}.isdisjoint(
        dict(row_headers)
    ):
        headers.append(("Content-Length", str(len(row.sent))))
    return headers


def beneath(prefix: str, target: bytes) -> bytes:
    """A target beneath a prefix; a target that is no path stays as it is."""
    if target.startswith(b"http://"):
        slash = target.index(b"/", len(b"http://"))
        return target[:slash] + prefix.encode() + target[slash:]
    return prefix.encode() + target if target.startswith(b"/") else target


def _joined(body: bytes) -> bytes:
    """Join the chunks of a body."""
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        whole, body = whole + rest[:length], rest[length + 2 :]
    return whole
