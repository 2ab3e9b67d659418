"""Settings and their descriptions in `controlplane/catalogues/`, read as plain JSON."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.core.plugins.descriptions import scope_of
from tests.conftest import ROOT

FOLDER = ROOT / "controlplane" / "catalogues"
HIDDEN = "internal."
"""Prefix of settings for which Kafka itself has no documentation."""

Setting = tuple[str, str]
"""Scope and name. The scope is a key of `definitions.json`, or a class without its variant."""


def catalogue(name: str) -> Any:
    """JSON content of a catalogue file."""
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def settings() -> Iterator[Setting]:
    """Every setting of every release; two variants of a class repeat theirs."""
    for scope, keys in catalogue("definitions.json").items():
        yield from ((scope, key["name"]) for key in keys)
    for plugin in catalogue("plugins.json"):
        yield from ((scope_of(plugin["class"]), key["name"]) for key in plugin.get("config", ()))


def descriptions() -> Mapping[Setting, str]:
    """Description of each setting."""
    return {
        (scope, name): text
        for scope, texts in catalogue("descriptions.json").items()
        for name, text in texts.items()
    }
