"""Random questions about conversions, for Kafka's converters and for ours."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.oracle.described_values import SchemaDescription
from tests.oracle.random_documents import date_string, document, header
from tests.oracle.random_typed_values import (
    INTEGERS,
    LOGICAL_PACKAGE,
    TEXTS,
    anything,
    schema,
    value,
)

ConversionQuestion = dict[str, Any]

PACKAGE = "org.apache.kafka.connect"
JSON = f"{PACKAGE}.json.JsonConverter"
SIMPLE = f"{PACKAGE}.storage.SimpleHeaderConverter"
STRING = f"{PACKAGE}.storage.StringConverter"
NUMBERS = ("Short", "Integer", "Long", "Float", "Double")
KINDS = (*NUMBERS, "Boolean", "ByteArray")
PLAIN = tuple(f"{PACKAGE}.converters.{kind}Converter" for kind in KINDS)
SIZES = {"Short": 2, "Integer": 4, "Long": 8, "Float": 4, "Double": 8}
ENCODINGS = (
    *("UTF-8", "ISO-8859-1", "US-ASCII", "UTF-16", "UTF-16LE", "UTF-16BE"),
    *("no-charset", "hex", "utf-7"),
)


def questions(seed: str, count: int) -> Iterator[ConversionQuestion]:
    """Questions of all kinds, in turn."""
    random = Random(seed)
    makers = (
        *(_encoded_json, _decoded_json, _decoded_json, _encoded_header, _decoded_header),
        *(_decoded_date, _encoded_text, _decoded_text, _plain, _plain, _validated, _projected),
    )
    for number in range(count):
        yield makers[number % len(makers)](random)


def _settings(random: Random) -> dict[str, str]:
    choices = {
        "schemas.enable": ("true", "true", "false"),
        "decimal.format": ("BASE64", "numeric"),
        "replace.null.with.default": ("true", "false"),
    }
    return {name: random.choice(texts) for name, texts in choices.items()}


def _typed(random: Random, wild: float) -> dict[str, Any]:
    if random.random() < 0.25:
        return {"schema": None, "value": anything(random)}
    described = schema(random)
    return {"schema": described, "value": value(random, described, wild)}


def _encoded_json(random: Random) -> ConversionQuestion:
    typed = _typed(random, random.choice((0, 0, 0.2)))
    return {"op": "encode", "class": JSON, "config": _settings(random), **typed}


def _decoded_json(random: Random) -> ConversionQuestion:
    raw = document(random).hex()
    return {"op": "decode", "class": JSON, "config": _settings(random), "bytes": raw}


def _encoded_header(random: Random) -> ConversionQuestion:
    return {"op": "encode", "class": SIMPLE, "config": {}, **_typed(random, 0)}


def _decoded_header(random: Random) -> ConversionQuestion:
    return {"op": "decode", "class": SIMPLE, "config": {}, "bytes": header(random).hex()}


def _decoded_date(random: Random) -> ConversionQuestion:
    return {"op": "decode", "class": SIMPLE, "config": {}, "bytes": date_string(random).hex()}


def _encoded_text(random: Random) -> ConversionQuestion:
    config = {"converter.encoding": random.choice(ENCODINGS)}
    return {"op": "encode", "class": STRING, "config": config, **_typed(random, 0)}


def _decoded_text(random: Random) -> ConversionQuestion:
    config = {"converter.encoding": random.choice(ENCODINGS)}
    odd = (b"\xff\xfea\0", b"\xfe\xff\0a", b"\xed\xa0\x80", b"\xe2\x82", b"\xc3\xbc", b"a\xff", b"")
    raw = random.choice((*odd, random.choice(TEXTS).encode("utf-8", "replace")))
    return {"op": "decode", "class": STRING, "config": config, "bytes": raw.hex()}


def _plain(random: Random) -> ConversionQuestion:
    name = random.choice(PLAIN)
    if random.random() < 0.5:
        fitting = SIZES.get(name.rpartition(".")[2].removesuffix("Converter"), 1)
        size = random.choice((0, 1, 2, 3, 4, 8, *[fitting] * 6))
        raw = random.choice((random.randbytes(size), bytes(size), b"\x01" * size))
        return {"op": "decode", "class": name, "config": {}, "bytes": raw.hex()}
    kind = name.rpartition(".")[2].removesuffix("Converter")
    types = {"Short": "INT16", "Integer": "INT32", "Long": "INT64", "Float": "FLOAT32"}
    types |= {"Double": "FLOAT64", "Boolean": "BOOLEAN", "ByteArray": "BYTES"}
    described = {"type": types[kind], "optional": True}
    written = value(random, described, 0.3)
    schema = random.choice((None, described, {"type": "STRING", "optional": True}))
    return {"op": "encode", "class": name, "config": {}, "schema": schema, "value": written}


def _validated(random: Random) -> ConversionQuestion:
    described = schema(random)
    return {"op": "validate", "schema": described, "value": value(random, described, 0.15)}


PROMOTED = (*INTEGERS, "FLOAT32", "FLOAT64")


def _projected(random: Random) -> ConversionQuestion:
    source = schema(random)
    target = _changed(random, source)
    return {"op": "project", "schema": source, "value": value(random, source), "target": target}


def _changed(random: Random, source: SchemaDescription) -> SchemaDescription:
    """Another version of a schema: larger numbers, more or fewer fields, other defaults."""
    target = {name: part for name, part in source.items() if name != "default"}
    if target["type"] in PROMOTED and "name" not in target and random.random() < 0.7:
        rank = PROMOTED.index(target["type"])
        target["type"] = random.choice(PROMOTED[rank:] if random.random() < 0.9 else PROMOTED)
    for member in ("key", "value"):
        if member in target:
            target[member] = _changed(random, target[member])
    if "fields" in target:
        kept = [field for field in target["fields"] if random.random() < 0.85]
        target["fields"] = [[name, _changed(random, field)] for name, field in kept]
        if random.random() < 0.3:
            target["fields"].append(["new", schema(random, 0)])
    if random.random() < 0.15:
        target["optional"] = not target["optional"]
    if random.random() < 0.04:
        target["name"] = "Other"
    if random.random() < 0.04 and not target.get("name", "").startswith(LOGICAL_PACKAGE):
        target["parameters"] = {"p": "q"}
    if random.random() < 0.3 and "STRUCT" not in json.dumps(target):
        target["default"] = value(random, target | {"optional": False})
    return target
