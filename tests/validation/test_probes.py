"""Comparison with a real worker 3.9.1: our answers to recorded requests are equal, to the letter.

The documentation of keys is compared with a catalogue harvested from Kafka's jars.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
import pytest

from controlplane.core.context import Context, DecisionSettings
from controlplane.core.java.java_library import trim
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.core.validation import ValidationFailure, refusal, validate
from controlplane.plugins import catalogued
from tests.documentation_digests import without_sentences
from tests.harvested_catalogues import with_documentation
from tests.validation.answers import CODES

pytestmark = pytest.mark.shared

VALIDATIONS = (
    *("Connector configuration is invalid", "Connector config {", "Failed to find any class"),
    *("Instantiation error", "Invalid value ", "Could not read properties"),
)
"""Prefixes of refusals by validation; other texts have other causes."""

PROVIDED = {1898, 1899, 1900, 1901, 1903, 1904}
"""Probes whose configs get values from a file provider. We read no secrets and trust the config."""

ROWS = 250
"""Number of requests about validation in the file: a faulty filter would change it."""


class ValidationRow(NamedTuple):
    """A recorded request about configs, and its answer."""

    number: int
    world: str
    method: str
    path: str
    body: Any
    status: int
    answer: Any


class Probes(NamedTuple):
    """Requests about configs, and the workers that they were sent to."""

    rows: list[ValidationRow]
    workers: Mapping[str, DecisionSettings]
    listed: list[Any]
    """Plugins that the catalogue lists."""


@pytest.fixture(scope="module")
def probes(shared: Path, histories: Path) -> Probes:
    """Requests and answers about configs of the recording."""
    lines = (shared / "probes" / "probe-3.9.1.jsonl").read_text(encoding="utf-8").split("\n")
    records = [json.loads(line) for line in lines[1:] if line]
    workers = {
        record["world"]: _worker(next(iter(record["workers"].values())))
        for record in records
        if record.get("kind") == "world"
    }
    rows = [row for record in records if "method" in record for row in _about_configs(record)]
    answers = {record.get("path"): record.get("answer") for record in records}
    return Probes(rows, workers, _listed(answers, histories))


def _worker(settings: Mapping[str, str]) -> DecisionSettings:
    providers = settings.get("config.providers", "")
    return DecisionSettings(
        group_id=f"{settings.get('cluster', 'connect')}-cluster",
        override_policy=settings.get("connector.client.config.override.policy"),
        exactly_once_source=settings.get("exactly.once.source.support") == "enabled",
        config_providers=tuple(filter(None, providers.split(","))),
    )


def _listed(answers: Mapping[Any, Any], histories: Path) -> list[Any]:
    """Plugins as the worker listed them; the catalogue of the histories has the rest."""
    listed = json.loads(answers["/connector-plugins?connectorsOnly=false"])
    described = json.loads((histories / "catalogue.json").read_bytes())[0]
    keys = {key["name"]: key for key in described["config"]}
    document = json.loads(answers[f"/connector-plugins/{described['class']}/config"])
    config = [key | keys[key["name"]] for key in document if key["name"] in keys]
    return [
        described | {"config": config} if plugin["class"] == described["class"] else plugin
        for plugin in listed
    ]


def _about_configs(record: Mapping[str, Any]) -> Iterator[ValidationRow]:
    path = (record.get("path") or "").partition("?")[0].rstrip("/")
    config = path == "/connectors" or path.endswith(("/config", "/config/validate"))
    if record["method"] not in {"POST", "PUT"} or not config or not record.get("body"):
        return
    try:
        body = json.loads(record["body"], parse_float=str, parse_int=str)
        answer = json.loads(record["answer"])
    except json.JSONDecodeError:
        return
    row = ValidationRow(
        record["n"], record["world"], record["method"], path, body, record["status"], answer
    )
    if isinstance(_config(row), dict) and _of_validation(row):
        yield row


def _config(row: ValidationRow) -> Any:
    """The config of a request, with its name; None if it has no valid one."""
    config = row.body
    if row.path == "/connectors":
        config = row.body.get("config") if isinstance(row.body, dict) else None
    if not isinstance(config, dict) or any(
        isinstance(value, dict | list) for value in config.values()
    ):
        return None
    texts = {
        key: json.dumps(value) if isinstance(value, bool) else value
        for key, value in config.items()
    }
    if row.path.endswith("/validate") or texts.get("name") is not None:
        return texts
    name = row.body.get("name") if row.path == "/connectors" else unquote(row.path.split("/")[2])
    name = json.dumps(name) if isinstance(name, bool) else name
    return texts | {"name": trim(name or "")} if not isinstance(name, dict | list) else None


def _of_validation(row: ValidationRow) -> bool:
    """True if validation gave the recorded answer, or if the config is valid."""
    if row.path.endswith("/validate"):
        words = row.answer.get("message", "")
        return "configs" in row.answer or words.partition(": ")[2].startswith(VALIDATIONS)
    if row.status in {200, 201, 409}:
        return "message" not in row.answer or row.answer["message"].endswith("already exists")
    return str(row.answer["message"]).startswith(VALIDATIONS)


def _ours(row: ValidationRow, workers: Mapping[str, DecisionSettings], plugins: Plugins) -> Any:
    """Our answer; None for a valid config."""
    profile, worker = Profile.of("3.9.1"), workers[row.world]
    context = Context(profile=profile, worker=worker, plugins=plugins)
    if not row.path.endswith("/validate"):
        refused = refusal(_config(row), context)
        return None if refused is None else (CODES[refused.reason], refused.text)
    result = validate(_config(row), context)
    if isinstance(result, ValidationFailure):
        return 500, f"{result.thrown}: {result.text}"
    return msgspec.json.decode(msgspec.json.encode(result))


def _theirs(row: ValidationRow) -> Any:
    if "configs" in row.answer:
        return row.answer
    return (row.status, row.answer["message"]) if row.status in {400, 500} else None


def _plain(answer: Any) -> str:
    """An answer without the documentation of keys."""
    return without_sentences(json.dumps(answer, separators=(",", ":")))


def test_answers_equal_the_recorded_ones(probes: Probes) -> None:
    """Every answer is equal, apart from the documentation of keys."""
    assert len(probes.rows) == ROWS
    plugins = catalogued(json.dumps(probes.listed).encode())
    differing = {
        row.number
        for row in probes.rows
        if _plain(_ours(row, probes.workers, plugins)) != _plain(_theirs(row))
    }
    assert differing == PROVIDED


@pytest.mark.java
def test_documentation_is_kafkas_with_a_harvested_catalogue(probes: Probes) -> None:
    """With a harvested catalogue, whole results are equal, including the documentation."""
    plugins = catalogued(with_documentation("3.9.1", probes.listed))
    differing = {
        row.number for row in probes.rows if _ours(row, probes.workers, plugins) != _theirs(row)
    }
    assert differing == PROVIDED
