"""Configs that name missing or faulty classes, in every place for a class.

The classes are those of `java/`. `CATALOGUE` declares them, as an operator would.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.validation.cases import APACHE, SINK, SOURCE, TRANSFORM, ConfigBody

JAVA = Path(__file__).parent / "java"
OLDER_JAVA = JAVA / "classes"
"""The part of `java/` with which a worker older than 3.6 can start."""

OLDER = ("2.8.2", "3.0.2", "3.2.0", "3.4.1")
"""Releases whose workers do not start if a connector class cannot be instantiated."""

DEFECTS = {
    "Abstract": "abstract",
    "Demanding": "no suitable constructor",
    "Private": "private constructor",
    "Throwing": "constructor throws",
}
"""Simple names of classes with their defects, as a catalogue words them."""

_KINDS = {
    "Converters": ("converter", "header_converter"),
    "Transformations": ("transformation",),
    "Predicates": ("predicate",),
}

_KEYS: list[dict[str, Any]] = [{"name": "prop", "type": "BOOLEAN", "required": True}]
_KEYS = [{**key, "importance": "HIGH"} for key in _KEYS]


def _declared() -> Iterator[dict[str, Any]]:
    yield {"class": "lab.Connectors$Sound", "type": "sink", "version": "1", "config": []}
    for outer, kinds in _KINDS.items():
        for kind in kinds:
            config = _KEYS if outer == "Converters" else []
            yield {"class": f"lab.{outer}$Sound", "type": kind, "config": config}
            for name, defect in DEFECTS.items():
                yield {"class": f"lab.{outer}${name}", "type": kind, "defect": defect}
    for name, defect in DEFECTS.items():
        outer = "Connectors" if name == "Abstract" else "BrokenConnectors"
        yield {"class": f"lab.{outer}${name}", "type": "sink", "defect": defect}
    yield from (
        {"class": "lab.Converters$Undefined", "type": kind} for kind in _KINDS["Converters"]
    )


OUTER = tuple(_KINDS)

CATALOGUE = tuple(_declared())

NAMES = ("Sound", *DEFECTS)

_STRANGE = ("lab.Nowhere", f"{APACHE}file.FileStreamSinkConnector", "java.lang.String")
"""A missing class, a class of another type, and a class that is no plugin."""

_BROKEN = tuple(f"lab.BrokenConnectors${name}" for name in DEFECTS if name != "Abstract")


def cases() -> Iterator[ConfigBody]:
    """Yield every config to validate, each once."""
    for name in ("Connectors$Sound", "Connectors$Abstract", "Connectors", "Nowhere"):
        yield SINK | {"connector.class": f"lab.{name}"}
    yield from (SINK | {"connector.class": name} for name in _BROKEN)
    for key in ("key.converter", "value.converter", "header.converter"):
        yield SINK | {key: "lab.Converters$Sound", f"{key}.prop": "notaboolean"}
        yield SINK | {key: "lab.Converters$Sound", f"{key}.prop": "true"}
        for name in ("Undefined", *NAMES):
            yield SINK | {key: f"lab.Converters${name}"}
        yield from (SINK | {key: name} for name in (*_STRANGE, "lab.Converters"))
    yield SOURCE | {"key.converter": "lab.Nowhere", "value.converter": "lab.Converters$Throwing"}
    for listed, outer in (("transforms", "Transformations"), ("predicates", "Predicates")):
        own = (f"lab.{outer}${name}" for name in NAMES)
        for name in (*own, *_STRANGE, f"lab.{outer}"):
            yield SINK | {listed: "a", f"{listed}.a.type": name}
    yield SINK | {
        "transforms": "t",
        "transforms.t.type": "lab.Transformations$Throwing",
        "transforms.t.negate": "true",
    }
    yield SINK | {"transforms": "t, t", "transforms.t.type": f"{TRANSFORM}Filter"}


def cases_of(release: str) -> list[ConfigBody]:
    """Cases that a worker of this release can answer."""
    return [
        config
        for config in cases()
        if release not in OLDER or config["connector.class"] not in _BROKEN
    ]
