"""Recorded answers of many releases: one line per request, equal answers together."""

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.rest.probes.comparison import HEADERS
from tests.rest.probes.raw_requests import Response
from tests.rest.probes.rows import ProbeRow

FOLDER = Path(__file__).parent

HOST = "127.0.0.1:8083"
"""Replacement for the host and port in every recorded answer."""


class ReleaseAnswer(NamedTuple):
    """An answer: status, headers that clients use, and text. Status 0: no answer came."""

    status: int
    headers: tuple[tuple[str, str], ...]
    text: str


def plain(response: Response | None, host: str) -> ReleaseAnswer:
    """An answer without the port of the server that gave it."""
    if response is None:
        return ReleaseAnswer(0, (), "")
    headers = tuple(
        (name, response.headers[name].replace(host, HOST))
        for name in HEADERS
        if name in response.headers
    )
    return ReleaseAnswer(
        response.status, headers, response.body.decode("utf-8", "replace").replace(host, HOST)
    )


def digest(row: ProbeRow) -> str:
    """Digest that identifies a request by its bytes."""
    parts = (row.method, row.target, row.version, row.host, row.headers, row.sent)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def write(
    name: str, rows: Sequence[ProbeRow], answers_by_release: Mapping[str, Sequence[ReleaseAnswer]]
) -> None:
    """Write all answers to a file; equal answers of several releases share a line.

    Answers of other releases to the same requests stay.
    """
    recorded = dict(_lines(name)) if _file(name).exists() else {}
    lines = []
    for number, row in enumerate(rows):
        answers: dict[ReleaseAnswer, list[str]] = {}
        for (status, headers, text), releases in recorded.get(digest(row), []):
            answer = ReleaseAnswer(status, tuple((key, value) for key, value in headers), text)
            kept = [release for release in releases if release not in answers_by_release]
            answers.update({answer: kept} if kept else {})
        for release, all_said in answers_by_release.items():
            answers.setdefault(all_said[number], []).append(release)
        lines.append(json.dumps([digest(row), list(answers.items())]))
    text = "\n".join(lines) + "\n"
    _file(name).write_bytes(gzip.compress(text.encode(), mtime=0))
    _lines.cache_clear()


@cache
def _lines(name: str) -> list[Any]:
    return list(map(json.loads, gzip.decompress(_file(name).read_bytes()).splitlines()))


def read(name: str, rows: Sequence[ProbeRow], release: str) -> list[ProbeRow]:
    """Return the requests, each with the answer of a worker of this release.

    Raises: ValueError if the file is for other requests, or lacks the release.
    """
    return [_answered(row, line, release) for row, line in zip(rows, _lines(name), strict=True)]


def _answered(row: ProbeRow, line: Any, release: str) -> ProbeRow:
    recorded, answers = line
    if recorded != digest(row):
        raise ValueError(f"{row.n} {row.method} {row.path[:80]} was not recorded")
    for (status, headers, text), releases in answers:
        if release in releases:
            fields = {"status": status, "response_headers": dict(headers), "answer": text}
            return msgspec.structs.replace(row, **fields)
    raise ValueError(f"no worker of {release} was asked")


def _file(name: str) -> Path:
    return FOLDER / f"{name}.jsonl.gz"
