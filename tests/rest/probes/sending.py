"""Requests as the probe sent them, byte for byte, over a socket; and what comes back."""

import asyncio
import hmac
from base64 import b64encode
from hashlib import sha256
from typing import NamedTuple

from tests.rest.probes.rows import Row

Address = tuple[str, int]


class Response(NamedTuple):
    """What a server answered. The names of headers are in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes


async def ask(address: Address, request: bytes) -> Response:
    """Send bytes, and read the answer until the server closes."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines if ": " in line)
    known = {name.lower(): value for name, value in headers.items()}
    chunked = known.get("transfer-encoding") == "chunked"
    return Response(int(status.split()[1]), known, _joined(body) if chunked else body)


def request_of(row: Row, prefix: str, host: str, key: bytes) -> bytes:
    """The bytes of a request whose paths lie beneath a prefix. `key` signs what is signed."""
    target, sent = beneath(prefix, row.target), row.sent
    lines = [b" ".join((row.method.encode(), target, row.version.encode()))]
    if row.host:
        lines.append(f"Host: {host}".encode())
    signature = b64encode(hmac.digest(key, sent or b"", sha256)).decode()
    headers = [(name, value.replace("{hmac}", signature)) for name, value in row.headers]
    headers.insert(0, ("Connection", "close"))
    names = {name.lower() for name, _ in headers}
    chunked = "transfer-encoding" in names
    if sent is not None and not chunked and "content-length" not in names:
        headers.append(("Content-Length", str(len(sent))))
    lines += [f"{name}: {value}".encode() for name, value in headers]
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(sent or b""), sent) if chunked else sent or b""
    return b"\r\n".join([*lines, b"", body])


def beneath(prefix: str, target: bytes) -> bytes:
    """A target beneath a prefix; one that is no path, as it is."""
    if target.startswith(b"http://"):
        slash = target.index(b"/", len(b"http://"))
        return target[:slash] + prefix.encode() + target[slash:]
    return prefix.encode() + target if target.startswith(b"/") else target


def _joined(body: bytes) -> bytes:
    """A body out of its chunks."""
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        whole, body = whole + rest[:length], rest[length + 2 :]
    return whole
