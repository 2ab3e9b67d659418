"""Random schemas and values, in the descriptions of the conversion harness."""

import json
import struct
from random import Random

from tests.oracle.described_values import SchemaDescription, ValueDescription, real

LOGICAL_PACKAGE = "org.apache.kafka.connect.data"

TEXTS = (
    *("", "a", "null", "true", "ü", "\U0001f600", "x\x1f\n", 'q"\\/', "1", "2024-01-31", "[1,2]"),
    *("\ud800", "a\u2028b", "12:30:00.000Z", "{a:1}", " b ", "AQID", "0x10"),
)
NAMES = ("a", "b", "id", "größe", "x y", "\U0001f600", "schema")
INTEGERS = {"INT8": 8, "INT16": 16, "INT32": 32, "INT64": 64}
REALS = (0.0, -0.0, 1.0, -1.5, 0.1, 1e7, 1e-3, 1e10, 123456.75, 1e-7, 3.0e38, 5e-324, 1.7e308)
NOT_FINITE = (float("nan"), float("inf"), float("-inf"))
DAY_MS = 86_400_000
LOGICAL = {
    "Date": ("INT32", "date"),
    "Time": ("INT32", "time"),
    "Timestamp": ("INT64", "datetime"),
}


# --- schemas ------------------------------------------------------------


def schema(random: Random, depth: int = 3) -> SchemaDescription:
    """Any schema; composite ones nest down to this depth."""
    if depth and random.random() < 0.57:
        described = random.choice(COMPOSITE)(random, depth - 1)
    else:
        described = random.choice((_primitive, _primitive, _logical))(random)
    described["optional"] = random.random() < 0.4
    if "name" not in described and random.random() < 0.2:
        described["name"] = random.choice(("Name", "com.example.Größe"))
    if random.random() < 0.2:
        described["version"] = random.choice((0, 1, 7, -3, 2**31 - 1))
    if random.random() < 0.1:
        described["doc"] = random.choice(TEXTS[1:])
    if "parameters" not in described and random.random() < 0.1:
        described["parameters"] = {name: random.choice(TEXTS) for name in random.sample(NAMES, 2)}
    if random.random() < 0.25 and "STRUCT" not in json.dumps(described):
        described["default"] = value(random, described | {"optional": False})
    return described


def _primitive(random: Random) -> SchemaDescription:
    kinds = (*INTEGERS, "FLOAT32", "FLOAT64", "BOOLEAN", "STRING", "BYTES")
    return {"type": random.choice(kinds)}


def _logical(random: Random) -> SchemaDescription:
    name = random.choice((*LOGICAL, "Decimal"))
    if name != "Decimal":
        return {"type": LOGICAL[name][0], "name": f"{LOGICAL_PACKAGE}.{name}", "version": 1}
    scale = {"scale": random.choice(("0", "2", "2", "18", "-3"))}
    return {
        "type": "BYTES",
        "name": f"{LOGICAL_PACKAGE}.Decimal",
        "version": 1,
        "parameters": scale,
    }


def _array(random: Random, depth: int) -> SchemaDescription:
    return {"type": "ARRAY", "value": schema(random, depth)}


def _map(random: Random, depth: int) -> SchemaDescription:
    key = {"type": "STRING", "optional": random.random() < 0.1}
    if random.random() < 0.4:
        key = schema(random, 0)
        key = {**key, "type": "STRING"} if key["type"] == "BYTES" else key
    while json.dumps(key).count(LOGICAL_PACKAGE + ".Decimal") or "default" in key:
        key = {"type": "INT64", "optional": False}
    return {"type": "MAP", "key": key, "value": schema(random, depth)}


def _struct(random: Random, depth: int) -> SchemaDescription:
    names = random.sample(NAMES, random.randrange(5))
    return {"type": "STRUCT", "fields": [[name, schema(random, depth)] for name in names]}


COMPOSITE = (_array, _map, _struct, _struct)


# --- values ------------------------------------------------------------


