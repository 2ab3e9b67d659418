"""Free ports of loopback for programs that a test starts."""

import os
import socket
from itertools import cycle

LOWEST, HIGHEST = 10_000, 32_000
"""Linux takes the ports of clients from above 32,767: none of these becomes a client's."""


def ports_of(number: int, processes: int) -> range:
    """Ports that one of several test processes may give out.

    A program binds its port seconds after it was given out. Until then another process would find
    the port free, so processes share none.
    """
    size = (HIGHEST - LOWEST) // processes
    return range(LOWEST + number * size, LOWEST + (number + 1) * size)


_own_ports = ports_of(
    int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")),
    int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")),
)
_first = os.getpid() * 97 % len(_own_ports)
"""Place to begin at: another run on this machine begins elsewhere."""

_candidates = cycle([*_own_ports[_first:], *_own_ports[:_first]])


def free_ports(count: int) -> list[int]:
    """Ports of loopback on which nothing listens now."""
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
