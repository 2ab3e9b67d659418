"""Limits and TLS of the server, on a real socket."""

import asyncio
import resource
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.rest.errors import Answer
from controlplane.rest.http.connections import FILES_BESIDE, make_room
from controlplane.rest.http.limits import HttpLimits
from controlplane.rest.http.messages import response
from controlplane.rest.http.server import listen, serving, url_of
from controlplane.rest.security.middleware import Protection
from controlplane.settings import Configuration, SourcedValue, ValueSource
from controlplane.settings.errors import SettingsError
from tests.patience import PATIENCE_S
from tests.rest.security.certificate import IssuedCertificate

ServerAddress = tuple[str, int]
SECRET = "store-secret"
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """Application that answers with the client's address."""
    await Response(scope["client"][0].encode())(scope, receive, send)


@asynccontextmanager
async def served(
    limits: HttpLimits | None = None, tls: ssl.SSLContext | None = None, app: ASGIApp = hello
) -> AsyncIterator[ServerAddress]:
    """Serve the app and yield its address; a wait above `PATIENCE_S` fails."""
    listening = listen("127.0.0.1", 0)
    address = listening.getsockname()
    async with asyncio.timeout(PATIENCE_S), serving(app, listening, limits, tls):
        yield address


async def ask(address: ServerAddress, sent: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """Send bytes on a new connection, and return the status line."""
    reader, writer = await asyncio.open_connection(*address, ssl=tls)
    writer.write(sent)
    line = await reader.readline()
    writer.close()
    return line


# --- slow clients -------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n"])
async def test_an_incomplete_head_closes_the_connection(sent: bytes) -> None:
    """A connection without a complete head is closed."""
    async with served(HttpLimits(head_patience_ms=50)) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(sent)
        assert await until_the_end(reader) == b""
        writer.close()


async def test_the_next_head_has_the_same_time_limit() -> None:
    """On a used connection, the next head has the same time limit as the first."""
    async with served(HttpLimits(head_patience_ms=1_000)) as address:
        reader, writer = await asyncio.open_connection(*address)
        for _ in range(2):
            writer.write(GET)
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            await reader.readuntil(b"127.0.0.1")
        writer.write(b"GET / HT")
        assert await until_the_end(reader) == b""
        writer.close()


async def test_a_client_that_reads_nothing_is_cut_off() -> None:
    """A client that reads nothing loses its connection, so the application can go on."""
    cut_off = asyncio.Event()

    async def much(_: Scope, receive: Receive, send: Send) -> None:
        await receive()  # the request itself
        gone = asyncio.ensure_future(receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not gone.done():
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
        cut_off.set()

    async with served(HttpLimits(answer_patience_ms=50), app=much) as address:
        _reader, writer = await asyncio.open_connection(*address, limit=1_024)
        writer.write(GET)
        await cut_off.wait()
        writer.close()


async def test_the_shutdown_cuts_off_a_client_that_reads_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A client that reads nothing neither blocks the shutdown nor causes a defect."""

    async def much(scope: Scope, receive: Receive, send: Send) -> None:
        await response(Answer(200, b"x" * 30_000_000), "GET")(scope, receive, send)

    async with served(HttpLimits(shutdown_ms=1), app=much) as address:
        reader, writer = await asyncio.open_connection(*address, limit=1_024)
        writer.write(GET)
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    assert len(await until_the_end(reader)) < 30_000_000
    writer.close()
    assert not any(record.exc_info for record in caplog.records)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def until_the_end(reader: asyncio.StreamReader) -> bytes:
    """Read until the connection ends; a reset ends it, too."""
    parts = []
    with suppress(ConnectionResetError):
        while part := await reader.read(1_024):
            parts.append(part)
    return b"".join(parts)


async def test_too_many_connections_get_503() -> None:
    """Idle connections count, too; a connection above the limit gets 503 and is closed."""
    async with served(HttpLimits(connections_max=3)) as address:
        resting = [await asyncio.open_connection(*address) for _ in range(2)]
        for reader, writer in resting:
            writer.write(GET)
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        assert await ask(address, GET) == b"HTTP/1.1 503 Service Unavailable\r\n"
        for _, writer in resting:
            writer.close()
            await writer.wait_closed()


def test_the_limit_of_open_files_is_raised() -> None:
    """The usual file limit is raised as needed, and never above the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (500, hard))
        assert make_room(300) == 300
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (500, hard)
        assert make_room(1_000) == 1_000
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1_000 + FILES_BESIDE, hard)
        if hard != resource.RLIM_INFINITY:
            assert make_room(hard + 1) == hard - FILES_BESIDE
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_forwarded_address_is_not_the_peers() -> None:
    """`X-Forwarded-For` does not change the peer's address."""
    async with served() as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(GET[:-2] + b"X-Forwarded-For: 10.0.0.7\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b"\r\n\r\n127.0.0.1")
        writer.close()


async def test_a_head_above_the_limit_is_cut_off() -> None:
    """A head above the limit is cut off."""
    async with served(HttpLimits(head_max_bytes=1_000)) as address:
        endless = GET[:-2] + b"X-Long: " + b"y" * 100_000
        assert await ask(address, endless) == b"HTTP/1.1 400 Bad Request\r\n"


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"transfer-encoding: chunked\r\nX-Between: x\r\ncontent-length: 0\r\n",
    ],
)
async def test_a_request_with_two_lengths_closes_the_connection(lengths: bytes) -> None:
    """A request with two lengths closes the connection.

    A proxy in front may use the other length, and pass on a smuggled request.
    """
    paths = []

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        paths.append(scope["path"])
        await hello(scope, receive, send)

    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    async with served(app=noting) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(GET.replace(b"GET", b"POST")[:-2] + lengths + b"\r\n0\r\n\r\n" + smuggled)
        response = await until_the_end(reader)
        writer.close()
    assert response.startswith(b"HTTP/1.1 400 ")
    assert response.count(b"HTTP/1.1") == 1
    assert paths == []


