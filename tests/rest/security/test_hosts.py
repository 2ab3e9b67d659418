"""DNS rebinding: a page of another host whose name resolves to this machine."""

import asyncio
import socket
import time
from pathlib import Path

import pytest

from controlplane.rest.security import hosts
from controlplane.rest.security.middleware import Protection
from controlplane.settings import Configuration, SourcedValue, ValueSource
from tests.rest.security.guarded_app import auth_settings, guarded

EVIL = "evil.example.com"

KNOWN = Protection(hosts=("connect.example.org", "*.workers.example.org"))

LOCAL = [
    "localhost",
    "localhost:8083",
    "LocalHost.",
    "a.localhost",
    "127.0.0.1:8083",
    "192.168.1.7",
    "[::1]:8083",
    "[fe80::1]",
    "connect",
    "connect_1:8083",
    "printer.local",
    "worker.lan",
    "connect.internal:80",
    "nas.home.arpa",
    "my-connect-api.kafka.svc:8083",
    "my-connect-api.kafka.svc.cluster.local",
    "connect.example.org",
    "CONNECT.example.org.:8083",
    "a.b.workers.example.org",
]

OTHERS = [
    EVIL,
    f"{EVIL}:8083",
    "localhost.example.com",
    "127.0.0.1.example.com",
    "local.example.com",
    "connect.example.org.example.com",
    "xworkers.example.org",
    "workers.example.org.",
    "0x7f.1",
    "a b.c",
    "[::1",
    "user@evil.example.com",
    "evil.example.com:8083:8083",
    "[evil.example.com]",
]


@pytest.mark.parametrize("host", LOCAL)
async def test_names_of_this_server_are_answered(host: str) -> None:
    """Names of workers, compose services, Kubernetes and LANs are accepted."""
    async with guarded(KNOWN) as client:
        assert (await client.get("/connectors", headers={"host": host})).status_code == 200


@pytest.mark.parametrize("path", ["/connectors", "/compat/3.9.1/connectors", "/health", "/metrics"])
@pytest.mark.parametrize("host", OTHERS)
async def test_a_rebound_name_reads_nothing(host: str, path: str) -> None:
    """A read with a foreign `Host` header is refused (DNS rebinding)."""
    async with guarded(KNOWN) as client:
        answer = await client.get(path, headers={"host": host})
        assert answer.status_code == 403
        assert "allowed.hosts" in answer.json()["message"]


@pytest.mark.parametrize("base", ["", "/compat/3.9.1"])
async def test_a_rebound_name_changes_nothing(base: str) -> None:
    """A write with a foreign `Host` is refused, although its origin equals its host."""
    headers = {"host": EVIL, "origin": f"http://{EVIL}", "sec-fetch-site": "same-origin"}
    body = {"name": "x", "config": {"connector.class": "FileStreamSource", "topic": "t"}}
    async with guarded(Protection()) as client:
        answer = await client.post(f"{base}/connectors", json=body, headers=headers)
        assert answer.status_code == 403
        assert (await client.get("/connectors")).json() == []


async def test_a_forwarded_host_is_not_believed() -> None:
    """Forwarded hosts are ignored: any client can send such headers."""
    headers = {"host": EVIL, "x-forwarded-host": "localhost", "forwarded": "host=localhost"}
    async with guarded(Protection()) as client:
        assert (await client.get("/connectors", headers=headers)).status_code == 403
        headers = {"host": "localhost", "x-forwarded-host": EVIL}
        assert (await client.get("/connectors", headers=headers)).status_code == 200


async def test_this_machine_knows_its_names() -> None:
    """The machine's host name and its fully qualified name are accepted."""
    async with guarded(Protection()) as client:
        for name in (socket.gethostname(), socket.getfqdn()):
            assert (await client.get("/connectors", headers={"host": name})).status_code == 200


async def test_authenticated_requests_may_name_any_host(tmp_path: Path) -> None:
    """An authenticated request may name any host: a rebound page has no password.

    The host is still checked for requests that need no password.
    """
    headers = {"host": EVIL}
    async with guarded(Protection(auth_settings(tmp_path))) as client:
        answer = await client.get("/connectors", headers=headers, auth=("vera", "vera"))
        assert answer.status_code == 200
    async with guarded(Protection(auth_settings(tmp_path, anonymous_role="view"))) as client:
        assert (await client.get("/connectors", headers=headers)).status_code == 403


async def test_settings_name_the_hosts() -> None:
    """Listeners, the advertised name and `allowed.hosts` name the accepted hosts."""
    settings = {
        "listeners": "http://one.example.org:8083,http://two.example.org:8084",
        "admin.listeners": "http://admin.example.org:9083",
        "rest.advertised.host.name": "three.example.org",
        "allowed.hosts": "*.example.net, example.edu",
    }
    source = ValueSource("file", "worker.properties")
    protection = Protection.from_configuration(
        Configuration({k: SourcedValue(v, source) for k, v in settings.items()})
    )
    names = "one.example.org two.example.org admin.example.org three.example.org example.edu"
    async with guarded(protection) as client:
        for host in (*names.split(), "x.example.net"):
            assert (await client.get("/connectors", headers={"host": host})).status_code == 200
        assert (await client.get("/connectors", headers={"host": EVIL})).status_code == 403


async def test_every_host_may_be_allowed() -> None:
    """`*` accepts every host, for a proxy in front that checks it."""
    async with guarded(Protection(hosts=("*",))) as client:
        assert (await client.get("/connectors", headers={"host": EVIL})).status_code == 200


async def test_the_names_of_this_machine_are_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Concurrent requests wait for one thread, because a resolver may take seconds."""
    calls = 0

    def slowly() -> frozenset[str]:
        nonlocal calls
        calls += 1
        time.sleep(0.05)
        return frozenset({"me.example.com"})

    monkeypatch.setattr(hosts, "_names_of_this_machine", slowly)
    own = hosts.OwnHosts()
    names = ("me.example.com", *(f"{number}.example.com" for number in range(9)))
    assert await asyncio.gather(*map(own.has, names)) == [True, *[False] * 9]
    assert calls == 1


async def test_a_machine_may_have_a_name_that_is_no_domain_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Linux allows names of 64 characters. A label of a domain name has at most 63."""
    monkeypatch.setattr(socket, "gethostname", lambda: "a" * 64)
    async with guarded(Protection()) as client:
        answer = await client.get("/connectors", headers={"host": EVIL})
    assert answer.status_code == 403
