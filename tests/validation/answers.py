"""What a worker, or our validation, says of a config: short, and easily compared."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from controlplane.core.context import Context, Worker
from controlplane.core.plan import Reason
from controlplane.core.profiles import Profile
from controlplane.core.validation import Failure, Validation, refusal, validate
from controlplane.plugins import catalogued
from tests.validation.cases import APACHE, JSON, Config

FILE = Path(__file__).parent / "recorded.jsonl"
CLASSES_FILE = Path(__file__).parent / "recorded-classes.jsonl"
"""Of the configs of `class_cases`."""
CODES = {Reason.INVALID: 400, Reason.FAILED: 500}

WORKER = Worker(key_converter=JSON, value_converter=JSON)
"""Of the settings that were recorded with, those that validation depends on."""

CONNECTORS = (
    *(f"{APACHE}file.FileStream{kind}Connector" for kind in ("Source", "Sink")),
    *(f"{APACHE}mirror.Mirror{kind}Connector" for kind in ("Source", "Heartbeat", "Checkpoint")),
)


class Answer(NamedTuple):
    """`refused`: code and text that a creation is answered with. `digest`: of the whole result."""

    refused: str | None
    digest: str | None


def context_of(release: str, more: Iterable[Mapping[str, Any]] = ()) -> Context:
    """A worker of a release, as it was recorded; `more` are entries of its catalogue."""
    listed = [*({"class": name} for name in CONNECTORS), *more]
    plugins = catalogued(json.dumps(listed).encode())
    return Context(profile=Profile.of(release), worker=WORKER, plugins=plugins)


def ours(config: Config, context: Context) -> Answer:
    """What we say, as a worker of the context's release; what is right is not posted."""
    found = validate(config, context)
    whole = None if isinstance(found, Failure) else digest(msgspec.to_builtins(found))
    if isinstance(found, Validation) and not found.error_count:
        return Answer(None, whole)
    posted = config if config.get("name") is not None else config | {"name": ""}
    refused = refusal(posted, context)
    text = None if refused is None else f"{CODES[refused.reason]} {refused.text}"
    return Answer(text, whole)


def digest(result: Any) -> str:
    """Of a validation's result as JSON. How the place in a group is called is no part of it."""
    for one in result["configs"]:
        definition = one["definition"] or {}
        if "order_in_group" in definition:
            definition["order"] = definition.pop("order_in_group")
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()[:12]


class Recorded(NamedTuple):
    """A config and what workers said of it, by release."""

    config: Config
    answers: Mapping[str, Answer]


def read(file: Path = FILE) -> list[Recorded]:
    """Everything that was recorded."""
    return [_line(json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def _line(line: Any) -> Recorded:
    texts = {release: text for text, releases in line["refused"] for release in releases}
    digests = line["digests"]
    answers = {name: Answer(text, digests.get(name)) for name, text in texts.items()}
    return Recorded(line["config"], answers)


def write(recorded: list[Recorded], file: Path = FILE) -> None:
    """Put all of it into the file: one line per config, releases that say the same together."""
    lines = []
    for one in recorded:
        said: dict[str | None, list[str]] = {}
        for release, answer in one.answers.items():
            said.setdefault(answer.refused, []).append(release)
        digests = {name: answer.digest for name, answer in one.answers.items() if answer.digest}
        line = {"config": one.config, "refused": list(said.items()), "digests": digests}
        lines.append(json.dumps(line))
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