# --- TLS ----------------------------------------------------------------------------------------


def trusting(made: IssuedCertificate) -> ssl.SSLContext:
    """TLS context of a client that trusts only this certificate."""
    return ssl.create_default_context(cadata=made.certificate_pem)


def flag_configuration(**settings: str) -> Configuration:
    """Settings given as flags; `_` stands for a dot."""
    flag = ValueSource("flag", "--override")
    keyed = {key.replace("_", "."): SourcedValue(text, flag) for key, text in settings.items()}
    return Configuration({"listeners": SourcedValue("https://127.0.0.1:0", flag), **keyed})


def pem(directory: Path, made: IssuedCertificate) -> dict[str, str]:
    """Settings for a key store in PEM, with a password."""
    path = directory / "mine.pem"
    path.write_text(made.key_pem(SECRET) + made.certificate_pem, "ascii")
    return {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": str(path),
        "ssl_key_password": SECRET,
    }


def inline(_: Path, made: IssuedCertificate) -> dict[str, str]:
    """Settings that contain the key and the certificate."""
    return {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_key": made.key_pem(),
        "ssl_keystore_certificate_chain": made.certificate_pem,
    }


def pkcs12(directory: Path, made: IssuedCertificate) -> dict[str, str]:
    """Return settings for a key store in PKCS12, as Java writes it."""
    path = directory / "mine.jks"
    path.write_bytes(made.pkcs12(SECRET))
    return {"ssl_keystore_location": str(path), "ssl_keystore_password": SECRET}


@pytest.mark.parametrize("store", [pem, inline, pkcs12])
@pytest.mark.parametrize("prefix", ["", "listeners_https_"])
async def test_tls_is_set_by_a_workers_settings(
    tmp_path: Path, store: Callable[[Path, IssuedCertificate], dict[str, str]], prefix: str
) -> None:
    """TLS is set by a worker's settings, with or without a prefix; plain requests get no answer."""
    made = IssuedCertificate.of("mine")
    settings = {prefix + key: text for key, text in store(tmp_path, made).items()}
    tls = Protection.from_configuration(flag_configuration(**settings)).tls
    async with served(tls=tls) as address:
        assert await ask(address, GET, trusting(made)) == b"HTTP/1.1 200 OK\r\n"
        with pytest.raises(ssl.SSLCertVerificationError):
            await ask(address, GET, trusting(IssuedCertificate.of("another")))
        assert await ask(address, GET) == b""


