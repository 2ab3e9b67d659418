"""`controlplane/catalogues/` holds the definitions of Kafka's own classes."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import pytest

from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.plugins import ClassPath, Plugin, Plugins, with_descriptions
from controlplane.core.releases.profiles import RELEASES, Profile
from controlplane.plugins import kafkas_own
from tests.conftest import sampled
from tests.harvested_catalogues import documentation
from tests.oracle import definitions
from tests.oracle.definitions import ASKED, CLIENTS, FOLDER, MIRRORS, documents, plain

answer = cache(definitions.answer)

SOME = ("2.8.2", "3.6.2", "3.9.1", "4.1.1", "4.3.0")
"""Releases from which the files were made, and others between them."""


def test_releases_exist() -> None:
    """All releases exist, oldest first, without repetition."""
    assert list(ASKED) == [release for release in RELEASES if release in ASKED]


@pytest.fixture(params=sampled(SOME, "2.8.2", "3.9.1", "4.3.0"))
def release(request: pytest.FixtureRequest) -> str:
    """Each release that Kafka was asked about."""
    return str(request.param)


def class_path(release: str) -> ClassPath:
    """Class path of a release: all plugins of Kafka with their documentation."""
    own = with_descriptions(kafkas_own(), documentation(release))
    return Plugins(own.plugins, own).at(Profile.of(release))


def comparable_keys(keys: Iterable[ConfigKey]) -> list[dict[str, Any]]:
    """Keys in the form of Kafka's answer, for comparison."""
    names = ("type", "required", "default", "importance", "documentation", "group", "order")
    return [
        {"name": key.name, "width": key.width, "display_name": key.display_name}
        | {name: getattr(key, name) for name in names}
        for key in keys
    ]


def kafkas_keys(keys: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keys of Kafka's answer, for comparison."""
    return [
        {name: value for name, value in key.items() if name not in {"valid", "dependents"}}
        | {"default": key.get("default"), "required": bool(key.get("required"))}
        | {"documentation": key["documentation"] or ""}
        for key in keys
    ]


@pytest.mark.java
def test_definitions_are_kafkas(release: str) -> None:
    """Our definitions of connectors and clients equal Kafka's."""
    kafka, path = answer(release), class_path(release)
    connector = path.definition("connector")
    assert comparable_keys(connector) == kafkas_keys(kafka["connector"])
    for kind in ("source", "sink"):
        assert comparable_keys((*connector, *path.definition(kind))) == kafkas_keys(kafka[kind])
    for client in CLIENTS:
        assert comparable_keys(path.definition(client)) == kafkas_keys(kafka[client])


@pytest.mark.java
def test_valid_values_are_kafkas(release: str) -> None:
    """The words of validators equal Kafka's, for connectors only: client overrides have none."""
    kafka, path = answer(release), class_path(release)
    for kind in ("source", "sink"):
        keys = (*path.definition("connector"), *path.definition(kind))
        words = {key["name"]: plain(key).get("valid", []) for key in kafka[kind]}
        assert {key.name: list(key.valid) for key in keys} == words


@pytest.mark.java
def test_plugins_are_kafkas(release: str) -> None:
    """The catalogue has exactly Kafka's plugins, each with its keys."""
    kafka, path = answer(release), class_path(release)
    told_of = {(plugin["class"], kind_of(plugin)): plugin["config"] for plugin in kafka["plugins"]}
    ours = {(plugin.class_name, plugin.type): plugin for plugin in path.plugins}
    assert (
        told_of.keys() | {k for k, plugin in ours.items() if _is_unlisted(plugin, release)}
        == ours.keys()
    )
    for name, config in told_of.items():
        if config is not None and not _old_mirror(name[0], release):
            keys = path.keys_of(ours[name])
            assert keys is not None
            assert comparable_keys(keys) == kafkas_keys(config)


def kind_of(plugin: Mapping[str, Any]) -> str:
    """Kind of a plugin; for a connector, source or sink."""
    return definitions.KINDS.get(plugin["among"], str(plugin["type"]))


def _is_unlisted(plugin: Plugin, release: str) -> bool:
    """True for plugins that are not on every class path, or listed since 3.2 only."""
    older = Profile.of(release).within(None, "3.2.0")
    return plugin.class_name.startswith(MIRRORS) or (plugin.type == "header_converter" and older)


def _old_mirror(name: str, release: str) -> bool:
    """True up to 3.3: MirrorMaker's connectors shared one definition, in another order."""
    return name.startswith(MIRRORS) and Profile.of(release).within(None, "3.4.0")


@pytest.mark.java
@pytest.mark.prove
def test_files_are_current() -> None:
    """A new run gives the committed files (else: `python -m tests.oracle.definitions`)."""
    for name, text in documents().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text
