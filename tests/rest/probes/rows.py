"""The rows of a probe: requests to real workers and their answers, in order.

The first line of the file explains the fields; `README.md` describes the file.
"""

import gzip
from base64 import b64decode
from pathlib import Path
from typing import Any, Literal

import msgspec

PROBE = Path(__file__).parent / "probe-3.9.1.jsonl.gz"
RELEASE = "3.9.1"

Repeated = list[tuple[str, int]]
"""Texts with their numbers of repetitions: a short form of long bodies."""


class ProbeRow(msgspec.Struct, frozen=True):
    """One row. A row without a `kind` in the file is a request."""

    n: int
    kind: Literal["request", "world", "file", "wait", "sleep", "broker"] = "request"
    world: str = ""
    worker: str = ""
    path: str = ""

    workers: dict[str, dict[str, Any]] = {}
    """Workers of a world by name, each with its settings."""
    lines: list[str] = []
    """Lines of the file to write."""
    state: str = ""
    """Expected state of a connector or of the broker."""
    tasks: list[str] = []
    contains: str | None = None
    """Text that the awaited answer contains."""

    topic: str = ""
    method: str = ""
    target_base64: str | None = None
    version: str = "HTTP/1.1"
    host: bool = True
    headers: list[tuple[str, str]] = []
    body: str | None = None
    body_base64: str | None = None
    body_repeat: Repeated | None = None

    status: int = 0
    response_headers: dict[str, str] = {}
    answer: str | None = None
    race: bool = False
    """The answer depends on which of two requests the worker handled first."""
    unstable: bool = False
    """A second run of the same worker gave another answer."""

    @property
    def target(self) -> bytes:
        """The request target, as it was sent."""
        if self.target_base64 is not None:
            return b64decode(self.target_base64)
        return self.path.encode()

    @property
    def sent(self) -> bytes | None:
        """The body, as it was sent; None: without a body and without a length."""
        if self.body_base64 is not None:
            return b64decode(self.body_base64)
        if self.body_repeat is not None:
            return "".join(text * times for text, times in self.body_repeat).encode()
        return None if self.body is None else self.body.encode()


def rows() -> list[ProbeRow]:
    """Return all rows of the recording, in order."""
    lines = gzip.decompress(PROBE.read_bytes()).splitlines()
    decoder = msgspec.json.Decoder(ProbeRow)
    return [decoder.decode(line) for line in lines[1:]]
