"""`controlplane serve` in an open network: authentication, TLS, metrics and warnings."""

import json
from pathlib import Path

import httpx
import pytest

from controlplane.rest.http.server import listen
from controlplane.rest.security.credential_hashes import Credential, TokenHash
from controlplane.rest.security.roles import Role
from tests.cli.command_calls import call, refusal
from tests.cli.running_service import LIFE, running
from tests.rest.security.certificate import IssuedCertificate
from tests.rest.security.test_server import pem, trusting


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """File with one token, `t0ken`, of a user who may view."""
    path = tmp_path / "tokens"
    path.write_text(f"{Credential('ann', Role.VIEW, TokenHash.of('t0ken'))}\n", "ascii")
    return path


async def test_tokens_authenticate_callers(tokens: Path, tmp_path: Path) -> None:
    """A token gives access by the role of its user; log lines never contain a token."""
    options = ("--override", f"auth.token.file={tokens}")
    headers = {"authorization": "Bearer t0ken"}
    async with (
        running(f"sqlite:///{tmp_path}/state.db", *options) as service,
        httpx.AsyncClient() as client,
    ):
        assert (await client.get(f"{service.url}/connectors")).status_code == 401
        assert (await client.get(f"{service.url}/connectors", headers=headers)).json() == []
        refused = await client.put(f"{service.url}/connectors/x/pause", headers=headers)
        assert refused.status_code == 403
        code, told_of = await service.end()
    assert code == 0
    assert "event=request_refused method=GET target=/connectors status=401" in told_of
    assert "t0ken" not in told_of


async def test_a_request_line_names_the_principal(tokens: Path, tmp_path: Path) -> None:
    """The JSON log line has the token's user and the client's address."""
    options = ("--override", f"auth.token.file={tokens}", "--log-format", "json")
    async with (
        running(f"sqlite:///{tmp_path}/state.db", *options) as service,
        httpx.AsyncClient() as client,
    ):
        headers = {"authorization": "Bearer t0ken"}
        assert (await client.get(f"{service.url}/connectors", headers=headers)).status_code == 200
        code, written = await service.end()
    assert code == 0
    lines = [json.loads(line) for line in written.splitlines()]
    (line,) = [line for line in lines if line["event"] == "request"]
    assert (line["principal"], line["peer"]) == ("ann", "127.0.0.1")


async def test_metrics_describe_log_and_requests() -> None:
    """`/metrics` describes the log and the requests."""
    async with running(LIFE) as service, httpx.AsyncClient() as client:
        await client.get(f"{service.url}/connectors")
        text = (await client.get(f"{service.url}/metrics")).text
    assert "\nkafka_connect_worker_connector_count 10.0\n" in text
    sample = 'controlplane_http_requests_total{method="GET",route="/connectors",status="200"} 1.0'
    assert sample in text


async def test_a_tls_listener_serves_https(tmp_path: Path) -> None:
    """A TLS listener of a worker's file serves HTTPS; the printed URL has `https`."""
    made = IssuedCertificate.of("mine")
    keys = {key.replace("_", "."): text for key, text in pem(tmp_path, made).items()}
    settings = {"listeners": "https://127.0.0.1:0"} | keys
    worker = tmp_path / "worker.properties"
    worker.write_text("".join(f"{key}={text}\n" for key, text in settings.items()), "ascii")
    async with running(LIFE, "--worker", str(worker), port=()) as service:
        assert service.url.startswith("https://127.0.0.1:")
        async with httpx.AsyncClient(verify=trusting(made)) as client:
            assert (await client.get(f"{service.url}/")).status_code == 200


async def test_an_open_service_without_authentication_warns(tokens: Path, tmp_path: Path) -> None:
    """The warning appears if other machines reach the service without credentials."""
    everywhere = (f"sqlite:///{tmp_path}/state.db", "--host", "0.0.0.0")
    credentials = ("--override", f"auth.token.file={tokens}")
    for options, warnings in (((), 1), (credentials, 0)):
        async with running(*everywhere, *options) as service:
            _, printed = await service.end()
        assert printed.count("Warning: every client that reaches 0.0.0.0 may do ") == warnings
        assert printed.count("Warning") == warnings


async def test_an_open_read_only_service_without_authentication_warns(tokens: Path) -> None:
    """Readable configs contain secrets, so an open read-only service warns too.

    An open admin address also warns.
    """
    apart = ("--override", "admin.listeners=http://0.0.0.0:0")
    credentials = ("--override", f"auth.token.file={tokens}")
    reach = "Warning: every client that reaches 0.0.0.0 may"
    reading = f"{reach} read everything, configs with their secrets: require credentials"
    setting = f"{reach} set the levels of loggers: require credentials"
    for words, warnings in (
        (("--host", "0.0.0.0"), [reading]),
        (("--host", "0.0.0.0", *credentials), []),
        (apart, [setting]),
        ((), []),
    ):
        async with running(LIFE, *words) as service:
            _, printed = await service.end()
        assert printed.count("Warning") == len(warnings), printed
        assert all(warning in printed for warning in warnings)


@pytest.mark.parametrize("prefix", ["", "admin.listeners.https."])
async def test_administrators_are_encrypted(tmp_path: Path, prefix: str) -> None:
    """The admin listener uses its own or the general TLS settings (KIP-495), never HTTP."""
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    made = IssuedCertificate.of("mine")
    keys = {prefix + key.replace("_", "."): text for key, text in pem(tmp_path, made).items()}
    settings = {"admin.listeners": f"https://127.0.0.1:{port}"} | keys
    worker = tmp_path / "worker.properties"
    worker.write_text("".join(f"{key}={text}\n" for key, text in settings.items()), "ascii")
    async with running(LIFE, "--worker", str(worker)) as service:
        assert service.url.startswith("http://127.0.0.1:")
        async with httpx.AsyncClient(verify=trusting(made)) as client:
            answer = await client.get(f"https://127.0.0.1:{port}/admin/loggers/root")
            assert answer.json()["level"] == "INFO"
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get(f"http://127.0.0.1:{port}/admin/loggers/root")
        _, printed = await service.end()
    assert "Warning" not in printed


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("auth.token.file=nowhere", "auth.token.file: nowhere cannot be read (No such file"),
        ("auth.proxy.header=X-User", "auth.proxy.header is set without auth.proxy.addresses"),
        ("listeners=https://127.0.0.1:0", "ssl.keystore.location is not set"),
        ("admin.listeners=https://127.0.0.1:0", "ssl.keystore.location is not set"),
        ("http.body.max.bytes=0", "use a whole number from 1"),
        ("response.http.headers.config=X", "response.http.headers.config has a malformed rule"),
    ],
)
def test_unusable_settings_are_refused(override: str, reason: str) -> None:
    """The service prints one sentence and does not start."""
    assert reason in refusal(call("serve", LIFE, "--port", 0, "--override", override))


def test_a_bad_password_file_creates_no_log(tmp_path: Path) -> None:
    """The sentence names file and line, and no log is created."""
    passwords, log = tmp_path / "passwords", tmp_path / "state.db"
    passwords.write_text("ada:banana:x\n", "utf-8")
    passwords.chmod(0o600)
    message = f"auth.password.file={passwords}"
    sentence = refusal(call("serve", f"sqlite:///{log}", "--port", 0, "--override", message))
    assert f"{passwords}:1: " in sentence
    assert not log.exists()
