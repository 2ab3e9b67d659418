"""Kafka's answers and ours to questions about conversions."""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from controlplane.connect.converters import (
    Converter,
    HeaderConverter,
    SimpleHeaderConverter,
    converter_for,
)
from controlplane.connect.data import SchemaAndValue, project, validate
from controlplane.connect.errors import ConnectError, DataError
from tests.oracle.conversion_cases import SIMPLE, ConversionQuestion
from tests.oracle.described_values import (
    described_schema,
    described_value,
    schema_of,
    value_of,
)
from tests.oracle.kafka import HEAP, harness, line_answers, release_path

CONVERSIONS = Path(__file__).parent / "conversions"
RELEASE = "3.9.1"

ConversionAnswer = dict[str, Any]
"""`bytes`, `schema` and `value`, `valid`, or `error` with its `message`."""


def kafkas_answers(questions: Iterable[ConversionQuestion]) -> list[ConversionAnswer]:
    """Answers of Kafka's classes, in one Java process whose time zone is UTC."""
    path = harness(CONVERSIONS, RELEASE), release_path(RELEASE)
    options = (HEAP, "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC", "-Duser.language=en")
    return line_answers("Conversions", path, map(json.dumps, questions), *options)


def our_answer(question: ConversionQuestion) -> ConversionAnswer:
    """Return our answer to a question, in the form of Kafka's."""
    try:
        return _answered(question)
    except DataError as error:
        return {"error": "DataException", "message": str(error)}
    except ConnectError as error:
        return {"error": "ConnectException", "message": str(error)}


def _answered(question: ConversionQuestion) -> ConversionAnswer:
    match question["op"]:
        case "encode":
            datum = SchemaAndValue(value_of(question["value"]), schema_of(question["schema"]))
            raw = _encoded(question, datum)
            return {"bytes": None if raw is None else raw.hex()}
        case "decode":
            datum = _decoded(question, bytes.fromhex(question["bytes"]))
            schema = described_schema(datum.schema)
            return {"schema": schema, "value": described_value(datum.value)}
        case "validate":
            schema_to_check = schema_of(question["schema"])
            assert schema_to_check is not None
            validate(schema_to_check, value_of(question["value"]))
            return {"valid": True}
        case _:
            source, target = schema_of(question["schema"]), schema_of(question["target"])
            assert source is not None
            assert target is not None
            projected = project(source, value_of(question["value"]), target)
            return {"value": described_value(projected)}


def _encoded(question: ConversionQuestion, datum: SchemaAndValue) -> bytes | None:
    if question["class"] == SIMPLE:
        return _headers().from_header("t", "h", datum)
    return _converter(question["class"], json.dumps(question["config"])).from_connect("t", datum)


def _decoded(question: ConversionQuestion, raw: bytes) -> SchemaAndValue:
    if question["class"] == SIMPLE:
        return _headers().to_header("t", "h", raw)
    return _converter(question["class"], json.dumps(question["config"])).to_connect("t", raw)


@cache
def _converter(class_name: str, config: str) -> Converter:
    converter = converter_for(class_name)
    converter.configure(json.loads(config), is_key=False)
    return converter


@cache
def _headers() -> HeaderConverter:
    return SimpleHeaderConverter()
