"""Checks answers against Connect's OpenAPI description, as far as that uses JSON Schema."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

DescribedSchema = Mapping[str, Any]

_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def kafkas_description(shared: Path, line: str) -> Path:
    """Kafka's own OpenAPI file of a release line; a test without these files is skipped.

    The project does not contain them: the Apache Kafka site publishes them.
    """
    path = shared / "openapi" / f"connect_rest_{line.replace('.', '')}.yaml"
    if not path.parent.is_dir():
        pytest.skip("needs the folder ../shared/openapi")
    return path


class Description:
    """OpenAPI description of one release."""

    def __init__(self, path: Path) -> None:
        whole = yaml.safe_load(path.read_text())
        self._paths: Mapping[str, Any] = whole["paths"]
        self._schemas: Mapping[str, DescribedSchema] = whole["components"]["schemas"]

    def has(self, template: str) -> bool:
        """True if the release has this endpoint with GET."""
        return "get" in self._paths.get(template, {})

    def faults(self, template: str, answer: Any) -> list[str]:
        """Faults of an endpoint's answer, each with its place."""
        content = self._paths[template]["get"]["responses"]["default"]["content"]
        return list(self._faults(answer, content["application/json"].get("schema", {}), "$"))

    def _faults(self, value: Any, schema: DescribedSchema, place: str) -> Iterator[str]:
        if "$ref" in schema:
            schema = self._schemas[schema["$ref"].rpartition("/")[2]]
        kind = schema.get("type")
        if kind is None or _is_anything(schema):
            return
        if not isinstance(value, _KINDS[kind]) or (kind == "integer" and value is True):
            yield f"{place} is no {kind}: {value!r}"
        elif value not in schema.get("enum", [value]):
            yield f"{place} is none of {schema['enum']}: {value!r}"
        elif isinstance(value, list):
            for index, element in enumerate(value):
                yield from self._faults(element, schema["items"], f"{place}[{index}]")
        elif isinstance(value, dict):
            yield from self._faults_of_object(value, schema, place)

    def _faults_of_object(
        self, value: Mapping[str, Any], schema: DescribedSchema, place: str
    ) -> Iterator[str]:
        """Yield faults of an object; an undescribed member is one, unlike in JSON Schema."""
        properties, rest = schema.get("properties", {}), schema.get("additionalProperties")
        for name, member in value.items():
            if name not in properties and rest is None:
                yield f"{place} has an unknown member {name}"
            else:
                yield from self._faults(member, properties.get(name, rest), f"{place}.{name}")


def _is_anything(schema: DescribedSchema) -> bool:
    """True for Java's `Object`, which is described as an object without properties."""
    return dict(schema) == {"type": "object"}
