"""Addresses of brokers that a connector names (Kafka: `ClientUtils`)."""

import asyncio
import re
import socket
from contextlib import suppress

from controlplane.connect.errors import ConnectError

BOOTSTRAP = "bootstrap.servers"

_PORT = re.compile(r":[0-9]+$")


async def check_brokers(text: str) -> None:
    """Check the brokers in `bootstrap.servers`; a broker that is down is no failure.

    Raises:
        ConnectError: an address has no port, or no host can be resolved.
    """
    urls = [url.strip() for url in text.split(",") if url.strip()]
    for url in urls:
        if not _PORT.search(url):
            raise ConnectError(f"Invalid url in {BOOTSTRAP}: {url}")
    loop = asyncio.get_running_loop()
    for url in urls:
        host, _, port = url.rpartition(":")
        with suppress(socket.gaierror):
            await loop.getaddrinfo(host.strip("[]"), int(port))
            return
    raise ConnectError(f"No resolvable bootstrap urls given in {BOOTSTRAP}")
