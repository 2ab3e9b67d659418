"""Credentials of `serve --connect-url`: each source of a password or token reaches the worker."""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import parse_headers
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread

import pytest

from tests.cli.command_calls import call

REFUSAL = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
BASIC = "Basic " + b64encode(b"ada:pw").decode()
BEARER = "Bearer xyzzy"


@contextmanager
def refusing_worker(arrived: list[str | None]) -> Iterator[str]:
    """URL of a worker that refuses everyone; `arrived` gets the credentials of each request."""

    class CredentialsRecorder(StreamRequestHandler):
        def handle(self) -> None:
            """Record the credentials of one request, and refuse it."""
            self.rfile.readline()
            arrived.append(parse_headers(self.rfile)["authorization"])
            self.wfile.write(REFUSAL)

    with ThreadingTCPServer(("127.0.0.1", 0), CredentialsRecorder) as server:
        serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            serving.join()


@pytest.mark.parametrize(
    ("words", "typed", "header"),
    [
        (("--connect-user", "ada:pw"), None, BASIC),
        (("--connect-user", "ada"), "pw\n", BASIC),
        (("--override", "connect.user=ada:pw"), None, BASIC),
        (("--connect-token", "xyzzy"), None, BEARER),
        (("--connect-token", "@token"), None, BEARER),
        (("--override", "connect.token=xyzzy"), None, BEARER),
        (("--override", "connect.token=@token"), None, BEARER),
    ],
)
def test_credentials_arrive_at_a_worker(
    words: tuple[str, ...],
    typed: str | None,
    header: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first request to a worker has the password or token; a file's token has no newline."""
    monkeypatch.chdir(tmp_path)
    Path("token").write_text("xyzzy\n")
    arrived: list[str | None] = []
    with refusing_worker(arrived) as url:
        serve = ("serve", "kafka://127.0.0.1:1", "--port", "0", "--connect-url", url, *words)
        result = call(*serve, "--override", "connect.patience.ms=1", typed=typed)
    assert result.code == 2, result
    assert arrived
    assert {*arrived} == {header}