def value(random: Random, described: SchemaDescription, wild: float = 0.0) -> ValueDescription:
    """A value of a schema; with probability `wild`, a part of it does not fit."""
    if random.random() < wild:
        return random.choice((["null"], anything(random), anything(random)))
    if described["optional"] and random.random() < 0.25:
        return ["null"]
    name = described.get("name", "").rpartition(".")[2]
    if described.get("name", "").startswith(LOGICAL_PACKAGE):
        return _decimal(random, described) if name == "Decimal" else _date(random, name)
    kind = described["type"]
    if kind == "ARRAY":
        member = described["value"]
        return ["list", [value(random, member, wild) for _ in range(random.randrange(4))]]
    if kind == "MAP":
        return ["map", _entries(random, described, wild)]
    if kind == "STRUCT":
        return _fields(random, described, wild)
    return _scalar(random, kind)


def _scalar(random: Random, kind: str) -> ValueDescription:
    if kind in INTEGERS:
        return [f"i{INTEGERS[kind]}", str(_integer(random, INTEGERS[kind]))]
    match kind:
        case "FLOAT32":
            narrow = struct.unpack(">f", random.randbytes(4))[0]
            few = [number for number in REALS if abs(number) < 3.4e38]
            chosen = random.choice((narrow, random.choice((*few, *NOT_FINITE))))
            return ["f32", real(struct.unpack(">f", struct.pack(">f", chosen))[0])]
        case "FLOAT64":
            many = random.choice(REALS), random.uniform(-1e9, 1e9), random.choice(NOT_FINITE)
            return ["f64", real(random.choice((*many[:2], *many[:2], many[2])))]
        case "BOOLEAN":
            return ["boolean", random.random() < 0.5]
        case "STRING":
            return ["string", random.choice(TEXTS)]
        case _:
            return ["bytes", random.randbytes(random.randrange(6)).hex()]


def _integer(random: Random, bits: int) -> int:
    edges = (0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)))
    return random.choice((*edges, random.randrange(-100, 100)))


def _decimal(random: Random, described: SchemaDescription) -> ValueDescription:
    scale = int(described["parameters"]["scale"])
    scale = random.choice((scale, scale, scale, scale, scale + 1))
    unscaled = random.choice((0, 1, -1, 127, 128, -128, -129, 12345, -(10**25), 2**64))
    return ["decimal", str(unscaled), scale]


def _date(random: Random, name: str) -> ValueDescription:
    if name == "Time":
        return ["date", str(random.choice((0, 1, 45_296_789, DAY_MS - 1))), "time"]
    days = random.choice((0, 1, -1, 19_000, -200_000, 2_932_896, -719_162, 11_016))
    rest = random.choice((0, 1, 45_296_789)) if name == "Timestamp" else 0
    return ["date", str(days * DAY_MS + rest), LOGICAL[name][1]]


def _entries(
    random: Random, described: SchemaDescription, wild: float
) -> list[list[ValueDescription]]:
    pairs = (
        [value(random, described["key"]), value(random, described["value"], wild)]
        for _ in range(random.randrange(4))
    )
    return list({json.dumps(pair[0]): pair for pair in pairs}.values())


def _fields(random: Random, described: SchemaDescription, wild: float) -> ValueDescription:
    values = [value(random, field, wild / 4) for _, field in described["fields"]]
    return ["struct", described, values]


def anything(random: Random, depth: int = 2) -> ValueDescription:
    """A value that a schemaless connector may have, of Java's usual classes."""
    kinds = ["INT64", "FLOAT64", "BOOLEAN", "STRING", "STRING", "BYTES"]
    kind = random.choice([*kinds, *(["list", "map", "odd"] if depth else [])])
    if kind == "list":
        return ["list", [_member(random, depth) for _ in range(random.randrange(4))]]
    if kind == "map":
        keys = random.choice((list(TEXTS), list(TEXTS), [*TEXTS[:4], 1, 2]))
        chosen = random.sample(keys, random.randrange(4))
        described = [
            ["string", key] if isinstance(key, str) else ["i64", str(key)] for key in chosen
        ]
        return ["map", [[key, _member(random, depth)] for key in described]]
    if kind == "odd":
        odd = (["decimal", "125", 2], ["big", str(2**70)], ["date", "0", "datetime"])
        return list(random.choice(odd))
    return _scalar(random, kind)


def _member(random: Random, depth: int) -> ValueDescription:
    return ["null"] if random.random() < 0.1 else anything(random, depth - 1)
