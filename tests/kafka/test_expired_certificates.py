"""Certificates of a broker and of a worker that have expired, at the start and later."""

import asyncio
import re
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from controlplane.core.state import Topics
from tests.cli.command_calls import refusal, shell
from tests.cli.running_service import RunningService, running
from tests.kafka.attached_cluster import ended
from tests.kafka.conftest import RELEASES, up
from tests.kafka.own_service import worker_file
from tests.kafka.real_kafka import Broker, KafkaWorker
from tests.kafka.test_serve_own import SOURCE
from tests.kafka.worker_service import until
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.broker]

QUICK = (
    *("--override", "controller.write.patience.ms=2000"),
    *("--override", "writer.append.timeout.ms=2000"),
    *("--override", "reader.admin.patience.ms=2000"),
    *("--override", "connect.patience.ms=2000"),
    *("--override", "connect.read.on.ms=500"),
    *("--override", "connect.records.ms=500"),
)
"""Overrides that let the service give up after about two seconds."""

EXPIRED = "the certificate of broker {} has expired: renew it there, or set the clock here"
WORKER_EXPIRED = "its certificate is refused: certificate has expired"

LINES = 100
"""More lines than a service writes about an outage of some seconds."""

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", re.DOTALL)


class TlsWorker:
    """Worker behind a TLS proxy whose certificate can expire."""

    def __init__(self, worker: KafkaWorker, identity: Path) -> None:
        self._worker = urlsplit(worker.url)
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._open: set[asyncio.StreamWriter] = set()
        self.show(identity)

    def show(self, identity: Path) -> None:
        """Show another certificate, on new connections; end those that are open."""
        self._context.load_cert_chain(identity)
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    @asynccontextmanager
    async def url(self) -> AsyncIterator[str]:
        """Serve on a free port and yield the URL."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        async with server:
            yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        self._open.add(out)
        host, port = self._worker.hostname, self._worker.port
        back, forth = await asyncio.open_connection(host, port)
        await asyncio.gather(_pump(reader, forth), _pump(back, out))


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while octets := await source.read(1 << 16):
            sink.write(octets)
    except OSError:
        pass
    sink.close()


async def show(broker: Broker, identity: str) -> None:
    """Restart a broker with another certificate."""
    await broker.stop()
    broker.certificates.identity_file("broker").write_text(identity)
    await broker.start()


@asynccontextmanager
async def client_of(service: RunningService) -> AsyncIterator[httpx.AsyncClient]:
    """Open an HTTP client for the service."""
    async with httpx.AsyncClient(base_url=service.url, timeout=PATIENCE_S) as client:
        yield client


async def refused(*words: str) -> str:
    """Error sentence of a service that does not start."""
    return refusal(await asyncio.to_thread(shell, "serve", "--port", "0", *words))


async def _startup_errors(*words: str) -> str:
    """Output of a service that does not start, during its wait and at its end."""
    result = await asyncio.to_thread(shell, "serve", "--port", "0", *words)
    assert result.code == 2, result
    return result.err


@pytest.mark.prove
async def test_certificates_that_expire_give_one_sentence(tmp_path: Path) -> None:
    """An expired certificate gives one sentence at the start, and one per command later.

    With a new certificate everything continues.
    """
    async with (
        up(RELEASES[0], tmp_path, listeners=("SSL",)) as broker,
        KafkaWorker(RELEASES[0], broker) as worker,
    ):
        valid = broker.certificates.identity_file("broker")
        expired = broker.certificates.expired()
        first, over = valid.read_text(), expired.read_text()
        trusted = tmp_path / "trusted.pem"
        trusted.write_text(
            broker.certificates.authority.read_text() + _CERTIFICATE.findall(over)[0]
        )
        proxy = TlsWorker(worker, broker.certificates.identity("proxy"))
        access = {
            "security__protocol": "SSL",
            "ssl__truststore__type": "PEM",
            "ssl__truststore__location": trusted,
        }
        names = ("own-configs", "own-offsets", "own-status", "own-commands")
        file = worker_file(tmp_path, Topics(*names), **access)
        reads = worker_file(tmp_path, Topics(), **access)
        where = f"kafka://{broker.address('SSL')}"
        own = (where, "--own", "--worker", str(file), "--quiet", *QUICK)
        async with proxy.url() as url:
            attached = (
                *(where, "--connect-url", url, "--connect-ca-file", str(trusted)),
                *("--worker", str(reads), "--quiet", *QUICK),
            )
            async with running(*own) as mine, running(*attached) as theirs:
                async with client_of(mine) as client, client_of(theirs) as steering:
                    assert (await client.put("/connectors/a/config", json=SOURCE)).is_success
                    assert (await steering.put("/connectors/a/config", json=SOURCE)).is_success
                    await ended(steering)
                    await show(broker, over)
                    await _broker_refused(client, steering)
                    for words in (own, attached):
                        assert await refused(*words) == EXPIRED.format(broker.address("SSL"))
                    await show(broker, first)

                    async def writes() -> bool:
                        return (await client.put("/connectors/c/config", json=SOURCE)).is_success

                    await until(writes)
                    assert (await client.get("/connectors")).json() == ["a", "c"]
                    proxy.show(expired)
                    answer = await steering.put("/connectors/a/resume")
                    assert answer.is_server_error
                    assert WORKER_EXPIRED in answer.json()["message"]
                    assert "nothing has been done" in answer.json()["message"]
                    assert WORKER_EXPIRED in (await _startup_errors(*attached)).splitlines()[-1]
                for service in (mine, theirs):
                    code, printed = await service.end(signal.SIGTERM)
                    assert (code, "Traceback" in printed) == (0, False), printed
                    assert len(printed.splitlines()) < LINES, printed


async def _broker_refused(client: httpx.AsyncClient, steering: httpx.AsyncClient) -> None:
    """A write fails, reads continue, and the worker still receives requests."""

    async def reports_expiry() -> bool:
        health = (await client.get("/health")).json()["message"]
        return "has expired: renew it there" in health

    await until(reports_expiry)
    answer = await client.put("/connectors/b/config", json=SOURCE)
    assert answer.is_server_error
    assert "has expired: renew it there" in answer.json()["message"]
    shown = await client.get("/connectors")
    assert shown.json() == ["a"]
    assert "has expired: renew it there" in shown.headers["x-controlplane-notice"]
    assert (await steering.put("/connectors/a/pause")).status_code == httpx.codes.ACCEPTED
    unread = await steering.get("/commands")
    assert "has expired: renew it there" in unread.json()["message"]