async def test_a_refused_connection_is_not_read(caplog: pytest.LogCaptureFixture) -> None:
    """A request on a refused TLS connection is not read, although TLS has decrypted it."""
    made = IssuedCertificate.of("mine")
    tls = Protection.from_configuration(flag_configuration(**inline(Path(), made))).tls
    async with served(HttpLimits(connections_max=1), tls) as address:
        _, first = await asyncio.open_connection(*address, ssl=trusting(made))
        _, second = await asyncio.open_connection(*address, ssl=trusting(made))
        reader, refused = await asyncio.open_connection(*address, ssl=trusting(made))
        refused.write(GET)
        assert (await reader.read()).endswith(b'"Too many connections: try again later"}')
        for writer in (first, second, refused):
            writer.close()
    assert caplog.records == []


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ({"": "a", "listeners_https_": "b", "admin_listeners_https_": "c"}, ("b", "c")),
        ({"": "a", "listeners_https_": "b"}, ("b", "a")),
        ({"": "a", "admin_listeners_https_": "c"}, ("a", "c")),
    ],
)
async def test_administrators_may_be_shown_another_key(
    tmp_path: Path, keys: dict[str, str], shown: tuple[str, str]
) -> None:
    """Admin listeners use all settings of their own prefix, or all of the worker's (KIP-495)."""
    made = {name: IssuedCertificate.of(name) for name in keys.values()}
    settings = {
        prefix + key: text
        for prefix, name in keys.items()
        for key, text in inline(tmp_path, made[name]).items()
    }
    protection = Protection.from_configuration(
        flag_configuration(admin_listeners="https://127.0.0.1:0", **settings)
    )
    for tls, name in zip((protection.tls, protection.admin_tls), shown, strict=True):
        async with served(tls=tls) as address:
            assert await ask(address, GET, trusting(made[name])) == b"HTTP/1.1 200 OK\r\n"


async def test_clients_without_certificates_are_refused(tmp_path: Path) -> None:
    """`ssl.client.auth=required` refuses clients without a trusted certificate."""
    made, friend, stranger = (
        IssuedCertificate.of("mine"),
        IssuedCertificate.of("friend"),
        IssuedCertificate.of("stranger"),
    )
    trust = {
        "ssl_client_auth": "required",
        "ssl_truststore_type": "PEM",
        "ssl_truststore_certificates": friend.certificate_pem,
    }
    tls = Protection.from_configuration(flag_configuration(**inline(tmp_path, made), **trust)).tls
    async with served(tls=tls) as address:
        assert await ask(address, GET, _showing(tmp_path, made, friend)) == b"HTTP/1.1 200 OK\r\n"
        for client in (trusting(made), _showing(tmp_path, made, stranger)):
            # With TLS 1.3 a client learns of the refusal only when it reads.
            with suppress(ssl.SSLError, ConnectionResetError):
                assert await ask(address, GET, client) == b""


async def test_the_systems_authorities_verify_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a trust store, the operating system's authorities verify client certificates."""
    made, friend = IssuedCertificate.of("mine"), IssuedCertificate.of("friend")
    authorities = tmp_path / "authorities.pem"
    authorities.write_text(friend.certificate_pem, "ascii")
    monkeypatch.setenv("SSL_CERT_FILE", str(authorities))
    settings = {**inline(tmp_path, made), "ssl_client_auth": "required"}
    tls = Protection.from_configuration(flag_configuration(**settings)).tls
    async with served(tls=tls) as address:
        assert await ask(address, GET, _showing(tmp_path, made, friend)) == b"HTTP/1.1 200 OK\r\n"


def _showing(
    directory: Path, server: IssuedCertificate, shown: IssuedCertificate
) -> ssl.SSLContext:
    client = trusting(server)
    path = directory / "shown.pem"
    path.write_text(shown.key_pem() + shown.certificate_pem, "ascii")
    client.load_cert_chain(path)
    return client


def test_one_key_with_the_prefix_replaces_all_ssl_keys(tmp_path: Path) -> None:
    """One `listeners.https.` key replaces all `ssl.` keys of the worker, as in Kafka."""
    settings = pkcs12(tmp_path, IssuedCertificate.of("mine")) | {
        "listeners_https_ssl_client_auth": "none"
    }
    with pytest.raises(SettingsError) as refused:
        Protection.from_configuration(flag_configuration(**settings))
    assert str(refused.value).startswith(
        "--override: listeners.https.ssl.keystore.location is not set"
    )


@pytest.mark.parametrize("prefix", ["", "listeners_https_"])
@pytest.mark.parametrize("unset", [(), ("listeners", "admin.listeners")])
def test_keys_without_an_https_listener_give_no_tls(
    tmp_path: Path, prefix: str, unset: tuple[str, ...]
) -> None:
    """Key settings do not enable TLS if the listeners begin with `http://` or are not set."""
    keys = inline(tmp_path, IssuedCertificate.of("mine"))
    settings = {prefix + key: text for key, text in keys.items()}
    plain = "http://127.0.0.1:0"
    flags = flag_configuration(listeners=plain, admin_listeners=plain, **settings).values
    protection = Protection.from_configuration(
        Configuration({key: flag for key, flag in flags.items() if key not in unset})
    )
    assert (protection.tls, protection.admin_tls) == (None, None)


def test_the_url_of_an_encrypted_listener_begins_with_https() -> None:
    """The printed address of an encrypted listener begins with `https`."""
    with listen("127.0.0.1", 0) as listening:
        assert url_of(listening, encrypted=True).startswith("https://127.0.0.1:")
