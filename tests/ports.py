"""Free ports of loopback for programs that a test starts."""

import os
import socket
from itertools import count

LOWEST, HIGHEST = 10_000, 32_000
"""Linux takes the ports of clients from above 32,767: none of these becomes a client's."""

_candidates = count(os.getpid() * 97 % (HIGHEST - LOWEST))
"""Processes that test side by side begin at different places, and give out no port twice."""


def free_ports(count: int) -> list[int]:
    """Ports of loopback on which nothing listens now."""
    ports: list[int] = []
    while len(ports) < count:
        port = LOWEST + next(_candidates) % (HIGHEST - LOWEST)
        if _is_free(port):
            ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
