"""Host names that a server without authentication answers to: `allowed.hosts`.

This prevents DNS rebinding: a page of `evil.example` lets its own name resolve to this machine. Its
requests then count as same-origin, so no rule about origins stops them. Only the `Host` header
still shows the foreign name. `X-Forwarded-Host` is never read: any client can send it.
"""

import asyncio
import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_address

from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.core.releases.profiles import Profile
from controlplane.observe import Logger
from controlplane.rest.errors import Forbidden
from controlplane.rest.http.messages import Layer, RequestInfo, response
from controlplane.rest.security.wildcards import wildcard_pattern

LOCAL_DOMAINS = ("localhost", "local", "internal", "home.arpa", "lan", "svc")
"""Domains in which no stranger can register a name. RFC 6761, 6762, 8375 or ICANN reserve some.
Routers and Kubernetes use the others, and the public DNS does not delegate them."""

HEADER_MAX = 300
"""Longest `Host` header that is checked: a DNS name has at most 253 characters."""

_HOST = re.compile(r"(?:\[(?P<v6>[^\[\]]*)\]|(?P<name>[^:\[\]]*))(?::[0-9]*)?")


class OwnHosts:
    """Decides whether a `Host` header names this server.

    `has` accepts only names that an attacker's DNS server cannot resolve to this machine:

    - names without a dot: a service of a compose file, a machine of the LAN;
    - IP literals, and names in `LOCAL_DOMAINS`;
    - `known` names, in which `*` stands for anything;
    - this machine's names.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        patterns = (wildcard_pattern(_plain(name)) for name in known)
        self._known_names = re.compile("|".join(patterns) or "(?!)", re.DOTALL)
        self._machine: frozenset[str] | None = None
        self._resolving = asyncio.Lock()

    async def has(self, header: str) -> bool:
        """Return True if this header names this server."""
        name = host_name(header)
        if name is None:
            return False
        if _is_local(name) or self._known_names.fullmatch(name):
            return True
        async with self._resolving:  # the resolver may take seconds: only one thread asks it
            if self._machine is None:
                self._machine = await asyncio.to_thread(_names_of_this_machine)
        return name in self._machine


@lru_cache(maxsize=64)  # clients use few different names
def host_name(header: str) -> str | None:
    """Return the name or address in a `Host` header, in lower case; None if it is malformed."""
    if len(header) > HEADER_MAX:
        return None
    host = _HOST.fullmatch(header.strip())
    if host is None:
        return None
    return _plain(host["name"] if host["v6"] is None else host["v6"])


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


@lru_cache(maxsize=64)
def _is_local(name: str) -> bool:
    if "." not in name and ":" not in name:
        return True
    return name.endswith(tuple(f".{domain}" for domain in LOCAL_DOMAINS)) or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _names_of_this_machine() -> frozenset[str]:
    names = {socket.gethostname()}
    with suppress(UnicodeError):  # a name of 64 characters is no domain name
        names.add(socket.getfqdn())
    return frozenset(map(_plain, names))


class HostGuard(Layer):
    """Refuses requests whose `Host` header names another server."""

    def __init__(self, app: ASGIApp, hosts: OwnHosts, dialect: Profile, logger: Logger) -> None:
        super().__init__(app, dialect)
        self._hosts = hosts
        self._logger = logger

    async def handle(
        self, request: RequestInfo, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Pass a request on, or refuse it. A request without `Host` (HTTP/1.0) passes."""
        header = request.request.headers.get("host", "")
        if await self._hosts.has(header):
            await self._app(scope, receive, send)
            return
        method, target = request.request.method, request.request.target
        self._logger.info("request_refused", method=method, target=target, host=header)
        refusal = Forbidden(
            f"This server does not answer to the host name {header!r}: "
            "add it to allowed.hosts if it names this server"
        )
        await response(refusal.answer(), method)(scope, receive, send)
