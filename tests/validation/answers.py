"""Answers to a config by a worker or by our validation, in a short comparable form."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from controlplane.core.context import Context, DecisionSettings
from controlplane.core.plan import Reason
from controlplane.core.releases.profiles import Profile
from controlplane.core.validation import Validation, refusal, validate
from controlplane.plugins import catalogued
from tests.documentation_digests import digest_of_all
from tests.harvested_catalogues import harvested_catalogue
from tests.validation.cases import APACHE, JSON, ConfigBody

FILE = Path(__file__).parent / "recorded.jsonl"
CLASSES_FILE = Path(__file__).parent / "recorded-classes.jsonl"
"""Recorded answers to the configs of `class_cases`."""
CODES = {Reason.INVALID: 400, Reason.FAILED: 500}

WORKER = DecisionSettings(key_converter=JSON, value_converter=JSON)
"""Recorded worker settings that the validation depends on."""

CONNECTORS = (
    *(f"{APACHE}file.FileStream{kind}Connector" for kind in ("Source", "Sink")),
    *(f"{APACHE}mirror.Mirror{kind}Connector" for kind in ("Source", "Heartbeat", "Checkpoint")),
)


class ValidationAnswer(NamedTuple):
    """The answer to a config.

    `refused` has code and text of the refused creation. `digest` is that of the whole result
    without the documentation of settings; `documentation` is the digest of all documentation.
    """

    refused: str | None
    digest: str | None
    documentation: str | None = None

    def without_documentation(self) -> "ValidationAnswer":
        """Return the answer without Kafka's documentation."""
        return self._replace(documentation=None)


def context_of(
    release: str, entries: Iterable[Mapping[str, Any]] = (), *, harvested: bool = False
) -> Context:
    """Context of a recorded worker of a release; `entries` extend its catalogue.

    With `harvested`, the catalogue is that of the release's jars.
    """
    entries = tuple(entries)
    listed: list[Mapping[str, Any]] = [*({"class": name} for name in CONNECTORS), *entries]
    text = harvested_catalogue(release, entries) if harvested else json.dumps(listed).encode()
    plugins = catalogued(text)
    return Context(profile=Profile.of(release), worker=WORKER, plugins=plugins)


def ours(config: ConfigBody, context: Context) -> ValidationAnswer:
    """Our answer under the context's release; a valid config is not posted."""
    result = validate(config, context)
    answer = ValidationAnswer(None, None)
    if isinstance(result, Validation):
        answer = with_digests(None, msgspec.to_builtins(result))
        if not result.error_count:
            return answer
    posted = config if config.get("name") is not None else config | {"name": ""}
    refused = refusal(posted, context)
    text = None if refused is None else f"{CODES[refused.reason]} {refused.text}"
    return answer._replace(refused=text)


def with_digests(refused: str | None, result: Any) -> ValidationAnswer:
    """The answer with digests of a validation's result, which loses its documentation.

    Releases name the order of a key in its group differently; the digest has one name for it.
    """
    definitions = [
        config["definition"] for config in result["configs"] if config["definition"] is not None
    ]
    documentation = digest_of_all([definition.pop("documentation") for definition in definitions])
    for definition in definitions:
        if "order_in_group" in definition:
            definition["order"] = definition.pop("order_in_group")
    whole = hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()[:12]
    return ValidationAnswer(refused, whole, documentation)


class RecordedValidation(NamedTuple):
    """A config and the answers of workers, by release."""

    config: ConfigBody
    answers: Mapping[str, ValidationAnswer]


def read(file: Path = FILE) -> list[RecordedValidation]:
    """Read all recorded answers of a file."""
    return [_line(json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def _line(line: Any) -> RecordedValidation:
    texts = {release: text for text, releases in line["refused"] for release in releases}
    digests, documentation = line["digests"], line["documentation"]
    answers = {
        name: ValidationAnswer(text, digests.get(name), documentation.get(name))
        for name, text in texts.items()
    }
    return RecordedValidation(line["config"], answers)


def write(recorded: list[RecordedValidation], file: Path = FILE) -> None:
    """Write all answers to the file: one line per config, equal answers of releases together."""
    lines = []
    for validation in recorded:
        said: dict[str | None, list[str]] = {}
        for release, answer in validation.answers.items():
            said.setdefault(answer.refused, []).append(release)
        digests = {
            name: answer.digest for name, answer in validation.answers.items() if answer.digest
        }
        documentation = {
            name: answer.documentation
            for name, answer in validation.answers.items()
            if answer.documentation
        }
        line = {"config": validation.config, "refused": list(said.items()), "digests": digests}
        lines.append(json.dumps(line | {"documentation": documentation}))
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
