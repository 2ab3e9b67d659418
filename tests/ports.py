"""Free ports of loopback for programs that a test starts."""

import os
import socket
from itertools import cycle

LOWEST, HIGHEST = 10_000, 32_000
"""Ports below those that Linux gives to clients, which begin at 32,768."""


def ports_of(number: int, processes: int) -> range:
    """Ports for one of several test processes.

    A program binds its port seconds after it got the number. Processes share no ports, so none
    takes such a port meanwhile.
    """
    size = (HIGHEST - LOWEST) // processes
    return range(LOWEST + number * size, LOWEST + (number + 1) * size)


_own_ports = ports_of(
    int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")),
    int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")),
)
_first = os.getpid() * 97 % len(_own_ports)
"""Index of the first port; another run on this machine begins elsewhere."""

_candidates = cycle([*_own_ports[_first:], *_own_ports[:_first]])


def free_ports(count: int) -> list[int]:
    """Ports of loopback on which no program listens now."""
    ports: list[int] = []
    while len(ports) < count:
        port = next(_candidates)
        if _is_free(port):
            ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
