"""The connectors and the package files of `docs/connectors.md` work as they are printed."""

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import pytest

from controlplane.connect import Sink, Source
from controlplane.plugins import GROUP
from controlplane.settings import providers
from controlplane.settings.properties import properties_in
from controlplane.worker.blocking_trial import StartTrial
from tests.examples.test_embedding import EXAMPLES

TEXT = (EXAMPLES.parent / "docs" / "connectors.md").read_text("utf-8")
PACKAGING = TEXT[TEXT.index("\n## Package it\n") :]


def blocks(language: str, text: str = TEXT) -> list[str]:
    """Code blocks in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def defined(name: str) -> Any:
    """Class that one block of the document defines."""
    (block,) = (block for block in blocks("python") if f"\nclass {name}(" in block)
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(block, "connectors.md", "exec"), names)
    return names[name]


@pytest.fixture
def in_file(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Source]]:
    """`Readings` of the example."""
    monkeypatch.syspath_prepend(str(EXAMPLES / "connectors"))
    yield import_module("readings").Readings
    del sys.modules["readings"]


@pytest.fixture
def in_document() -> type[Source]:
    """`Readings` of the document."""
    readings: type[Source] = defined("Readings")
    return readings


@pytest.mark.parametrize("place", ["in_file", "in_document"])
def test_every_reading_is_in_the_topic_once(
    place: str, connector_trial: StartTrial, request: pytest.FixtureRequest
) -> None:
    """Every reading is in the topic once, with its sensor as the key; the last is committed."""
    readings = request.getfixturevalue(place)
    config = {"topic": "t", "sensor": "cellar", "count": "3"}
    json_values = "org.apache.kafka.connect.json.JsonConverter"
    config |= {"value.converter": json_values, "value.converter.schemas.enable": "false"}
    run = connector_trial(readings, config)
    assert run.offsets({"number": 3}) == [({"sensor": "cellar"}, {"number": 3})]
    records = run.records("t", 3)
    assert [record.key for record in records] == [b"cellar"] * 3
    assert [json.loads(record.value or b"") for record in records] == [
        {"number": 1, "celsius": 24.2},
        {"number": 2, "celsius": 24.5},
        {"number": 3, "celsius": 20.7},
    ]


def test_the_sink_writes_each_record_as_a_line(connector_trial: StartTrial, tmp_path: Path) -> None:
    """The sink of the document writes each record as a line, before its offset is committed."""
    lines: type[Sink] = defined("Lines")
    out = tmp_path / "out.txt"
    run = connector_trial(lines, {"topics": "t", "file": str(out)})
    run.produce("t", ["a", "b"])
    run.consumed("t", 2)
    assert out.read_text() == "a\nb\n"


def declared_points() -> dict[str, dict[str, str]]:
    """Entry points that the package files declare, by group."""
    points: dict[str, dict[str, str]] = {}
    for block in blocks("toml", PACKAGING):
        points |= tomllib.loads(block)["project"]["entry-points"]
    return points


def test_package_files_declare_the_classes() -> None:
    """The groups are those that a worker looks for, and each value names a module and a class."""
    declared = declared_points()
    assert declared.keys() == {GROUP, providers.GROUP}
    for group, points in declared.items():
        for name, value in points.items():
            point = metadata.EntryPoint(name, value, group)
            assert point.module.startswith("example.")
            assert f"`{point.module}.{point.attr}`" in TEXT or f"class {point.attr}(" in TEXT


def test_the_worker_uses_the_declared_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings name the declared class, and its parameters reach it."""
    (text,) = (text for text in blocks("properties", PACKAGING) if "providers=vault" in text)
    settings = {entry.key: entry.value for entry in properties_in(text)}
    assert settings.pop("config.providers") == "vault"
    class_name = settings.pop("config.providers.vault.class")
    (declared,) = declared_points()[providers.GROUP].items()
    point = metadata.EntryPoint(*declared, providers.GROUP)
    assert class_name == f"{point.module}.{point.attr}"
    vault = defined(point.attr)
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda _: vault)
    monkeypatch.setattr(metadata, "entry_points", lambda **_: [point])
    prefix = "config.providers.vault.param."
    parameters = {key.removeprefix(prefix): value for key, value in settings.items()}
    assert parameters == {"address": "https://vault:8200"}
    vaults = providers.Providers({"vault": class_name}, {}, {"vault": parameters})
    vaults.load()
    assert vaults.missing == {}
    resolved = vaults.of_connector("password", "${vault:orders:password}")
    assert (resolved.text, dict(resolved.ttls_ms)) == ("s3cret", {"vault:orders": 600_000})
