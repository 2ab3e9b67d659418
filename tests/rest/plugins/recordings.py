"""Recorded answers of workers about their plugins and loggers, in a short comparable form.

The `documentation` of settings is compared by a digest, apart from the rest of an answer.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.documentation_digests import digest_of_all, sentences, without_sentences
from tests.rest.plugins.cases import PluginRequest, cases

FILE = Path(__file__).parent / "recorded.jsonl"

LONG_CHARACTERS = 400
"""Length above which a recording keeps only a digest of the answer."""

_TIMES = re.compile(r'"last_modified":\d+')


class PluginAnswer(NamedTuple):
    """An answer: its status, type and text, in which the release is `RELEASE` and times are 0.

    `text` has no documentation; `documentation` is its digest, or None without documentation.
    """

    status: int
    content_type: str | None
    text: str
    documentation: str | None = None

    def without_documentation(self) -> "PluginAnswer":
        """Return the answer without Kafka's documentation."""
        return self._replace(documentation=None)


def plain(answer: httpx.Response, release: str) -> PluginAnswer:
    """Answer without the parts that differ from run to run."""
    normalized = _TIMES.sub('"last_modified":0', answer.text.replace(release, "RELEASE"))
    text = without_sentences(normalized)
    if len(text) > LONG_CHARACTERS:
        text = f"{len(text)} {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    content_type = answer.headers.get("content-type")
    return PluginAnswer(
        answer.status_code, content_type, text, digest_of_all(sentences(normalized))
    )


def write(answers_by_release: Mapping[str, Sequence[PluginAnswer]]) -> None:
    """Write all answers to the file: one line per request, equal answers grouped by release."""
    lines = []
    for number, request in enumerate(cases()):
        answers: dict[PluginAnswer, list[str]] = {}
        for release, all_said in answers_by_release.items():
            answers.setdefault(all_said[number], []).append(release)
        lines.append(json.dumps({"asked": request, "answers": list(answers.items())}))
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


@cache
def _lines() -> list[Any]:
    return list(map(json.loads, FILE.read_text(encoding="utf-8").splitlines()))


def read(release: str) -> list[tuple[PluginRequest, PluginAnswer]]:
    """Requests and answers of a worker of a release, in their order."""
    return [
        (PluginRequest(*line["asked"]), PluginAnswer(*answer))
        for line in _lines()
        for answer, releases in line["answers"]
        if release in releases
    ]
