"""Load client: it stops at a response that never completes."""

import socket

import pytest

from benchmarks.processes.load_client import BadResponse, LoadConnection

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"


def read_pieces(connection: LoadConnection, pieces: int) -> None:
    """Read more pieces than the server has sent, at most one per byte."""
    for _ in range(pieces):
        assert connection.goes_on()


@pytest.mark.parametrize("sent", [b"", HEAD[:9], HEAD + b"half"])
def test_a_connection_that_closes_within_a_response_is_an_error(sent: bytes) -> None:
    """A closed socket is always readable, so the client would wait in a busy loop."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = LoadConnection(server.getsockname(), [b"GET / HTTP/1.1\r\n\r\n"], 0)
        accepted, _ = server.accept()
        accepted.recv(1 << 16)
        accepted.sendall(sent)
        accepted.close()
        with connection.socket, pytest.raises(BadResponse, match="closed the connection after"):
            read_pieces(connection, len(sent) + 1)
