"""What workers said about their plugins and loggers: short, and easily compared."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.rest.plugins.cases import Ask, cases

FILE = Path(__file__).parent / "recorded.jsonl"

LONG_CHARACTERS = 400
"""Of longer answers only a digest is kept."""

_TIMES = re.compile(r'"last_modified":\d+')


class Said(NamedTuple):
    """An answer: its status, type and text, in which the release is `RELEASE` and times are 0."""

    status: int
    content_type: str | None
    text: str


def plain(answer: httpx.Response, release: str) -> Said:
    """What was answered, without what is never the same twice."""
    text = _TIMES.sub('"last_modified":0', answer.text.replace(release, "RELEASE"))
    if len(text) > LONG_CHARACTERS:
        text = f"{len(text)} {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return Said(answer.status_code, answer.headers.get("content-type"), text)


def write(said: Mapping[str, Sequence[Said]]) -> None:
    """Put all into the file: one line per request, releases that say the same together."""
    lines = []
    for number, asked in enumerate(cases()):
        answers: dict[Said, list[str]] = {}
        for release, all_said in said.items():
            answers.setdefault(all_said[number], []).append(release)
        lines.append(json.dumps({"asked": asked, "answers": list(answers.items())}))
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read(release: str) -> list[tuple[Ask, Said]]:
    """What a worker of a release said, in the order in which it was asked."""
    lines = map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
    return [
        (Ask(*line["asked"]), Said(*said))
        for line in lines
        for said, releases in line["answers"]
        if release in releases
    ]
